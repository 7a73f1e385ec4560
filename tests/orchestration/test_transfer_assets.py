"""Every asset behind GEM alone: generation, outputs, Solaris, a vertical, its package, the report."""

import json
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pytest
from click.testing import CliRunner

from features.clock import run_instant
from features.days import micros
from features.errors import GemlineError
from orchestration.cli import main
from orchestration.definitions import build
from orchestration.filling import cache_of, publish_runs, remember
from orchestration.packaging import package_promoted
from orchestration.pinning import pinned_generations
from orchestration.resources import WorldResource
from orchestration.running import first_failure
from tests.orchestration.conftest import COLD, NEXT, SECOND, key, materialize, run
from tests.orchestration.test_assets import checked, newest

# a first test builds all stages before its own
pytestmark = [pytest.mark.assets, pytest.mark.timeout(600)]
GEMLINE = WorldResource(world_name="tiny")
TASKS = ("click", "buy")


def generation() -> dict[str, Any]:
    from training.loopfm.generation import manifests

    [manifest] = manifests(GEMLINE.home)
    return manifest


def test_fm_generation(frozen: Path, instance: dg.DagsterInstance) -> None:
    before = generation()
    assert run(instance, "generation_job").success
    assert generation() == before
    shown = newest(instance, "fm_generation")
    assert (shown["name"], shown["ds"]) == (before["name"], SECOND)
    errors = [before["reconstruction"][prefix] for prefix in sorted(before["reconstruction"], key=int)]
    # more of a vector says more, but for the noise of one that a few hundred rows have trained
    assert errors == pytest.approx(sorted(errors, reverse=True), rel=0.02)
    assert errors[-1] < 1  # better than saying the mean
    config = {"ops": {"tiny__fm_generation": {"config": {"ds": COLD}}}}
    refused = run(instance, "generation_job", run_config=config)
    assert not refused.success
    assert f"GEM of {COLD} was not promoted" in first_failure(refused)


def test_fm_outputs(frozen: Path, instance: dg.DagsterInstance) -> None:
    before = GEMLINE.tables().readable_days("fm_outputs")[COLD]
    assert materialize(instance, "fm_outputs", COLD).success
    assert newest(instance, "fm_outputs")["content_hash"] == before
    assert checked(instance, "fm_outputs")
    tables = GEMLINE.tables()
    rows = tables.read("fm_outputs", [SECOND, COLD]).toPandas()
    assert len(rows) == tables.read("examples", [SECOND, COLD]).count()
    assert rows["logits"].map(len).eq(len(TASKS)).all()
    vectors = np.stack(rows["vector"])
    assert np.abs(vectors).max() <= 1
    assert vectors.std(axis=0).min() > 1e-3
    # the generation is a plain copy of the model: what it says of a day is what that model predicted of it
    predicted = tables.read("predictions", [SECOND]).where(f"ds = '{SECOND}' and task = 'click'").toPandas()
    both = rows[rows["ds"] == SECOND].merge(predicted, on="impression_id")
    said = 1 / (1 + np.exp(-np.stack(both["logits"])[:, TASKS.index("click")].astype(float)))
    np.testing.assert_allclose(said, both["prediction"], atol=1e-6)
    user = rows.query("remembered and user_id.notna()")["user_id"].iloc[0]
    own = rows.query("remembered and user_id == @user").sort_values(["ds", "request_ts", "impression_id"])
    kept = own.tail(GEMLINE.world.transfer.memory_length)
    held = cache_of(GEMLINE.world, GEMLINE.home).memory(generation()["name"], int(user))
    np.testing.assert_allclose(held[3], np.stack(kept["vector"]), atol=1e-7)


@pytest.mark.parametrize("name", ["solaris_candidates", "solaris_vectors", "solaris_train_vectors"])
def test_solaris(name: str, frozen: Path, instance: dg.DagsterInstance) -> None:
    before = GEMLINE.tables().readable_days(name)[COLD]
    assert materialize(instance, name, COLD).success
    assert newest(instance, name)["content_hash"] == before
    assert checked(instance, name)
    tables, rows = GEMLINE.tables(), GEMLINE.tables().read(name, [COLD]).toPandas()
    if name == "solaris_candidates":
        assert rows.groupby(["surface", "user_id"]).size().max() <= GEMLINE.world.precompute.ads_per_user
    if name == "solaris_vectors":
        exact, own = rows[rows["ad_id"].notna()], rows[rows["ad_id"].isna()]
        assert len(exact) == tables.read("solaris_candidates", [COLD]).count()
        for row in own.itertuples():
            mine = exact[(exact["surface"] == row.surface) & (exact["user_id"] == row.user_id)]
            np.testing.assert_allclose(row.vector, np.stack(mine["vector"]).mean(axis=0), atol=1e-6)
    if name == "solaris_train_vectors":
        assert len(rows) == tables.read("examples", [COLD]).count()
        assert set(rows["source"]) == {"exact", "user", "none"}


