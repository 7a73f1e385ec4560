"""A task that fails half-way and is tried again gives the rows of one that did not (case B04, part c)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.assets
# In a process of its own: `local[*]` tries no task twice, and a process has one session.
SCRIPT = """
import json, sys
from pathlib import Path
from pyspark.sql import functions as F
from features.sources.base import extract
from features.spark import session
from features.tables.content_hash import content_hashes
from features.worlds import load_world

marker = Path(sys.argv[1])
world = load_world("tiny")

def once(parts):
    for at, part in enumerate(parts):
        yield part
        if at == 0 and not marker.exists():
            marker.touch()
            raise RuntimeError("the first attempt ends here")

spark = session()
spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
frame = extract(spark, world, world.days()).tables["impressions"]
failing = frame.mapInArrow(once, frame.schema)
failing.write.format("delta").partitionBy("ds").save(sys.argv[2])
written = spark.read.format("delta").load(sys.argv[2])
print(json.dumps({
    "failed": marker.exists(),
    "hashes": [content_hashes(each, "ds") for each in (frame, written)],
    "ids": [each.select("impression_id").distinct().count() for each in (frame, written)],
    "rows": written.count(),
}))
"""


def test_rows_of_a_task_tried_again_land_once_each(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "marker"), str(tmp_path / "written")],
        env=os.environ | {"GEMLINE_SPARK_MASTER": "local[2,3]", "PYTHONPATH": str(Path(__file__).parents[4])},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["failed"]
    first, written = found["hashes"]
    assert first == written and len(first) == 4
    assert found["ids"] == [found["rows"]] * 2
