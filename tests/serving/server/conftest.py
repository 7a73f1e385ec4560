"""A filled home, made once a session and copied."""

import shutil
from pathlib import Path

import pytest

from features.home import Home
from features.store.repo import apply
from serving.server.scorer import Scorer
from tests.serving.server.served import WORLD, filled, release, scorer


@pytest.fixture(scope="session")
def filled_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return filled(Home(tmp_path_factory.mktemp("filled") / "tiny"))


@pytest.fixture
def home(filled_home: Home, tmp_path: Path) -> Home:
    """A home of the test's own, nothing live."""
    target = tmp_path / "tiny"
    shutil.copytree(filled_home.root, target, ignore=shutil.ignore_patterns("registry", "*.lock"))
    copied = Home(target)
    apply(WORLD, copied)
    return copied


@pytest.fixture
def served(home: Home) -> Scorer:
    """A scorer with a live package of vertical `feed_click`."""
    release(home, "2024-03-09", "pkg-a", "gen-a")
    return scorer(home)
