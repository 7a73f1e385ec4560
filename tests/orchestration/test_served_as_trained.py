"""The whole way to a scored request: what the service answers before a day is ingested is what its log shows later.

Also B21: two generations, a promotion in the middle of requests, a rollback, and never a mixture.
"""

import csv
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pytest
from fastapi.testclient import TestClient

from features import clock
from features.home import Home
from features.sources.tiny import generate
from features.store.repo import apply
from features.transform.columns import Column
from features.transform.transfer import SOURCES
from features.worlds import load_world
from orchestration.resources import WorldResource
from serving import releases
from serving.server.app import create_app
from serving.server.columns import rows_of_request
from serving.server.requests import resolved, validated
from serving.server.scorer import Scorer
from tests.orchestration.conftest import COLD, NEXT, key, run, work_on

# a first test builds all stages before its own
pytestmark = [pytest.mark.assets, pytest.mark.timeout(600)]
GEMLINE = WorldResource(world_name="tiny")
WORLD = load_world("tiny")
VERTICALS = {"feed": "feed_click", "story": "story_click"}
SAME = 1e-6
DAY = timedelta(hours=24)


def home() -> Home:
    """This test's home, whose feature store is applied where it now lies."""
    apply(WORLD, GEMLINE.home)
    return GEMLINE.home


def logged(ds: str, since: datetime) -> list[dict[str, str]]:
    """Rows of the raw log of a day from an instant on."""
    with (Path(generate.__file__).parent / "log" / "impressions.csv").open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["shown_at"].startswith(ds)]
    return [row for row in rows if datetime.fromisoformat(row["shown_at"]) >= since]


def request_of(row: dict[str, str]) -> dict[str, Any]:
    """A request for what the raw log says was shown."""
    return {
        "vertical": VERTICALS[row["placement"]],
        "user_id": row["user"],
        "context": {"device": row["device"], "format": row["format"]},
        "ads": [{"ad_id": row["ad"]}],
        "request_ts": row["shown_at"],
    }


def test_a_day_is_served_as_it_is_trained(
    served: Path, followed_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance
) -> None:
    scorer = Scorer(WORLD, home())
    rows = logged(NEXT, clock.now(WORLD, scorer.home))
    with TestClient(create_app(scorer)) as client:
        answers = {int(row["impression_id"]): client.post("/score", json=request_of(row)).json() for row in rows}
        features = {int(row["impression_id"]): _columns(scorer, row) for row in rows}
    live = {name: releases.live(scorer.home.releases, name) for name in VERTICALS.values()}
    assert all(live.values())
    sources = {answer["scores"][0]["source"] for answer in answers.values()}
    assert sources == set(SOURCES)  # all of them are met, or equality would say little

    # the same home after the day
    work_on(followed_root, tmp_path / "followed", monkeypatch)
    run(instance, "verticals_job", partition_key=NEXT)  # a rejected model is an outcome, too
    tables = GEMLINE.tables()
    examples = {row["impression_id"]: row for row in tables.read("examples", [NEXT]).collect()}
    # the log is sampled: what was asked about and not kept has no example
    kept_rows = {impression: columns for impression, columns in features.items() if impression in examples}
    assert len(kept_rows) > 50
    for impression, columns in kept_rows.items():
        for name, value in columns.items():
            trained = examples[impression][name]
            trained = trained or None if isinstance(trained, list) else trained
            assert value == trained or (value is None and trained is None), (impression, name, value, trained)
    compared = 0
    for name in VERTICALS.values():
        incumbent = tables.decisions.incumbent(name, NEXT)
        assert incumbent is not None and incumbent.ds == COLD
        rows = tables.read(f"predictions_{name}", [NEXT]).where(f"digest = '{incumbent.digest}'").collect()
        given = {(row["impression_id"], row["task"]): row["prediction"] for row in rows if row["ds"] == NEXT}
        for impression, task in given:
            answer = answers.get(impression)
            if answer is None:
                continue
            assert answer["model_digest"] == incumbent.digest
            # predictions are given the parent, as labels are; an answer is of the impression itself
            parent = WORLD.parent_on(task, answer["surface"])
            expected = given[impression, task] * (given[impression, parent] if parent else 1.0)
            assert answer["scores"][0]["scores"][task] == pytest.approx(expected, abs=SAME)
            compared += 1
    assert compared > 50


def _columns(scorer: Scorer, row: dict[str, str]) -> dict[str, Any]:
    """Features that the service gives a model for a row, by the names of `examples`."""
    request = validated(request_of(row))
    asked = resolved(request, WORLD, (row["placement"],))
    at = datetime.fromisoformat(row["shown_at"])
    found = scorer._features().features(asked.users, asked.ads, at)
    columns = rows_of_request(WORLD, asked, at, found).columns
    left_out = {"impression_id", "request_ts"}
    return {name: _value(column) for name, column in columns.items() if name not in left_out}


