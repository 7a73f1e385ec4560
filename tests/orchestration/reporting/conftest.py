"""A judged day of `tiny` by hand: evaluation files, tables that answer without Spark, examples as one Parquet file."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from features.errors import GateClosed
from features.home import Home
from features.schema_of import schema_of
from features.tables import Gate, ModelDecision, PinnedDay
from features.tables.decisions import Decisions
from features.tables.ledger import Ledger
from features.worlds import World, load_world

DS = "2024-03-10"
HOSTILE = "<script>alert('x')</script>"
Writer = Callable[..., Path]


def number(value: float | None, low: float | None = None, high: float | None = None, **more: Any) -> dict[str, Any]:
    """An estimate as `training.evaluation_text.estimate_json` writes it."""
    return {"value": value, "low": low, "high": high, **more}


def sliced(
    task: str, surface: str | None, metrics: Mapping[str, Any] | None = None, status: str = "ok", **more: Any
) -> dict[str, Any]:
    """A row as `training.evaluation_text.to_json` writes it."""
    by = "all" if surface is None else "surface"
    head = {"task": task, "by": by, "value": surface, "first_day": DS, "last_day": DS, "status": status}
    return {**head, "rows": 1234, "positives": 56, "weight": 2000.0, "positive_weight": 56.0, **more} | {
        "metrics": dict(metrics or {}),
        "reliability": more.get("reliability", []),
    }


def good() -> dict[str, Any]:
    """All metrics of one slice."""
    return {
        "ne": number(0.9123, 0.8811, 0.9402),
        "auc": number(0.6512, 0.6001, 0.7003),
        "gauc": number(0.6011, None, None, groups=31, reason="fewer than two users"),
        "calibration": number(1.0711, 0.9044, 1.2205),
        "log_loss": number(0.1511, 0.1401, 0.1622),
    }


def judged(kind: str = "promoted", reason: str = "click: not worse", **more: Any) -> dict[str, Any]:
    """An evaluation file's content."""
    evidence = [
        {
            "task": "click",
            "verdict": "worse" if kind == "rejected" else "not worse",
            "reason": reason,
            "rows": 900,
            "positives": 41,
            "weight": 1400.0,
            "positive_weight": 41.0,
            "days": ["today", "2024-03-08"],
            "ne_difference": number(0.02, 0.01, 0.03),
        }
    ]
    return {
        "decision": {"kind": kind, "reason": reason, "evidence": evidence},
        "served": [sliced("click", None, good()), sliced("click", "feed", good())],
        "pooled": [
            sliced("click", None, good()),
            sliced("click", "story", status="insufficient (3)", positives=3),
            sliced("click", "feed", {"ne": number(None, reason="one class")}, status="undefined (one class)"),
        ],
        "against_popularity": [sliced("click", None, {"ne_difference": number(-0.0311, -0.0502, -0.0101)})],
        "markdown": "",
        **more,
    }


@pytest.fixture
def world() -> World:
    """The world `tiny`, which is synthetic and has two verticals."""
    return load_world("tiny")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty home."""
    return Home(tmp_path / "tiny")


@pytest.fixture
def write(home: Home) -> Writer:
    """Write an evaluation: `write(line, content, ds)`."""

    def written(line: str, content: Any, ds: str = DS) -> Path:
        path = home.releases / line / "evaluations" / f"{ds}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return written


class HandLedger(Ledger):
    """The real ledger's reading, of rows by hand."""

    def __init__(self, gates: list[Gate]) -> None:
        self.hand = gates

    def rows(self) -> list[Gate]:
        return self.hand


class HandDecisions(Decisions):
    """The real ledger's reading, of rows by hand."""

    def __init__(self, made: list[ModelDecision]) -> None:
        self.hand = made

    def rows(self) -> list[ModelDecision]:
        return self.hand


class HandTables:
    """What a report asks of `features.tables.Tables`."""

    def __init__(self, home: Home, gates: list[Gate], made: list[ModelDecision], paths: tuple[str, ...] | None) -> None:
        self.home, self.paths = home, paths
        self.ledger, self.decisions = HandLedger(gates), HandDecisions(made)
        self.spark = SimpleNamespace(read=self)

    def files(self, table: str, days: list[str]) -> dict[str, PinnedDay]:
        if self.paths is None:
            raise GateClosed(f"{table} of {days[0]} was never published; materialize it first")
        return {ds: PinnedDay("hash", self.paths) for ds in days}

    def format(self, name: str) -> "HandTables":
        assert name == "delta"
        return self

    def load(self, path: str) -> SimpleNamespace:
        uris = [file.as_uri() for file in Path(path).rglob("*.parquet")]
        return SimpleNamespace(inputFiles=lambda: uris)


def gate(table: str, verdict: str = "passed", **more: Any) -> Gate:
    """A ledger row of the day."""
    given = {"rows": 10, "rule": "", "sample": "", "published": verdict != "failed", "delta_version": 0, "ds": DS}
    return Gate(table=table, verdict=verdict, content_hash=f"{table}-content", **(given | more))


@pytest.fixture
def examples(tmp_path: Path, world: World) -> str:
    """Four examples: every feature is null except a dense one with a null and a NaN, and a categorical one."""
    schema = schema_of(world)
    columns = {feature.name: pa.array([None] * 4, pa.float64()) for feature in schema.dense}
    columns |= {feature.name: pa.array([None] * 4, pa.int64()) for feature in schema.categorical}
    columns["user_events_1d"] = pa.array([2.0, 4.0, None, float("nan")])
    columns["ad_id"] = pa.array([7, 7, 9, None])
    path = tmp_path / "examples.parquet"
    parquet.write_table(pa.table(columns), path)
    return str(path)
