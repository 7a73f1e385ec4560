"""Numbers to model inputs: total transforms, one for each kind, looked up by feature name.

Every transform is finite for every float (NaN counts as missing, infinities and huge values are clipped) and
small rates stay far apart: log1p of a rate of 1e-4 and one of 1e-3 are nearly the same number, their
logarithms are not.
"""

from collections.abc import Callable, Mapping

import numpy as np

from features.transform.columns import ColumnLike, column_of
from features.transform.schema import FeatureSchema

LIMIT = 1e12
"""Larger magnitudes are clipped: nothing that is counted or paid in a day exceeds it."""
RATE_FLOOR = 1e-6
"""Added to a rate before its logarithm; a rate below one in a million is as good as none."""


def count(values: np.ndarray) -> np.ndarray:
    """log1p of a count; negative counts are 0."""
    return np.log1p(np.clip(values, 0.0, LIMIT))


def value(values: np.ndarray) -> np.ndarray:
    """Signed log1p of an amount: odd, so refunds mirror payments."""
    return np.sign(values) * np.log1p(np.minimum(np.abs(values), LIMIT))


def ratio(values: np.ndarray) -> np.ndarray:
    """Decades of a rate above one in a thousand: log10(rate + 1e-6) + 3, so 0 gives -3 and 1 gives 3."""
    return np.log10(np.clip(values, 0.0, LIMIT) + RATE_FLOOR) + 3.0


def age(values: np.ndarray) -> np.ndarray:
    """log1p of an age in its own unit; an age below 0 is 0."""
    return np.log1p(np.clip(values, 0.0, LIMIT))


TRANSFORMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "count": count,
    "value": value,
    "ratio": ratio,
    "age": age,
}


def dense_width(schema: FeatureSchema) -> int:
    """Columns that `dense_inputs` returns: 2 D for D dense features."""
    return schema.dense_width


def dense_inputs(schema: FeatureSchema, columns: Mapping[str, ColumnLike], rows: int) -> np.ndarray:
    """Dense inputs built by key.

    Args:
        schema: gives names, kinds and order.
        columns: name -> numbers [rows]; other keys are ignored, a key that is not there is missing in every
            row.
        rows: B.

    Returns:
        float32 [B, 2 D]: the D transformed values in the order of `schema.dense` (0 where missing), then D
        indicators (1 where missing).
    """
    width = len(schema.dense)
    out = np.zeros((rows, 2 * width), dtype=np.float32)
    for index, feature in enumerate(schema.dense):
        column = column_of(columns, feature.name, rows)
        numbers = np.where(column.missing, 0.0, np.where(column.missing, 0, column.values).astype(np.float64))
        out[:, index] = np.where(column.missing, 0.0, TRANSFORMS[feature.kind](numbers))
        out[:, width + index] = column.missing
    return out
