"""Ids to table rows: XXH64 as Spark computes it, vectorised over int64 in numpy.

Integers stay exact 64-bit ids. Strings become ids through XXH64 with seed 42 over UTF-8, which is Spark's
`xxhash64(col)`. The row of an id in a table of n rows is 0 when it is missing and 1 + XXH64(id, seed = salt)
mod (n - 1) otherwise.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

SPARK_SEED = 42
_MASK = (1 << 64) - 1
_P1 = 0x9E3779B185EBCA87
_P2 = 0xC2B2AE3D27D4EB4F
_P3 = 0x165667B19E3779F9
_P4 = 0x85EBCA77C2B2AE63
_P5 = 0x27D4EB2F165667C5


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def _round(lane: int, word: int) -> int:
    return _rotate((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _stripes(data: bytes, seed: int) -> int:
    """The four-lane part of XXH64 over the whole 32-byte stripes of `data`."""
    lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed & _MASK, (seed - _P1) & _MASK]
    for start in range(0, len(data) - 31, 32):
        for lane in range(4):
            begin = start + 8 * lane
            lanes[lane] = _round(lanes[lane], int.from_bytes(data[begin : begin + 8], "little"))
    total = sum(_rotate(value, bits) for value, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
    for value in lanes:
        total = ((total ^ _round(0, value)) * _P1 + _P4) & _MASK
    return total


def xxh64_bytes(data: bytes, seed: int = 0) -> int:
    """XXH64 of bytes as an unsigned integer (pure Python: for names and rare strings, not for bulk)."""
    total = _stripes(data, seed) if len(data) >= 32 else (seed + _P5) & _MASK
    total = (total + len(data)) & _MASK
    at = len(data) // 32 * 32
    while at + 8 <= len(data):
        total = (_rotate(total ^ _round(0, int.from_bytes(data[at : at + 8], "little")), 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= len(data):
        word = int.from_bytes(data[at : at + 4], "little")
        total = (_rotate(total ^ (word * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        total = _rotate(total ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    total = (total ^ (total >> 33)) * _P2 & _MASK
    total = (total ^ (total >> 29)) * _P3 & _MASK
    return total ^ (total >> 32)


def xxh64_int64(ids: np.ndarray, seed: int) -> np.ndarray:
    """XXH64 of each id's 8 little-endian bytes.

    Args:
        ids: int64 [N].
        seed: any 64-bit integer.

    Returns:
        uint64 [N].
    """
    word = np.ascontiguousarray(ids, dtype=np.int64).view(np.uint64)
    p1, p2, p3 = np.uint64(_P1), np.uint64(_P2), np.uint64(_P3)
    lane = word * p2
    lane = ((lane << np.uint64(31)) | (lane >> np.uint64(33))) * p1
    total = lane ^ np.uint64((seed + _P5 + 8) & _MASK)
    total = ((total << np.uint64(27)) | (total >> np.uint64(37))) * p1 + np.uint64(_P4)
    total = (total ^ (total >> np.uint64(33))) * p2
    total = (total ^ (total >> np.uint64(29))) * p3
    return total ^ (total >> np.uint64(32))


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


@lru_cache(maxsize=65_536)
def string_id(text: str) -> int:
    """The int64 id of a string: XXH64 with seed 42 over UTF-8, equal to Spark's `xxhash64(col)`."""
    return _signed(xxh64_bytes(text.encode(), SPARK_SEED))


@lru_cache(maxsize=4_096)
def table_salt(table: str) -> int:
    """Seed of a table's row hash, from its name: two tables do not share their collisions."""
    return xxh64_bytes(table.encode(), 0)


def string_ids(texts: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Ids of an array of strings (int64 [N]; 0 under `missing`), hashing each distinct one once."""
    return map_distinct(texts, missing, string_id)


def map_distinct(texts: np.ndarray, missing: np.ndarray, function: Callable[[str], int]) -> np.ndarray:
    """`function` of every string that is not missing, int64 [N] with 0 elsewhere.

    Each distinct one is asked once.
    """
    out = np.zeros(len(texts), dtype=np.int64)
    known = ~missing
    distinct, position = np.unique(texts[known].astype(str), return_inverse=True)
    answers = np.array([function(str(text)) for text in distinct], dtype=np.int64)
    out[known] = answers[position] if len(answers) else 0
    return out


def rows_of(ids: np.ndarray, missing: np.ndarray, rows: int, salt: int) -> np.ndarray:
    """Rows of ids in a table.

    Args:
        ids: int64 [N].
        missing: bool [N].
        rows: rows n of the table, row 0 included; at least 2.
        salt: seed of the table's hash, see `table_salt`.

    Returns:
        int64 [N]: 0 where missing, else in [1, n).
    """
    hashed = xxh64_int64(ids, salt) % np.uint64(rows - 1)
    return np.where(missing, 0, hashed.astype(np.int64) + 1)
