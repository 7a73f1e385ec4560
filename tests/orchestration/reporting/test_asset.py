"""The asset and the command: last in its run, there when a release is red."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from features.home import Home
from features.worlds import World
from orchestration import cli, doctor
from orchestration.assets.report import report_assets
from orchestration.partitions import day_axis
from orchestration.publishing import asset_key
from orchestration.resources import WorldResource
from tests.orchestration.reporting.conftest import DS, HandTables, Writer, gate, judged


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """The home of `tiny`, whose tables answer without Spark."""
    monkeypatch.setenv("GEMLINE_HOME", str(tmp_path))
    found = Home.of("tiny")
    tables = HandTables(found, [gate("labels")], [], None)
    monkeypatch.setattr(WorldResource, "tables", lambda self: tables)
    yield found


def graph(world: World, order: list[str]) -> dg.Definitions:
    """The report among stand-ins for what the run around it does: evaluations, and releases of which one fails."""
    evaluations = [asset_key(world, "gem_evaluation")]
    evaluations += [dg.AssetKey([world.name, vertical.name, "evaluation"]) for vertical in world.verticals]

    def step(key: dg.AssetKey, deps: list[dg.AssetKey], fails: bool = False) -> dg.AssetsDefinition:
        @dg.asset(key=key, deps=deps, partitions_def=day_axis(world))
        def stand_in() -> None:
            order.append("/".join(key.path[1:]))
            if fails:
                raise dg.Failure("rejected", allow_retries=False)

        return stand_in

    steps = [step(key, []) for key in evaluations]
    for key in evaluations:
        # named so that they come after the report wherever names decide
        steps.append(step(dg.AssetKey([*key.path, "zz_release"]), [key], fails=key == evaluations[0]))
    steps.append(step(asset_key(world, "zz_after"), [steps[-1].key]))
    return dg.Definitions(
        assets=[*report_assets(world), *steps],
        jobs=[dg.define_asset_job("day")],
        resources={"gemline": WorldResource(world_name=world.name)},
        executor=dg.in_process_executor,
    )


def test_a_red_release_does_not_stop_the_report_which_comes_last(world: World, home: Home, write: Writer) -> None:
    write("gem", judged("rejected", "click: worse"))
    order: list[str] = []
    job = graph(world, order).resolve_job_def("day")
    ended = job.execute_in_process(partition_key=DS, raise_on_error=False)
    assert not ended.success
    assert len(order) == 7, "the sibling steps ran"
    ran = [event.step_key for event in ended.all_events if event.is_step_start]
    assert ran[-1] == "tiny__release_report"
    (made,) = ended.asset_materializations_for_node("tiny__release_report")
    path = home.root / "reports" / f"{DS}.html"
    assert made.metadata["path"].value == str(path)
    assert "rejected" in path.read_text(encoding="utf-8")
    assert "- **gem** (synthetic data): rejected - click: worse" in str(made.metadata["decisions"].value)


def test_it_depends_on_evaluations_only(world: World) -> None:
    (asset,) = report_assets(world)
    found = {key.to_user_string() for key in asset.keys_by_input_name.values()}
    assert found == {"tiny/gem_evaluation", "tiny/feed_click/evaluation", "tiny/story_click/evaluation"}


def test_the_command_prints_the_path_of_the_newest_judged_day(
    home: Home, write: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "require", lambda names: None)
    run = CliRunner().invoke
    nothing = run(cli.main, ["report", "--world", "tiny"])
    assert nothing.exit_code == 1 and "no model of world tiny was judged yet" in nothing.output
    write("gem", judged(), "2024-03-08")
    write("feed_click", judged())
    newest = run(cli.main, ["report", "--world", "tiny"])
    assert newest.output.strip() == str(home.root / "reports" / f"{DS}.html"), newest.output
    named = run(cli.main, ["report", "--world", "tiny", "--day", "2024-03-08"])
    assert Path(named.output.strip()).name == "2024-03-08.html"
    escaping = run(cli.main, ["report", "--world", "tiny", "--day", "../../x"])
    assert escaping.exit_code == 2
