"""`gemline forget` on the whole graph of `tiny`: nothing of the user is left where it can be taken out, all else stays.

Files are searched as well: what no reader finds may still lie in an old version or on a deleted page.
"""

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from feast.infra.key_encoding_utils import serialize_entity_key

from features.clock import now
from features.forgotten import FILE, Forgotten
from features.home import Home
from features.store.lookup import entity_key, online_features
from features.store.repo import apply
from features.tables import forgetting as withdrawing
from features.worlds import load_world
from orchestration import forgetting
from orchestration.cli import main
from orchestration.filling import cache_of
from orchestration.resources import WorldResource
from serving.server.scorer import Scorer
from tests.orchestration.conftest import COLD, FIRST, NEXT, run

# a first test builds all stages before its own
pytestmark = [pytest.mark.assets, pytest.mark.timeout(900)]
GEMLINE = WorldResource(world_name="tiny")
WORLD = load_world("tiny")


def busy_user(tables: Any) -> int:
    """The user with most impressions, memories and parity rows among them."""
    rows = tables.read("impressions", list(tables.readable_days("impressions"))).where("user_id is not null")
    row = rows.groupBy("user_id").count().orderBy("count", "user_id", ascending=[False, True]).first()
    return int(row["user_id"])


def everything(tables: Any, user: int) -> dict[str, tuple[int, int]]:
    """Table -> rows of the user, and of everybody else."""
    traces = withdrawing.traces(tables, user)
    found = {}
    for name in withdrawing.table_names(tables):
        rows = traces.marked(tables.read(name, list(tables.readable_days(name))))
        counted = {row["_own"]: row["count"] for row in rows.groupBy("_own").count().collect()}
        found[name] = (counted.get(True, 0), counted.get(False, 0))
    return found


def on_disk(folder: Path, user: int) -> list[str]:
    """Parquet files below a folder that hold the user, whether any version names them or not."""
    found = []
    for path in folder.rglob("*.parquet"):
        if "_delta_log" in path.parts or "user_id" not in pq.read_schema(path).names:
            continue
        if user in pq.read_table(path, columns=["user_id"], partitioning=None)["user_id"].to_pylist():
            found.append(path.relative_to(folder).as_posix())
    return found


def ask(*arguments: str, answer: str = "") -> str:
    ended = CliRunner().invoke(main, ["forget", "--world", "tiny", *arguments], input=answer, catch_exceptions=False)
    assert ended.exit_code == (answer == "n"), ended.output
    return ended.stdout


def stored_key(home: Home, user: int) -> bool:
    """Whether the file of the online store holds the user's key anywhere, deleted pages included."""
    key = serialize_entity_key(entity_key("user_id", user), entity_key_serialization_version=3)
    return key in (home.online / "online.db").read_bytes()


def quarantined(tables: Any, user: int) -> list[str]:
    """Put four refused rows aside, of which the first and the third are the user's; returns the others."""
    rows = [
        ("impressions", json.dumps({"user": str(user), "slot": "3"})),
        ("impressions", json.dumps({"user": "77", "slot": str(user)})),
        ("outcomes", json.dumps({"line": f'9,"{user}",10'})),
        ("outcomes", json.dumps({"line": f"9,{user}0,10"})),
    ]
    refused = [(FIRST, table, "a rule", "a.csv", row) for table, row in rows]
    ddl = "ds STRING, `table` STRING, rule STRING, source STRING, row STRING"
    tables.quarantine(tables.spark.createDataFrame(refused, ddl), [FIRST])
    return [rows[1][1], rows[3][1]]


def refused_rows(tables: Any) -> list[str]:
    paths = [str(tables.home.tables / f"quarantine_{name}") for name in ("impressions", "outcomes")]
    return [row["row"] for path in paths for row in tables.spark.read.format("delta").load(path).collect()]


