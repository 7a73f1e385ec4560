"""The live pointer: later days only, explicit rollback, crashes at every step, names that try to leave."""

import ast
import json
import os
from pathlib import Path

import pytest

from serving import releases
from serving.releases import Release, ReleaseError, artefact_path, history, live, promote, rollback


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Releases folder of a home with artefacts of four days."""
    for day in range(1, 5):
        (tmp_path / "checkpoints" / "gem" / f"2017-07-0{day}").mkdir(parents=True)
    return tmp_path / "releases"


def release(day: int, digest: str | None = None) -> Release:
    """The release of a day."""
    ds = f"2017-07-0{day}"
    return Release(ds, digest or f"digest{day}", f"checkpoints/gem/{ds}")


def test_nothing_is_live_before_the_first_promotion(root: Path) -> None:
    assert live(root, "gem") is None
    assert history(root, "gem") == []


def test_promotion_moves_to_later_days_and_records_each_move(root: Path) -> None:
    promote(root, "gem", release(1))
    promote(root, "gem", release(3))
    assert live(root, "gem") == release(3)
    moves = history(root, "gem")
    assert [(move.sequence, move.action, move.release, move.previous) for move in moves] == [
        (1, "promoted", release(1), None),
        (2, "promoted", release(3), 1),
    ]
    assert live(root, "vertical.mailer") is None


def test_promoting_again_changes_nothing(root: Path) -> None:
    first = promote(root, "gem", release(1))
    before = {path: path.read_bytes() for path in root.rglob("*.json")}
    assert promote(root, "gem", release(1)) == first
    assert {path: path.read_bytes() for path in root.rglob("*.json")} == before


@pytest.mark.parametrize("other", [release(1), release(2, "another")])
def test_same_or_earlier_day_is_refused_and_the_pointer_stays(root: Path, other: Release) -> None:
    promote(root, "gem", release(2))
    with pytest.raises(ReleaseError, match="only to a later day"):
        promote(root, "gem", other)
    assert live(root, "gem") == release(2)


def test_rollback_returns_step_by_step_and_bars_the_day(root: Path) -> None:
    for day in (1, 2, 3):
        promote(root, "gem", release(day))
    assert rollback(root, "gem", "clicks fell").release == release(2)
    assert rollback(root, "gem", "still low").release == release(1)
    assert live(root, "gem") == release(1)
    with pytest.raises(ReleaseError, match="no earlier release"):
        rollback(root, "gem", "again")
    with pytest.raises(ReleaseError, match="2017-07-03 was live already"):
        promote(root, "gem", release(3))
    promote(root, "gem", release(4))
    assert rollback(root, "gem", "bad as well").release == release(1)
    assert [(move.action, move.reason) for move in history(root, "gem")][3] == ("rolled_back", "clicks fell")


def test_rollback_needs_a_reason_and_an_artefact(root: Path) -> None:
    promote(root, "gem", release(1))
    promote(root, "gem", release(2))
    with pytest.raises(ReleaseError, match="needs a reason"):
        rollback(root, "gem", "  ")
    artefact_path(root, release(1)).rmdir()
    with pytest.raises(ReleaseError, match="restore or retrain"):
        rollback(root, "gem", "slow")
    assert live(root, "gem") == release(2)


def test_release_without_artefact_is_refused(root: Path) -> None:
    with pytest.raises(ReleaseError, match="has no folder"):
        promote(root, "gem", Release("2017-07-09", "d", "checkpoints/gem/2017-07-09"))
    assert not root.exists()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../gem", "a/b", "/etc", "a\\b", "a..b", ".hidden", "gem\n", "gem\0", "x" * 65, 7]
)
def test_names_cannot_leave_the_root(root: Path, name: str) -> None:
    for call in (live, history, lambda *a: promote(*a, release(1)), lambda *a: rollback(*a, "why")):
        with pytest.raises(ReleaseError, match="is not a name"):
            call(root, name)


@pytest.mark.parametrize(
    ("ds", "digest", "path"),
    [
        ("2017-7-1", "d", "a"),
        ("2017-02-30", "d", "a"),
        ("../x", "d", "a"),
        ("2017-07-01", "", "a"),
        ("2017-07-01", "d/..", "a"),
        ("2017-07-01", "d", ""),
        ("2017-07-01", "d", "."),
        ("2017-07-01", "d", "/etc"),
        ("2017-07-01", "d", "a/../../b"),
        ("2017-07-01", "d", "a\\..\\b"),
    ],
)
def test_releases_are_validated(ds: str, digest: str, path: str) -> None:
    with pytest.raises(ReleaseError):
        Release(ds, digest, path)


def test_a_link_out_of_the_home_is_refused(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (root.parent / "outside").symlink_to(tmp_path_factory.mktemp("elsewhere"))
    with pytest.raises(ReleaseError, match="leads out of"):
        promote(root, "gem", Release("2017-07-01", "d", "outside"))


class Crash(Exception):
    """Stands for the process dying."""


@pytest.mark.parametrize("step", range(1, 8))
def test_a_crash_at_any_step_leaves_the_old_or_the_new_release(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    promote(root, "gem", release(1))
    reached = 0
    real = {"fsync": os.fsync, "link": os.link, "rename": Path.replace}

    def dying(name: str):
        def call(*arguments: object) -> object:
            nonlocal reached
            reached += 1
            if reached == step:
                raise Crash
            return real[name](*arguments)

        return call

    monkeypatch.setattr(releases.os, "fsync", dying("fsync"))
    monkeypatch.setattr(releases.os, "link", dying("link"))
    monkeypatch.setattr(releases.Path, "replace", dying("rename"))
    with pytest.raises(Crash):
        promote(root, "gem", release(2))
    monkeypatch.undo()
    assert live(root, "gem") in (release(1), release(2))
    promote(root, "gem", release(2))
    assert live(root, "gem") == release(2)
    assert [move.release for move in history(root, "gem")] == [release(1), release(2)]
    assert rollback(root, "gem", "check").release == release(1)


def test_the_record_is_on_disk_before_the_pointer_moves(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: Path, target: Path) -> None:
        raise Crash

    monkeypatch.setattr(releases.Path, "replace", never)
    with pytest.raises(Crash):
        promote(root, "gem", release(1))
    monkeypatch.undo()
    assert (root / "gem" / "history" / "000001.json").exists()
    assert live(root, "gem") is None
    promote(root, "gem", release(1))
    assert live(root, "gem") == release(1)


@pytest.mark.parametrize("keep", [0, 1, 10, -1])
@pytest.mark.parametrize("name", ["live.json", "history/000002.json"])
def test_torn_files_are_named(root: Path, name: str, keep: int) -> None:
    promote(root, "gem", release(1))
    promote(root, "gem", release(2))
    path = root / "gem" / name
    path.write_bytes(path.read_bytes()[:keep])
    for call in (live, history, lambda *a: promote(*a, release(3)), lambda *a: rollback(*a, "why")):
        with pytest.raises(ReleaseError, match=f"{path.name} is torn"):
            call(root, "gem")


@pytest.mark.parametrize(
    "content",
    [
        [],
        {},
        {"sequence": "../../x", "digest": "digest2"},
        {"sequence": 2, "digest": "other"},
        {"sequence": 9, "digest": "d"},
    ],
)
def test_damaged_pointers_are_refused(root: Path, content: object) -> None:
    promote(root, "gem", release(1))
    promote(root, "gem", release(2))
    (root / "gem" / "live.json").write_text(json.dumps(content))
    with pytest.raises(
        ReleaseError,
        match=r"restore .*gem from a backup, or move live.json and history aside and materialize .*gem_release",
    ):
        live(root, "gem")


@pytest.mark.parametrize(
    "change",
    [{"release": {"ds": "2017-07-02"}}, {"previous": 2}, {"sequence": 1}, {"extra": 1}, {"action": "x"}],
)
def test_damaged_records_are_refused(root: Path, change: dict) -> None:
    promote(root, "gem", release(1))
    promote(root, "gem", release(2))
    path = root / "gem" / "history" / "000002.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ReleaseError, match="damaged"):
        live(root, "gem")


def test_lost_pointer_or_record_is_not_taken_for_a_new_model(root: Path) -> None:
    promote(root, "gem", release(1))
    promote(root, "gem", release(2))
    (root / "gem" / "live.json").unlink()
    with pytest.raises(ReleaseError, match=r"live\.json is lost"):
        live(root, "gem")
    promote(root, "other", release(1))
    (root / "other" / "history" / "000001.json").unlink()
    with pytest.raises(ReleaseError, match="is lost"):
        live(root, "other")


def test_the_module_needs_no_engine() -> None:
    tree = ast.parse(Path(releases.__file__).read_text())
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name or "").split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported & {"torch", "torchrec", "pyspark", "dagster", "pickle", "training", "models"} == set()
    assert "features" in imported
