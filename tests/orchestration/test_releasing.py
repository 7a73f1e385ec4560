"""Ledger and live pointer never disagree: promotion, a day trained again, rollback and its undoing, broken off."""

from pathlib import Path
from typing import Any

import pytest

from features.home import Home
from features.tables.decisions import Decisions, ModelDecision
from orchestration.releasing import decide, go_live, roll_back, undo_rollback
from serving import releases

LINE = "gem"


class HandDecisions(Decisions):
    """The ledger in memory."""

    def __init__(self) -> None:
        self.hand: list[ModelDecision] = []

    def rows(self) -> list[ModelDecision]:
        return self.hand

    def append(self, records: Any) -> None:
        self.hand += records


class HandTables:
    """What releasing asks of `features.tables.Tables`."""

    def __init__(self, home: Home) -> None:
        self.home, self.decisions = home, HandDecisions()


@pytest.fixture
def tables(tmp_path: Path) -> Any:
    return HandTables(Home(tmp_path / "tiny"))


def day(number: int) -> str:
    return f"2024-03-0{number}"


def judged(tables: Any, number: int, digest: str, kind: str = "promoted") -> ModelDecision:
    """Decide about a model and release it, as the asset does."""
    folder = tables.home.checkpoints / LINE / day(number) / digest
    folder.mkdir(parents=True, exist_ok=True)
    made = decide(
        tables, LINE, day(number), digest, folder, {"decision": {"kind": kind, "reason": "better", "evidence": []}}
    )
    go_live(tables.home, made, made.digest, made.path)
    return made


def state(tables: Any) -> tuple[str | None, str | None, str | None]:
    """Digests of what is live, of the incumbent and of the parent of a later day."""
    live = releases.live(tables.home.releases, LINE)
    found = tables.decisions.incumbent(LINE, day(9)), tables.decisions.parent(LINE, day(9))
    return live and live.digest, *(row and row.digest for row in found)  # type: ignore[return-value]


def test_a_rollback_reaches_the_decisions(tables: Any) -> None:
    for number, digest, kind in ((1, "a", "promoted"), (2, "b", "carried"), (3, "c", "promoted"), (4, "d", "carried")):
        judged(tables, number, digest, kind)
    assert state(tables) == ("c", "c", "d")
    release, taken = roll_back(tables, LINE, "clicks fell")
    assert (release.digest, [row.digest for row in taken]) == ("a", ["c", "d"])
    # what was carried on from the day rolled back is gone with it, what came before it is not
    assert state(tables) == ("a", "a", "b")
    # materializing the release of that day again does not bring it back
    assert judged(tables, 3, "c").decision == "rolled_back"
    assert state(tables) == ("a", "a", "b")
    # a later day may go live
    judged(tables, 5, "e")
    assert state(tables) == ("e", "e", "e")


def test_a_rollback_is_undone(tables: Any) -> None:
    for number, digest in ((1, "a"), (2, "b"), (3, "c"), (4, "d")):
        judged(tables, number, digest, "carried" if digest == "d" else "promoted")
    before = {row.digest: row for row in tables.decisions.standing(LINE)}
    roll_back(tables, LINE, "first")
    roll_back(tables, LINE, "second")
    assert state(tables) == ("a", "a", "a")
    release, again = undo_rollback(tables, LINE, "it was the log")
    assert (release.digest, [row.digest for row in again]) == ("b", ["b"])
    assert state(tables) == ("b", "b", "b")
    with pytest.raises(releases.ReleaseError, match="no rollback"):
        undo_rollback(tables, LINE, "and the other")
    roll_back(tables, LINE, "third")
    undo_rollback(tables, LINE, "again")
    standing = {row.digest: row for row in tables.decisions.standing(LINE)}
    assert standing["b"] == before["b"]
    assert [standing[digest].decision for digest in "cd"] == ["rolled_back"] * 2
    judged(tables, 5, "e")
    assert roll_back(tables, LINE, "fourth")[0].digest == "b"


def test_nothing_changes_without_a_reason_or_a_release_before(tables: Any) -> None:
    judged(tables, 1, "a")
    for reason, sentence in (("why", "no earlier release"), (" ", "needs a reason")):
        with pytest.raises(releases.ReleaseError, match=sentence):
            roll_back(tables, LINE, reason)
    assert state(tables) == ("a", "a", "a")
    assert len(tables.decisions.hand) == 1


@pytest.mark.parametrize("act", [roll_back, undo_rollback])
def test_what_breaks_off_in_between_is_ended_by_the_same_command(
    tables: Any, monkeypatch: pytest.MonkeyPatch, act: Any
) -> None:
    for number, digest in ((1, "a"), (2, "b"), (3, "c")):
        judged(tables, number, digest)
    if act is undo_rollback:
        roll_back(tables, LINE, "why")

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(releases, "_move", killed)
    with pytest.raises(KeyboardInterrupt):
        act(tables, LINE, "why")
    monkeypatch.undo()
    act(tables, LINE, "why")
    assert state(tables) == (("b",) * 3 if act is roll_back else ("c",) * 3)


def test_a_live_day_trained_again_is_carried_and_says_why(tables: Any) -> None:
    judged(tables, 1, "a")
    judged(tables, 2, "b")
    for number, newest in ((2, 2), (1, 2)):
        made = judged(tables, number, f"again{number}")
        assert made.decision == "carried"
        assert f"{day(newest)} was live already" in made.reason
    assert state(tables) == ("b", "b", "again2")
    # deciding again about each of them changes nothing
    rows = len(tables.decisions.hand)
    assert judged(tables, 2, "again2").decision == "carried"
    assert len(tables.decisions.hand) == rows
    assert judged(tables, 2, "b").decision == "promoted"
    assert state(tables)[:2] == ("b", "b")
    assert judged(tables, 1, "a").decision == "promoted"
    assert state(tables)[:2] == ("b", "b")


def test_an_artefact_written_anew_in_its_place_stays_live(tables: Any) -> None:
    judged(tables, 1, "a")
    made = judged(tables, 2, "b")
    assert go_live(tables.home, made, "b2", made.path)
    assert releases.live(tables.home.releases, LINE).digest == "b2"  # type: ignore[union-attr]
    assert go_live(tables.home, made, "b2", made.path)
    assert len(releases.history(tables.home.releases, LINE)) == 3
    assert not go_live(tables.home, made, "other", "checkpoints/gem/2024-03-02/elsewhere")
    # not two releases but one: a rollback leaves both
    assert roll_back(tables, LINE, "why")[0].digest == "a"
