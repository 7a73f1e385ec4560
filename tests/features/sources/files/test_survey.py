"""`gemline world check`: what it says of each column and refused row, and when it fails."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from features.sources.files.survey import faults, survey
from orchestration.cli import main
from tests.features.sources.conftest import IMPRESSIONS, OUTCOMES, LogWorld

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.assets
DAY = "2024-03-07"
NOON = f"{DAY}T12:00:00Z"


def _shown(number: int, user: str, at: str = NOON, surface: str = "feed", device: str = "phone") -> str:
    return f"{number},{number},{user},5,{surface},1,{at},{device},video\n"


def test_columns_and_refusals_of_a_sample(spark: "SparkSession", log_world: LogWorld) -> None:
    rows = [_shown(1, "7"), _shown(2, "ann"), _shown(3, "", f"{DAY}T13:00:00Z", device=""), _shown(4, "8", at="soon")]
    rows += [_shown(5, "9", surface="moon")]
    world = log_world({"impressions.csv": IMPRESSIONS + "".join(rows), "outcomes.csv": OUTCOMES})
    found = {entry.table: entry for entry in survey(spark, world, 100)}
    shown = found["impressions"]
    assert (shown.files, shown.rows, shown.good, shown.days) == (1, 5, 3, {DAY: 3})
    columns = {column.name: column for column in shown.columns}
    user, at, surface = columns["user_id"], columns["request_ts"], columns["surface"]
    assert (user.source, user.kind, user.span) == ("user", "id (mixed)", "2 different")
    assert user.blank == columns["context_device"].blank == pytest.approx(1 / 3)
    assert (at.source, at.kind, at.span) == ("shown_at", "time", f"{DAY} 12:00:00 to {DAY} 13:00:00")
    assert (surface.source, surface.kind, surface.span) == ("placement", "text", "feed")
    assert columns["position"].kind == "number" and columns["impression_id"].kind == "id (integers)"
    assert {(rule, where, count) for rule, where, count, _ in shown.refused} == {
        ("request_ts is no time", "impressions.csv", 1),
        ("unknown surface", "impressions.csv", 1),
    }
    errors, warnings = faults(world, list(found.values()))
    assert errors == []
    for part in ("impressions: 2 rows refused", "'story' is declared, but not in the sample", "outcomes: no rows"):
        assert any(part in warning for warning in warnings), part


def test_a_log_that_does_not_fit_has_errors(spark: "SparkSession", log_world: LogWorld) -> None:
    early = log_world({"impressions.csv": IMPRESSIONS + _shown(1, "7", at="2020-01-01T12:00:00Z")})
    errors, _ = faults(early, survey(spark, early, 100))
    assert len(errors) == 1 and "all lie outside first_day 2024-03-07" in errors[0]
    odd = log_world({"impressions.csv": IMPRESSIONS + _shown(1, "7", at="7.3.24") + _shown(2, "7", at="7.3.24")})
    errors, _ = faults(odd, survey(spark, odd, 100))
    assert errors == [
        "impressions: 2 of 2 rows are refused, most of them by 'request_ts is no time'; look at the mapping"
    ]
    nothing = log_world({})
    assert faults(nothing, survey(spark, nothing, 100))[0] == ["impressions: no rows"]


def _file(folder: Path, **changes: Any) -> str:
    from features.worlds import load_world
    from features.worlds.load import SHIPPED

    raw = yaml.safe_load((SHIPPED / "tiny.yaml").read_text())
    raw["source"]["options"]["path"] = load_world("tiny").source.options["path"]
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(raw | {"name": "mine"} | changes))
    return str(path)


def test_the_command_reports_and_fails_as_it_should(spark: "SparkSession", tmp_path: Path) -> None:
    sound = CliRunner().invoke(main, ["world", "check", _file(tmp_path), "--rows", "300"])
    assert sound.exit_code == 0, sound.output
    assert "request_ts" in sound.output and "shown_at" in sound.output and "0 errors" in sound.output
    other = CliRunner().invoke(main, ["world", "check", _file(tmp_path, first_day="2024-03-20", last_day="2024-03-21",
                                                             closed_days=[], demo=None)])  # fmt: skip
    assert other.exit_code == 1 and "error: impressions: the sample's days" in other.output
    typo = CliRunner().invoke(main, ["world", "check", _file(tmp_path, tabels={})])
    assert typo.exit_code == 1 and "tabels: unknown key" in typo.output
    assert CliRunner().invoke(main, ["world", "check", "atlantis"]).exit_code == 1
    own = CliRunner().invoke(main, ["world", "check", "synthetic_ads"])
    assert own.exit_code == 0 and "reads its log by itself" in own.output
