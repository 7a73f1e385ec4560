"""Precomputed vectors of a run, on arrays: the aggregate that stands in for a pair that was not computed."""

import numpy as np


def user_means(
    surface: np.ndarray, user_id: np.ndarray, vectors: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean of each user's exact vectors on a surface; the same numbers in whatever order the rows come.

    Args:
        surface: text [N].
        user_id: int64 [N].
        vectors: float32 [N, d] of one generation and run.

    Returns:
        Surfaces text [U], user_id int64 [U] and means float32 [U, d], by surface and user.
    """
    names, code = np.unique(np.asarray(surface, dtype=str), return_inverse=True)
    users = np.asarray(user_id, dtype=np.int64)
    # sums of floating-point numbers depend on their order, and rows come in any: the vectors order themselves
    exact = np.asarray(vectors, dtype=np.float64)
    order = np.lexsort((*exact.T, users, code))
    code, users, sorted_vectors = code[order], users[order], exact[order]
    if not len(order):
        return names, users, sorted_vectors.astype(np.float32)
    starts = np.flatnonzero(np.append(True, (np.diff(code) != 0) | (users[1:] != users[:-1])))
    counts = np.diff(np.append(starts, len(order)))
    means = np.add.reduceat(sorted_vectors, starts, axis=0) / counts[:, None]
    return names[code[starts]], users[starts], means.astype(np.float32)
