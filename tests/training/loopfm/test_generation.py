"""Generations in the order in which they were frozen, which of them stay filled, and what a damaged one means."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from features.errors import GemlineError
from features.home import Home
from models import artefact
from training.loopfm import freeze
from training.loopfm.generation import coexisting, folder_of, manifests


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "tiny")


def put(home: Home, name: str, ds: str, **more: Any) -> None:
    manifest = {"name": f"gen-{name}", "ds": ds, "model": {"digest": f"model-{name}"}, "width": 4, **more}
    artefact.write(folder_of(home) / f"gen-{name}", manifest, {"dense": {"w": torch.zeros(2)}})


def damage(home: Home, name: str) -> None:
    (folder_of(home) / f"gen-{name}" / "dense.safetensors").write_bytes(b"x")


def names(found: list[dict[str, Any]]) -> list[str]:
    return [manifest["name"].removeprefix("gen-") for manifest in found]


def test_order_is_that_of_freezing(home: Home) -> None:
    """Also on one day, and of an older model frozen later; those of earlier code come first, by day."""
    for name, ds, more in (
        ("z", "2024-03-08", {"sequence": 1}),
        ("m", "2024-03-08", {"sequence": 2}),
        ("a", "2024-03-05", {"sequence": 3}),
        ("y", "2024-03-09", {}),
        ("x", "2024-03-10", {}),
    ):
        put(home, name, ds, **more)
    assert names(manifests(home)) == ["y", "x", "z", "m", "a"]


def test_the_newest_and_the_pinned_are_kept_filled(home: Home) -> None:
    with pytest.raises(GemlineError, match="no generation was frozen yet"):
        coexisting(home)
    for place, name in enumerate("dcba"):
        put(home, name, "2024-03-08", sequence=place + 1)
    assert names(coexisting(home)) == ["b", "a"]
    assert names(coexisting(home, {"gen-d"})) == ["d", "b", "a"]
    assert names(coexisting(home, {"gen-a"})) == ["b", "a"]
    with pytest.raises(GemlineError, match="generation gen-q is not there, but a model that counts"):
        coexisting(home, {"gen-q"})


@pytest.mark.parametrize("lost", [False, True])
def test_a_damaged_generation_matters_only_where_it_is_needed(
    home: Home, lost: bool, caplog: pytest.LogCaptureFixture
) -> None:
    for place, name in enumerate("cba"):
        put(home, name, "2024-03-08", sequence=place + 1)
    damage(home, "c")
    if lost:
        (folder_of(home) / "gen-c" / "manifest.json").unlink()
    with caplog.at_level(logging.WARNING):
        assert names(coexisting(home)) == ["b", "a"]
    assert "left out: generation gen-c is not readable" in caplog.text
    with pytest.raises(GemlineError, match="freeze GEM of its day again"):
        coexisting(home, {"gen-c"})


def test_a_model_is_frozen_once(home: Home) -> None:
    """Another seed or width is another generation; earlier code did not write its seed."""
    put(home, "a", "2024-03-08", sequence=1, seed=7)
    put(home, "b", "2024-03-08")
    assert freeze._held(home, "model-a", 4, 7) == manifests(home)[1]
    assert freeze._held(home, "model-a", 4, 8) is None
    assert freeze._held(home, "model-a", 5, 7) is None
    assert freeze._held(home, "model-b", 4, 8) == manifests(home)[0]
    damage(home, "a")
    assert freeze._held(home, "model-a", 4, 7) is None


def test_a_name_is_that_of_what_vectors_come_of() -> None:
    one, other = {"w": torch.zeros(3)}, {"w": torch.ones(3)}
    assert freeze._name("m", one) == freeze._name("m", dict(one))
    assert len({freeze._name("m", one), freeze._name("m", other), freeze._name("n", one)}) == 3
