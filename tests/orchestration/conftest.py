"""`tiny` built by the real graph, a stage at a time, each once a run and only when a test asks for it.

A test works on a copy. What a stage needs is the stage before it, so testing one asset builds no more than that.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from features.home import Home
from features.store.repo import apply
from features.worlds import load_world
from orchestration.definitions import build
from orchestration.publishing import asset_key
from orchestration.running import execute
from tests.once import once
from tests.servers import engine, redis_url

__all__ = ["engine", "redis_url"]

FIRST, SECOND, CLOSED, COLD, NEXT = "2024-03-07", "2024-03-08", "2024-03-09", "2024-03-10", "2024-03-11"


def key(name: str) -> dg.AssetKey:
    """Key of an asset of `tiny`, such as `examples` or `feed_click/model`."""
    return asset_key(load_world("tiny"), *name.split("/"))


def run(instance: dg.DagsterInstance, job: str, **how: object) -> dg.ExecuteInProcessResult:
    """One run of a job of `tiny`; failures come back as results."""
    return execute(build("tiny"), job, instance, **how)  # type: ignore[arg-type]


def materialize(instance: dg.DagsterInstance, name: str, ds: str, **how: object) -> dg.ExecuteInProcessResult:
    """One asset of one day, launched alone."""
    return run(instance, "daily_job", selection=[key(name)], partition_key=ds, **how)


def _stage(before: Path | None, root: Path, job: str, **how: object) -> None:
    """Run a job in the home `root`, which starts as a copy of `before`."""
    if before is not None:
        _moved(before, root)
    previous = os.environ["GEMLINE_HOME"]
    os.environ["GEMLINE_HOME"] = str(root)
    try:
        with dg.DagsterInstance.ephemeral() as instance:
            result = run(instance, job, **how)
            assert result.success, result
    finally:
        os.environ["GEMLINE_HOME"] = previous


def _moved(stage: Path, root: Path) -> None:
    """Copy a home and apply its feature store anew, since the registry names the place of the tables."""
    shutil.copytree(stage, root, dirs_exist_ok=True)
    home = Home(root / "tiny")
    if (home.registry / "registry.db").exists():
        apply(load_world("tiny"), home)


@pytest.fixture(scope="session")
def ingested_root(gemline_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The five raw tables of all days but the last."""
    return once(tmp_path_factory, "ingested", lambda root: _stage(None, root, "ingest_job", first=FIRST, last=COLD))


@pytest.fixture(scope="session")
def featured_root(ingested_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Statistics, feature store, examples and labels as well."""

    def make(root: Path) -> None:
        _stage(ingested_root, root, "features_job", first=FIRST, last=COLD)

    return once(tmp_path_factory, "featured", make)


@pytest.fixture(scope="session")
def judged_root(featured_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """And the model of the cold day, judged and released."""
    return once(tmp_path_factory, "judged", lambda root: _stage(featured_root, root, "gem_job", partition_key=COLD))


@pytest.fixture(scope="session")
def frozen_root(featured_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GEM of the second day, frozen, and what it says of the days up to the cold one."""

    def make(root: Path) -> None:
        _stage(featured_root, root, "gem_job", partition_key=SECOND)
        _stage(None, root, "generation_job")
        _stage(None, root, "transfer_job", first=SECOND, last=COLD)

    return once(tmp_path_factory, "frozen", make)


@pytest.fixture(scope="session")
def served_root(frozen_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """And the verticals of the cold day, live."""
    return once(tmp_path_factory, "served", lambda root: _stage(frozen_root, root, "verticals_job", partition_key=COLD))


@pytest.fixture(scope="session")
def followed_root(served_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """And the next day's tables, with what the frozen GEM says of it; no model has seen that day."""

    def make(root: Path) -> None:
        _stage(served_root, root, "tables_job", partition_key=NEXT)
        _stage(None, root, "transfer_job", partition_key=NEXT)

    return once(tmp_path_factory, "followed", make)


def work_on(stage: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy a stage into `target`, which is `GEMLINE_HOME` from then on."""
    _moved(stage, target)
    monkeypatch.setenv("GEMLINE_HOME", str(target))
    return target


@pytest.fixture
def ingested(ingested_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of `ingested_root`, as `GEMLINE_HOME` of this test."""
    return work_on(ingested_root, tmp_path / "home", monkeypatch)


@pytest.fixture
def featured(featured_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of `featured_root`, as `GEMLINE_HOME` of this test."""
    return work_on(featured_root, tmp_path / "home", monkeypatch)


@pytest.fixture
def judged(judged_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of `judged_root`, as `GEMLINE_HOME` of this test."""
    return work_on(judged_root, tmp_path / "home", monkeypatch)


@pytest.fixture
def frozen(frozen_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of `frozen_root`, as `GEMLINE_HOME` of this test."""
    return work_on(frozen_root, tmp_path / "home", monkeypatch)


@pytest.fixture
def served(served_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of `served_root`, as `GEMLINE_HOME` of this test."""
    return work_on(served_root, tmp_path / "home", monkeypatch)


@pytest.fixture
def followed(followed_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of `followed_root`, as `GEMLINE_HOME` of this test."""
    return work_on(followed_root, tmp_path / "home", monkeypatch)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """A Dagster instance of this test alone."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made
