"""The bench `mixing`: labels have the planted chances, and its control is what the stored rates would do."""

import numpy as np

from benchmarks import mixing


def test_labels_have_their_chances_and_hardly_vary_in_number() -> None:
    rng = np.random.default_rng(0)
    chance, surface = rng.uniform(0, 0.3, 4000), rng.integers(0, 4, 4000)
    draws = np.stack([mixing.drawn(rng, chance, surface) for _ in range(400)])
    assert set(np.unique(draws)) == {0.0, 1.0}
    assert np.abs(draws.mean(0) - chance).max() < 0.13
    for place in range(4):
        counts = draws[:, surface == place].sum(1)
        assert np.abs(counts - chance[surface == place].sum()).max() <= 1


def test_clicks_are_viewed_and_as_rare_as_said() -> None:
    world = mixing.World.of(0)
    days = mixing.days_of(world, 0, 40_000)
    label = np.concatenate([rows.labels.label for rows in days if rows.labels])
    assert (label[:, 1] >= label[:, 0]).all()
    chance = world.chances(mixing.ids_of(np.random.default_rng(0), 100_000))
    assert 0.01 < chance[:, 0].mean() < 0.05


def test_the_control_trains_on_the_same_rows_with_the_stored_rates() -> None:
    day = mixing.days_of(mixing.World.of(0), 0, 8_000)[0]
    rows, _ = mixing.mixed(day, day, mixing.SCHEMA, mixing.MIXES[mixing.HALF])
    control = mixing._uncorrected(day, rows)
    np.testing.assert_array_equal(control.impression_id, rows.impression_id)
    assert set(control.columns["keep_rate"].values) == {0.5, 1.0}
    assert (control.columns["keep_rate"].values >= rows.columns["keep_rate"].values).all()
    assert control.labels.weight.max() == 2.0 < rows.labels.weight.max()
