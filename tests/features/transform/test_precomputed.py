"""A user's aggregate is the plain mean, whatever the order of the rows."""

from itertools import permutations

import numpy as np

from features.transform.precomputed import user_means


def test_means_by_surface_and_user_in_any_order() -> None:
    draw = np.random.default_rng(1)
    surface = draw.choice(["story", "feed"], 60)
    user = draw.choice(np.array([0, -5, 2**53 + 1, 2**53], dtype=np.int64), 60)
    vectors = draw.normal(size=(60, 3)).astype(np.float32)
    names, users, means = user_means(surface, user, vectors)
    pairs = sorted(set(zip(surface.tolist(), user.tolist(), strict=True)))
    assert list(zip(names.tolist(), users.tolist(), strict=True)) == pairs
    for (name, ident), mean in zip(pairs, means, strict=True):
        mine = vectors[(surface == name) & (user == ident)].astype(np.float64)
        np.testing.assert_allclose(mean, mine.mean(axis=0), rtol=1e-5, atol=1e-9)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(60)
        again = user_means(surface[order], user[order], vectors[order])
        for one, other in zip((names, users, means), again, strict=True):
            np.testing.assert_array_equal(one, other)
    assert means.dtype == np.float32 and users.dtype == np.int64


def test_a_sum_that_depends_on_its_order_has_one_order() -> None:
    vectors = np.array([[1e30], [1], [-1e30], [2], [1e-30]], dtype=np.float32)
    surface, user = np.full(5, "feed"), np.full(5, 7)
    means = {float(user_means(surface, user, vectors[list(order)])[2][0, 0]) for order in permutations(range(5))}
    assert len(means) == 1


def test_one_pair_is_its_own_mean_and_no_pairs_have_none() -> None:
    vector = np.array([[0.1, -0.7]], dtype=np.float32)
    names, users, means = user_means(np.array(["feed"], dtype=object), np.array([7]), vector)
    assert names.tolist() == ["feed"] and users.tolist() == [7]
    np.testing.assert_array_equal(means, vector)
    nothing = user_means(np.array([], dtype=str), np.array([]), np.zeros((0, 2), dtype=np.float32))
    assert [len(part) for part in nothing] == [0, 0, 0] and nothing[2].shape == (0, 2)
