"""B02: ids above 2 ** 53 beside a null stay what they are."""

import pyarrow as pa
import pytest

from features.exact_frames import exact_frame

IDS = [2**62 + 1, None, 2**62 + 2]


class Spark:
    """What is asked of a Spark frame."""

    def toArrow(self) -> pa.Table:
        return pa.table({"user_id": pa.array(IDS, pa.int64()), "surface": ["feed", None, "story"]})


@pytest.mark.parametrize("rows", [Spark(), Spark().toArrow()], ids=["spark", "arrow"])
def test_ids_beside_a_null_stay_apart(rows: "pa.Table | Spark") -> None:
    frame = exact_frame(rows)  # type: ignore[arg-type]
    assert frame["user_id"].dropna().tolist() == [IDS[0], IDS[2]]
    assert frame["user_id"].isna().tolist() == [False, True, False]
    assert frame["user_id"].nunique() == 2
    # what this is there for: plain pandas has one user
    assert Spark().toArrow().to_pandas()["user_id"].nunique() == 1