def test_a_restated_day_leaves_no_ghost_in_the_cache(frozen: Path) -> None:
    """The cache says what the tables say, also of users and ads that a restated day has lost."""
    tables, name = GEMLINE.tables(), generation()["name"]
    cache, keep = cache_of(GEMLINE.world, GEMLINE.home), GEMLINE.world.transfer.memory_length
    kept = tables.read("fm_outputs", [COLD]).where("impression_id % 4 = 0")
    tables.publish("fm_outputs", kept, [COLD])
    given = {(row["user_id"], row["impression_id"]) for row in tables.read("fm_outputs", [COLD]).collect()}
    ghosts = cache.remembered(name, [COLD]) - given
    assert ghosts
    remember(tables, [COLD])
    assert not cache.remembered(name, [COLD]) & ghosts
    rows = tables.read("fm_outputs", list(tables.readable_days("fm_outputs"))).toPandas()
    rows = rows.query("remembered and user_id.notna()").sort_values(["ds", "request_ts", "impression_id"])
    for user, own in rows.groupby("user_id"):
        assert cache.memory(name, int(user))[2].tolist() == own["impression_id"].tail(keep).tolist()

    vectors = tables.read("solaris_vectors", [COLD])
    gone = vectors.where("ad_id is not null").orderBy("user_id", "ad_id").first()
    assert gone is not None
    this = f"user_id = {gone['user_id']} and surface = '{gone['surface']}' and ad_id = {gone['ad_id']}"

    def source() -> str:
        us = micros(run_instant(GEMLINE.world, COLD))
        return cache.lookup(name, gone["surface"], gone["user_id"], [gone["ad_id"]], us)[0].source

    assert source() == "exact"
    tables.publish("solaris_vectors", vectors.where(f"not coalesce({this}, false)"), [COLD])
    assert publish_runs(tables, [COLD]) == {name: 1}
    assert source() == "user"


def test_live_packages_pin_their_generation(served: Path) -> None:
    from serving import releases

    assert pinned_generations(GEMLINE.tables()) == {generation()["name"]}
    home = GEMLINE.home
    live = releases.live(home.releases, "feed_click")
    assert live is not None
    (releases.artefact_path(home.releases, live) / "manifest.json").write_text("{")
    with pytest.raises(GemlineError, match=f"materialize tiny/feed_click/package of {COLD}"):
        pinned_generations(GEMLINE.tables())
    # and that helps: the damaged package is moved aside and made again
    assert package_promoted(GEMLINE.tables(), "feed_click", COLD)["live"]
    assert releases.live(home.releases, "feed_click") == live
    assert pinned_generations(GEMLINE.tables()) == {generation()["name"]}


def test_a_vertical(served: Path, instance: dg.DagsterInstance) -> None:
    from serving import releases
    from serving.package import load_package

    home, line = GEMLINE.home, "feed_click"
    folder = home.checkpoints / line / COLD
    before = json.loads((folder / "attempt-000001" / "manifest.json").read_text())["digest"]
    live = releases.live(home.releases, line)
    names = [key(f"{line}/{name}") for name in ("model", "predictions", "evaluation", "release", "package")]
    assert run(instance, "verticals_job", selection=names, partition_key=COLD).success
    shown = newest(instance, f"{line}/model")
    assert shown["digest"] == before
    assert shown["generation"] == generation()["name"]
    judged = json.loads((home.releases / line / "evaluations" / f"{COLD}.json").read_text())
    assert {row["task"] for row in judged["transfer"]} == {"click"}
    assert judged["digest"] == before
    assert live is not None
    assert releases.live(home.releases, line) == live
    loaded = load_package(releases.artefact_path(home.releases, live), live.digest)
    assert loaded.manifest["model_digest"] == before
    assert newest(instance, f"{line}/package")["largest_difference"] <= 1e-5  # type: ignore[operator]


def test_compare_a_vertical_with_itself_alone(served: Path) -> None:
    from orchestration.assets.lines import line_of
    from orchestration.comparing import digest_of
    from training.comparison import compare_models
    from training.predictions import control_digest

    tables, line = GEMLINE.tables(), "feed_click"
    judged = json.loads((GEMLINE.home.releases / line / "evaluations" / f"{COLD}.json").read_text())
    digest = judged["digest"]
    found = compare_models(tables, line_of(GEMLINE.world, line), digest, control_digest(digest))
    (transfer,) = (row for row in judged["transfer"] if row["by"] == "all")
    (whole,) = (row for row in found.to_json()["table"] if row["by"] == "all")
    assert found.pairs == whole["rows"] == transfer["rows"] and set(found.only.values()) == {0}
    for name in ("ne_a", "ne_b", "ne_difference", "gauc_difference"):
        assert whole["metrics"][name]["value"] == pytest.approx(transfer["metrics"][name]["value"])
    assert f"A = {digest[:12]} against B = alone-" in found.markdown()
    assert (
        digest_of(tables, line, "live")
        == digest_of(tables, line, COLD)
        == digest_of(tables, line, digest[:8])
        == digest
    )
    same = CliRunner().invoke(main, ["compare", "live", COLD, "--world", "tiny", "--model", line])
    assert same.exit_code == 1 and f"both are {digest[:12]}" in same.output


def test_release_report(served: Path, instance: dg.DagsterInstance) -> None:
    assert materialize(instance, "release_report", COLD).success
    page = (GEMLINE.home.root / "reports" / f"{COLD}.html").read_text()
    for said in ("feed_click", "story_click", "synthetic", generation()["name"]):
        assert said in page
    assert "://" not in page.replace("http://www.w3.org", "")


def test_a_red_gem_does_not_stop_the_verticals(followed: Path, instance: dg.DagsterInstance) -> None:
    """The models of a day in one run, in which GEM cannot train."""
    models = dg.AssetSelection.groups("gem", "feed_click", "story_click").resolve(build("tiny").resolve_asset_graph())
    config = {"ops": {"tiny__gem_model": {"config": {"recipe": "no_such_recipe"}}}}
    result = run(instance, "daily_job", selection=sorted(models), partition_key=NEXT, run_config=config)
    assert not result.success
    assert "no recipe 'no_such_recipe'" in first_failure(result)
    ended = {event.step_key for event in result.all_events if event.is_step_success}
    for line in ("feed_click", "story_click"):
        assert f"tiny__{line}__evaluation" in ended
    assert "tiny__gem_evaluation" not in ended
