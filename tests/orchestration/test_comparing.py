"""Which model a name means: live, a day, or letters of a digest of a model or package."""

import json
from pathlib import Path
from typing import Any

import pytest

from features.errors import GemlineError
from features.home import Home
from features.tables import ModelDecision
from orchestration.comparing import digest_of
from serving import releases
from tests.orchestration.reporting.conftest import HandTables


def made(ds: str, digest: str, decision: str = "promoted") -> ModelDecision:
    return ModelDecision("feed_click", ds, digest, decision, "", "[]", "checkpoints/x")


@pytest.fixture
def tables(tmp_path: Path) -> Any:
    home = Home(tmp_path / "tiny")
    folder = home.releases / "feed_click" / "packages" / "2024-03-10-model0"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"digest": "package0001", "model_digest": "model00001"}))
    damaged = folder.with_name("damaged")
    damaged.mkdir()
    (damaged / "manifest.json").write_text("{")
    releases.promote(
        home.releases,
        "feed_click",
        releases.Release("2024-03-10", "package0001", folder.relative_to(home.root).as_posix()),
    )
    decided = [made("2024-03-08", "model00000", "carried"), made("2024-03-10", "model00001")]
    return HandTables(home, [], decided, None)


@pytest.mark.parametrize("name", ["live", "2024-03-10", "model00001", "package", "package0001"])
def test_every_name_of_a_model_is_its_digest(tables: Any, name: str) -> None:
    assert digest_of(tables, "feed_click", name) == "model00001"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("2024-03-09", "nothing was decided about feed_click of 2024-03-09"),
        ("model0000", "several models"),
        ("model", "no model"),
        ("", "no model"),
        ("../../x", "no model"),
    ],
)
def test_what_names_no_single_model_says_what_would(tables: Any, name: str, said: str) -> None:
    with pytest.raises(GemlineError, match=said):
        digest_of(tables, "feed_click", name)


def test_nothing_live_is_said(tables: Any) -> None:
    with pytest.raises(GemlineError, match="nothing of story_click is live"):
        digest_of(tables, "story_click", "live")