@pytest.mark.long
def test_a_user_is_forgotten_everywhere_and_nobody_else(served: Path, instance: dg.DagsterInstance) -> None:
    home = GEMLINE.home
    apply(WORLD, home)
    tables, cache = GEMLINE.tables(), cache_of(WORLD, home)
    user, live = busy_user(tables), list(home.releases.rglob("live.json"))
    not_theirs, before = quarantined(tables, user), everything(tables, user)
    days = {name: tables.readable_days(name) for name in before}
    names = {name for name, (own, _) in before.items() if own}
    assert {"impressions", "events", "users", "user_stats", "user_history", "user_recent", "examples"} <= names
    assert {"labels", "predictions", "fm_outputs", "solaris_vectors", "solaris_train_vectors"} <= names
    assert cache.forget_user(user, delete=False).keys() == {"exact_vectors", "user_vectors", "memories"}
    assert stored_key(home, user)
    sorted_copy = home.folder("cache/histories") / "user_ids.npy"
    sorted_copy.write_bytes(b"")

    # nothing is changed unless the question is answered with yes
    shown = ask(str(user), answer="n")
    assert "would remain" in shown and f"table labels: {before['labels'][0]} rows" in shown
    assert "table quarantine_impressions: 1 rows" in shown and "table quarantine_outcomes: 1 rows" in shown
    assert {name: tables.readable_days(name) for name in before} == days and not (home.root / FILE).exists()

    told = ask(str(user), "--reason", "asked by letter", answer="y")
    # without the user's impressions nothing tells whose labels they were, so the others are counted
    assert everything(tables, user) == {name: (0, others) for name, (_, others) in before.items()}
    assert on_disk(home.tables, user) == [] and not sorted_copy.exists()
    assert not (home.root / "quality").exists()
    assert not cache.forget_user(user, delete=False) and not stored_key(home, user)
    online = online_features(WORLD, home, [user], [], now(WORLD, home))
    for view in ("user_stats", "user_attributes", "user_recent"):
        assert online.missing[view] == {"absent": 1}
    assert refused_rows(tables) == not_theirs
    _is_explained(tables, days)
    # released artefacts are named, and as they were
    for said in ("weights of gem", "trained on up to", "generation gen-", "package ", "embedding table `user`"):
        assert said in told
    assert [path for path in live if path.exists()] == live
    states = Scorer(WORLD, home).live.states()
    assert {vertical: fault for vertical, (_, fault) in states.items() if fault} == {}

    # again: nothing to do; the record stays, without the id
    assert "nothing found" in ask(str(user), "--yes")
    assert str(user) not in (home.root / FILE).read_text()
    record = Forgotten.of(home).users[Forgotten.of(home).mark(user)]
    assert record["done"] and record["removed"]["table impressions"] == before["impressions"][0]
    assert any("generation gen-" in line for line in record["remains"])
    _stays_out(tables, user, instance)


def _is_explained(tables: Any, before: dict[str, dict[str, str]]) -> None:
    """Days stay readable, the ledger says why their content is another, and untouched days keep theirs."""
    for name, days in before.items():
        gates = tables.ledger.published(name)
        assert gates.keys() == days.keys()
        for ds, content in days.items():
            assert gates[ds].content_hash == content or gates[ds].sample == "a user was forgotten: asked by letter"
    assert tables.readable_days("ads") == before["ads"]


def _stays_out(tables: Any, user: int, instance: dg.DagsterInstance) -> None:
    """A day that is read again from a log that still holds the user is the day as it stands; so is the next one."""
    standing = {name: tables.readable_days(name) for name in withdrawing.table_names(tables)}
    assert run(instance, "ingest_job", first=FIRST, last=COLD).success
    assert {name: tables.readable_days(name) for name in standing} == standing
    assert run(instance, "tables_job", partition_key=NEXT).success
    left = everything(tables, user)
    assert [left[name][0] for name in ("impressions", "events", "examples")] == [0, 0, 0]
    assert on_disk(tables.home.tables, user) == []


