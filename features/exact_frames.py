"""Arrow and Spark to pandas with integers as they are.

Beside a null, plain pandas makes floats of a column of integers, and ids above 2 ** 53 run together.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame


def nullable_integers() -> dict[Any, Any]:
    """Arrow's integer types and the pandas types that hold them beside a null."""
    import pandas as pd
    import pyarrow as pa

    return {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype()}


def exact_frame(rows: "DataFrame | pa.Table") -> "pd.DataFrame":
    """Rows in pandas, integers with nullable types and other columns as ever."""
    import pyarrow as pa

    table = rows if isinstance(rows, pa.Table) else rows.toArrow()
    found: pd.DataFrame = table.to_pandas(types_mapper=nullable_integers().get)
    return found
