"""Where a world keeps what it makes, and the lock that lets one writer at a time change it.

`GEMLINE_HOME/<world>/{tables,registry,online,checkpoints,releases,cache,inbox}`.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from features.errors import Busy


def gemline_home() -> Path:
    """`GEMLINE_HOME`, or `.gemline` below the working directory when it is unset."""
    return Path(os.environ.get("GEMLINE_HOME") or ".gemline").resolve()


@dataclass(frozen=True)
class Home:
    """The folder of one world.

    Attributes:
        root: `GEMLINE_HOME/<world>`.
    """

    root: Path

    @classmethod
    def of(cls, world_name: str) -> "Home":
        """Home of a world below `GEMLINE_HOME`."""
        return cls(gemline_home() / world_name)

    def folder(self, name: str) -> Path:
        """A sub-folder, made when it is not there yet."""
        path = self.root / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    @property
    def tables(self) -> Path:
        """Delta tables, ledgers included."""
        return self.folder("tables")

    @property
    def registry(self) -> Path:
        """Feast registry and repository configuration."""
        return self.folder("registry")

    @property
    def online(self) -> Path:
        """Embedded online store."""
        return self.folder("online")

    @property
    def checkpoints(self) -> Path:
        """Trained models, one folder a model and day."""
        return self.folder("checkpoints")

    @property
    def releases(self) -> Path:
        """Live pointers and release records."""
        return self.folder("releases")

    @contextmanager
    def writing(self, who: str, wait_s: float = 600.0) -> Iterator[None]:
        """Hold the world's writer lock; re-entrant within a process.

        Args:
            who: what the holder is doing, shown to whoever waits.
            wait_s: seconds to wait for another holder.

        Raises:
            Busy: another process still holds the lock after `wait_s`; the message names it.
        """
        lock = FileLock(self.root / "writer.lock", is_singleton=True)
        note = self.root / "writer.json"
        self.root.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=wait_s)
        except Timeout:
            raise Busy(_busy_message(note, self.root, wait_s)) from None
        try:
            note.write_text(json.dumps({"pid": os.getpid(), "who": who, "since": int(time.time())}))
            yield
        finally:
            lock.release()


def _busy_message(note: Path, root: Path, wait_s: float) -> str:
    holder = json.loads(note.read_text()) if note.exists() else {"pid": "unknown", "who": "unknown"}
    return (
        f"world '{root.name}' is being written by process {holder['pid']} ({holder['who']}); waited {wait_s:.0f} s; "
        "let it end or stop it, then run this again"
    )
