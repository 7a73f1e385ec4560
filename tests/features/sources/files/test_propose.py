"""A first world file from a sample of a log: what it guesses, that it fits, and what it leaves to a person."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

from features.errors import WorldError
from features.sources.base import source
from features.sources.files.propose import Proposal, propose
from features.worlds.load import SHIPPED, read_world
from orchestration.cli import main

TINY = SHIPPED.parent / "sources" / "tiny" / "log"


def _read(proposal: Proposal, folder: Path) -> dict[str, Any]:
    """The world file as it is written, once the product has taken it."""
    path = folder / "draft.yaml"
    path.write_text(proposal.text)
    world = read_world(path)
    source(world).check(world)
    return yaml.safe_load(proposal.text)


def _written(folder: Path, **files: str) -> list[Path]:
    paths = [folder / name.replace("__", ".") for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.write_text(text)
    return paths


def test_the_shipped_log_gets_the_mapping_that_a_person_wrote(tmp_path: Path) -> None:
    raw = _read(propose([TINY], "mine", "America/New_York", tmp_path), tmp_path)
    person = yaml.safe_load((SHIPPED / "tiny.yaml").read_text())
    for table in ("outcomes", "users", "ads"):
        assert raw["source"]["options"][table] == person["source"]["options"][table], table
    own = person["source"]["options"]["impressions"]["columns"]
    guessed = raw["source"]["options"]["impressions"]["columns"]
    assert {name: guessed[name] for name in own if name != "format"} == {k: own[k] for k in own if k != "format"}
    for key in ("timezone", "first_day", "last_day", "users", "ads", "embeddings"):
        assert raw[key] == person[key], key
    assert [surface["name"] for surface in raw["surfaces"]] == ["feed", "story"]
    assert [(task["name"], task["match"]) for task in raw["tasks"]] == [
        ("click", ["request_id", "ad_id"]),
        ("buy", ["request_id", "ad_id"]),
    ]
    assert {feature["name"] for feature in raw["categorical"] if feature.get("multi")} == {"tags"}


def test_labels_slates_spellings_and_headless_files_are_seen(tmp_path: Path) -> None:
    seconds = _written(
        tmp_path, **{"ratings__tsv": "userId\titemId\trating\ttimestamp\n1\t5\t3\t881250949\n2\t6\t5\t881337349\n"}
    )
    proposal = propose(seconds, "a", "UTC", tmp_path)
    options = _read(proposal, tmp_path)["source"]["options"]
    assert options["impressions"]["times"] == {"request_ts": "s"}
    assert options["outcomes"]["labels"] == {"liked": {"column": "rating", "at_least": 4.0}}
    assert options["events"]["columns"]["user_id"] == "userId"
    assert any("'rating' of 4 or more" in question for question in proposal.open)

    rows = [{"request": at, "user": at, "at": "13/01/24", "ads": [1, 2, 3], "clicked": [2]} for at in range(3)]
    slates = _written(tmp_path, slates__jsonl="".join(json.dumps(row) + "\n" for row in rows))
    options = _read(propose(slates, "b", "UTC", tmp_path), tmp_path)["source"]["options"]
    assert options["impressions"]["slate"] == ["ads"]
    assert options["impressions"]["times"] == {"request_ts": "d/M/yy"}
    assert options["outcomes"]["labels"] == {"clicked": {"column": "clicked", "holds": "ads"}}

    stream = (
        "uid;item;action;ts\n1;5;impression;1709814600123\n1;5;Add To Cart;1709814700123\n1;6;view_item;1709814700123\n"
    )
    several = _written(tmp_path, **{"log-1__csv": stream, "log-2__csv": stream})
    raw = _read(propose(several, "c", "UTC", tmp_path), tmp_path)
    options = raw["source"]["options"]
    assert options["impressions"]["file"] == "log-*.csv" and options["impressions"]["delimiter"] == ";"
    assert options["impressions"]["where"] == {"action": ["impression", "view_item"]}
    assert options["events"]["recode"] == {"event_type": {"Add To Cart": "add_to_cart"}}
    assert raw["event_types"] == ["add_to_cart"]


def test_parquet_times_and_ids_are_read_by_type(tmp_path: Path) -> None:
    stamps = pa.array([1709814600123456789, 1709814700123456789], pa.timestamp("ns"))
    columns = {"user_id": [2**62 + 1, None], "ad_id": [5, 6], "ts": stamps, "click": [True, False]}
    pq.write_table(pa.table(columns | {"device": ["a", "b"]}), tmp_path / "log.parquet")
    raw = _read(propose([tmp_path / "log.parquet"], "d", "UTC", tmp_path), tmp_path)
    assert raw["source"]["options"]["outcomes"]["labels"] == {"click": "click"}
    assert raw["context"] == ["device"] and raw["first_day"] == "2024-03-07"
    (tmp_path / "log.parquet").write_bytes(b"no")
    with pytest.raises(WorldError, match=r"log.parquet cannot be read as Parquet"):
        propose([tmp_path / "log.parquet"], "d", "UTC", tmp_path)


def test_what_cannot_be_known_is_asked(tmp_path: Path) -> None:
    """A log without users and without clicks, whose days could be months."""
    text = "ad,date,price\n5,01/02/24,1.5\n6,03/04/24,2.5\n5,03/04/24,2.5\n"
    proposal = propose(_written(tmp_path, shown__csv=text), "e", "UTC", tmp_path)
    asked = " ".join(proposal.open)
    for part in ("may be d/M/yy or M/d/yy", "no file says what was clicked", "no users", "no request and no user"):
        assert part in asked
    assert proposal.text.count("# FILL IN") == len(proposal.open)


def test_a_log_without_ads_is_one_sentence(tmp_path: Path) -> None:
    (path,) = _written(tmp_path, weather__csv="town,degrees\nParis,20\n")
    with pytest.raises(WorldError, match=r"no file looks like impressions, .*weather.csv: town, degrees"):
        propose([path], "f", "UTC", tmp_path)
    with pytest.raises(WorldError, match="is no IANA time zone"):
        propose([path], "f", "Moon/Base", tmp_path)


def test_the_command_writes_a_file_once(tmp_path: Path) -> None:
    out = tmp_path / "mine.yaml"
    command = ["world", "init", str(TINY), "--out", str(out), "--name", "mine", "--timezone", "America/New_York"]
    first = CliRunner().invoke(main, command)
    assert first.exit_code == 0 and "fill in: first_day and last_day" in first.output
    world = read_world(out)
    source(world).check(world)
    assert CliRunner().invoke(main, command).exit_code == 1
