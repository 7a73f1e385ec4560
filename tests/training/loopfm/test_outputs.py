"""What a generation says of surfaces that came after it was frozen: nothing."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from features.errors import GemlineError
from tests.training.conftest import make_plan
from training.loopfm.outputs import reader_of, scored

if TYPE_CHECKING:
    from training.loopfm.generation import Generation


class Frozen:
    """A generation as far as it is asked before its model is."""

    def __init__(self, schema: Any) -> None:
        self.schema, self.ref = schema, type("Ref", (), {"name": "gen-old", "width": 4})()


def test_the_newest_refuses_and_older_ones_leave_out(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    path = plan.examples[plan.partition].paths[0]
    data = pq.read_table(path)
    names = ["reels" if at % 4 == 3 else name for at, name in enumerate(data.column("surface").to_pylist())]
    pq.write_table(data.set_column(data.column_names.index("surface"), "surface", pa.array(names)), path)
    frozen = cast("Generation", Frozen(plan.schema))
    newest, older = (reader_of(frozen, plan.examples, plan.user_history, newest=newest) for newest in (True, False))
    with pytest.raises(GemlineError, match=r"gen-old does not know the surfaces reels.*then freeze anew"):
        scored(frozen, newest, newest.examples(plan.partition))
    kept = older.examples(plan.partition)
    assert len(kept) == names.count("feed") + names.count("story") < len(names)
    assert "reels" not in kept.columns["surface"].values