@pytest.mark.parametrize(("broken", "at"), [("commit", "events"), ("ledger", "impressions"), ("vacuum", "all tables")])
def test_what_broke_off_is_ended_by_the_same_command(
    ingested: Path, monkeypatch: pytest.MonkeyPatch, broken: str, at: str
) -> None:
    """A crash before a table's commit, between a commit and its ledger rows, and before old versions are dropped."""
    tables = GEMLINE.tables()
    user = busy_user(tables)
    before = everything(tables, user)

    def crash(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    def crash_at(given: Any, table: str, *rest: Any) -> Any:
        if table == at:
            if broken == "commit":
                raise KeyboardInterrupt
            monkeypatch.setattr(given.ledger, "append", crash)
        return withdraw(given, table, *rest)

    withdraw = withdrawing.withdraw
    with monkeypatch.context() as patch:
        if broken == "vacuum":
            patch.setattr(withdrawing, "drop_old_versions", crash)
        else:
            patch.setattr(withdrawing, "withdraw", crash_at)
        with pytest.raises(KeyboardInterrupt):
            forgetting.forget(tables, user, "asked", lambda _: None)
    monkeypatch.undo()
    monkeypatch.setenv("GEMLINE_HOME", str(ingested))
    tables = GEMLINE.tables()
    vars(tables).pop("ledger", None)
    for name in before:
        # what a crash left is readable all the same
        assert tables.read(name, list(tables.readable_days(name))).count() >= before[name][1]
    assert not Forgotten.of(GEMLINE.home).users[Forgotten.of(GEMLINE.home).mark(user)]["done"]

    forgetting.forget(tables, user, "asked", lambda _: None)
    assert everything(tables, user) == {name: (0, others) for name, (_, others) in before.items()}
    assert on_disk(GEMLINE.home.tables, user) == []
    record = Forgotten.of(GEMLINE.home).users[Forgotten.of(GEMLINE.home).mark(user)]
    own = {f"table {name}": rows for name, (rows, _) in before.items() if rows}
    assert record["done"] and {place: record["removed"][place] for place in own} == own


def test_a_day_of_which_nothing_is_left_is_waived(ingested: Path) -> None:
    tables = GEMLINE.tables()
    user = busy_user(tables)
    tables.publish("users", tables.read("users", [FIRST]).where(f"user_id = {user}"), [FIRST])
    forgetting.forget(tables, user, "", lambda _: None)
    gate = tables.ledger.published("users")[FIRST]
    assert (gate.verdict, gate.rows, gate.sample) == ("waived", 0, "a user was forgotten")
    assert tables.read("users", [FIRST]).count() == 0


def test_files_past_the_ledger_are_left_alone(ingested: Path) -> None:
    """Old versions go only where the newest is the published one: else the published files would go with them."""
    from features.errors import GemlineError

    tables = GEMLINE.tables()
    user, path = busy_user(tables), str(tables.path("ads"))
    rows = tables.read("ads", list(tables.readable_days("ads"))).count()
    tables.spark.read.format("delta").load(path).limit(1).write.format("delta").mode("overwrite").save(path)
    with pytest.raises(GemlineError, match="somebody wrote past the ledger; old versions stay"):
        forgetting.forget(tables, user, "", lambda _: None)
    assert tables.read("ads", list(tables.readable_days("ads"))).count() == rows
    tables.spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {tables.version('ads')}")
    forgetting.forget(tables, user, "", lambda _: None)
    assert on_disk(tables.home.tables, user) == []


def test_a_blank_user_is_refused() -> None:
    ended = CliRunner().invoke(main, ["forget", " ", "--world", "tiny"])
    assert ended.exit_code == 1 and "USER is blank" in ended.output


def test_the_key_of_a_text_user_is_its_hash() -> None:
    from features.transform.hashing import string_id

    assert forgetting.user_of("alice@example.org") == string_id("alice@example.org")
    assert forgetting.user_of("4611686018427387905") == 4611686018427387905