def _value(column: Column) -> Any:
    """Of the only row, as `examples` hold it: a number, a list, or None."""
    value, missing = column.values[0], column.missing[0]
    if missing.shape:
        return value[~missing].tolist() or None
    return None if missing else value


def test_generations_never_mix(followed: Path, instance: dg.DagsterInstance) -> None:
    """B21: a second generation is frozen and half filled, its package promoted under fire, and rolled back."""
    world_home, name = home(), "feed_click"
    # what the log shows of the newest day is asked for again, now
    shown = [request_of(row) for row in logged(NEXT, clock.now(WORLD, world_home) - DAY) if row["placement"] == "feed"]
    asked = [{key: value for key, value in request.items() if key != "request_ts"} for request in shown[:30]]
    with TestClient(create_app(Scorer(WORLD, world_home))) as client:

        def score(request: dict[str, Any]) -> dict[str, Any]:
            return dict(client.post("/score", json=request).json())

        before = [score(request) for request in asked]
        second = _second_package(instance, name)

        def ask(number: int) -> tuple[int, dict[str, Any]]:
            if number == 100:
                releases.promote(world_home.releases, name, second)
            return number % len(asked), score(asked[number % len(asked)])

        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(ask, range(400)))
        while score(asked[0])["digest"] != second.digest:
            time.sleep(0.05)
        after = [score(request) for request in asked]
        expected = {found[0]["digest"]: found for found in (before, after)}
        assert after[0]["digest"] == second.digest
        assert after[0]["generation"] != before[0]["generation"]
        assert {answer["digest"] for _, answer in answers} == set(expected)
        for place, answer in answers:
            assert answer["generation"] == expected[answer["digest"]][0]["generation"]
            assert answer["scores"] == expected[answer["digest"]][place]["scores"]
        # no run of the second one was made: the documented fallback, never a vector of the other generation
        assert {ad["source"] for answer in after for ad in answer["scores"]} == {"none"}
        assert {ad["source"] for answer in before for ad in answer["scores"]} > {"none"}

        releases.rollback(world_home.releases, name, "test")
        # the package is loaded beside the requests, which get the old one until it is there
        deadline = time.monotonic() + 30
        while score(asked[0])["digest"] != before[0]["digest"] and time.monotonic() < deadline:
            time.sleep(0.05)
        for answer, first in zip([score(request) for request in asked], before, strict=True):
            assert answer == first
        assert "gemline_generation_mismatches_total 0.0" in client.get("/metrics").text


def _second_package(instance: dg.DagsterInstance, name: str) -> releases.Release:
    """A vertical of another generation, which has outputs of one day and no precomputed vectors."""
    from orchestration.assets.lines import trained
    from orchestration.freezing import freeze_promoted
    from orchestration.releasing import decide
    from serving.export import export
    from training import checkpoint
    from training.compute import Compute
    from training.lines import vertical_line
    from training.plan import ModelRef
    from training.recipes import vertical_tiny
    from training.run import train
    from training.verticals.planning import vertical_plan

    selection = [key("gem_model")]
    assert run(instance, "gem_job", selection=selection, partition_key=COLD).success
    tables = GEMLINE.tables()
    # What a day of tiny's log says about a model is chance; here it is promoted whatever the gate would say.
    folder, manifest = trained(GEMLINE.home, "gem", COLD)
    judged = {"decision": {"kind": "promoted", "reason": "by a test", "evidence": {}}}
    decide(tables, "gem", COLD, manifest["digest"], folder, judged)
    generation = freeze_promoted(tables, COLD)["name"]
    assert run(instance, "transfer_job", selection=[key("fm_outputs")], partition_key=COLD).success
    plan = vertical_plan(tables, vertical_line(WORLD, name), NEXT, vertical_tiny(), 7, 4)
    assert plan.transfer is not None
    assert plan.transfer.generation.name == generation
    assert plan.parent is None  # another generation's vectors mean something else
    folder = train(plan, Compute.alone(), lambda line: None)
    ref = ModelRef(str(folder), checkpoint.manifest_of(folder)["digest"])
    package = export(ref, plan, tables.home.releases / name / "packages")
    return releases.Release(NEXT, package.manifest["digest"], package.folder.relative_to(tables.home.root).as_posix())


def test_what_a_vertical_may_not_use_it_does_not_get(served: Path) -> None:
    """A generation serves examples after its last label only: no walk starts before."""
    from training.loopfm.generation import manifests
    from training.plan import Plan

    generation = manifests(GEMLINE.home)[-1]
    for name in VERTICALS.values():
        plan = Plan.read(GEMLINE.home.checkpoints / name / COLD / "plan.json")
        assert plan.transfer is not None
        assert min(plan.walk) > generation["last_label_day"]
        assert np.all([ds < COLD for ds in plan.transfer.fm_outputs])
