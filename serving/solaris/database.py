"""The SQLite file under the cache: one connection a thread, one transaction a question, and what to say of a fault.

The file may be deleted or replaced while it is used, as it can be made again: every transaction first looks whether
its connection still belongs to what stands at the path, and opens it anew when it does not.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from features.errors import GemlineError

APPLICATION_ID = 0x47454D56
"""Marks the file as a vector cache ("GEMV"), so that no other database is taken for one."""
VERSION = 1
IDENTITY = ("application_id", "user_version")
WAIT_S = 30.0
"""How long a writer waits for another one."""
BESIDE = ("-wal", "-shm")
"""Endings of the files that SQLite keeps beside a database."""

Inode = tuple[int, int] | None


class CacheError(GemlineError):
    """The file is no vector cache, or a vector does not fit in it."""


@dataclass(frozen=True)
class _Open:
    """A connection, and the file that it was opened on."""

    connection: sqlite3.Connection
    inode: Inode


class Database:
    """A file with the given tables, made when it is not there."""

    def __init__(self, path: Path, tables: Mapping[str, str]) -> None:
        """Open the file.

        Args:
            path: the file; its folder is made when it is not there.
            tables: name -> columns.

        Raises:
            CacheError: the file is something else, of another version, or may not be written.
        """
        self.path = path
        self._tables = tables
        self._local = threading.local()
        with self._translated():
            self.connection()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One snapshot for all statements of the block."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """All statements of the block or none of them.

        Raises:
            CacheError: the file was deleted or replaced meanwhile, so nothing of it is kept.
        """
        with self._transaction("BEGIN IMMEDIATE") as connection:
            written = self._inode()
            yield connection
        if written != self._inode():
            raise CacheError(f"{self.path} was deleted while it was written; publish again")

    def connection(self) -> sqlite3.Connection:
        """This thread's own connection; a forked process neither uses nor closes its parent's."""
        by_process: dict[int, _Open] = self._local.__dict__.setdefault("by_process", {})
        held = by_process.get(os.getpid())
        if held is None or held.inode != self._inode():
            if held is not None:
                # its file was moved away: SQLite sees that and leaves alone what stands there now
                del by_process[os.getpid()]
                held.connection.close()
            by_process[os.getpid()] = held = self._opened()
        return held.connection

    def _opened(self) -> _Open:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # neither making the tables nor the switch to WAL waits for another process that starts at the same time
        with FileLock(self.path.with_name(self.path.name + ".lock"), timeout=WAIT_S):
            if self._inode() is None:
                # left by a deleted file, and no part of the one that is made now
                for ending in BESIDE:
                    self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
            connection = sqlite3.connect(self.path, timeout=WAIT_S, isolation_level=None)
            try:
                # a power cut may lose the newest run, never damage the file: it is a cache
                connection.execute("PRAGMA synchronous = NORMAL")
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            return _Open(connection, self._inode())

    def _prepare(self, connection: sqlite3.Connection) -> None:
        with _block(connection, "BEGIN"):
            application, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in IDENTITY)
            used = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if application == APPLICATION_ID and version != VERSION:
            raise CacheError(
                f"{self.path} is a vector cache of version {version}, this code reads version {VERSION}; "
                "delete the file and publish again"
            )
        if application != APPLICATION_ID and used:
            raise CacheError(f"{self.path} is another program's database, no vector cache; move it away")
        if application != APPLICATION_ID:
            with _block(connection, "BEGIN IMMEDIATE"):
                for table, columns in self._tables.items():
                    connection.execute(f"CREATE TABLE {table} ({columns}) WITHOUT ROWID")
                for name, value in zip(IDENTITY, (APPLICATION_ID, VERSION), strict=True):
                    connection.execute(f"PRAGMA {name} = {value}")
        connection.execute("PRAGMA journal_mode = WAL")

    def _inode(self) -> Inode:
        """Which file stands at the path; None when there is none."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._translated():
            connection = self.connection()
        # what the block itself raises of the file system is none of this file's faults
        with self._translated(OSError), _block(connection, begin):
            yield connection

    @contextmanager
    def _translated(self, *apart: type[Exception]) -> Iterator[None]:
        try:
            yield
        except apart:
            raise
        except Timeout as error:
            raise CacheError(f"{self.path}: another process keeps it locked while opening it; try again") from error
        except OSError as error:
            raise CacheError(
                f"{self.path} cannot be opened ({error.strerror or error}); its folder must be writable for whoever "
                "serves, too"
            ) from error
        except sqlite3.IntegrityError as error:
            raise CacheError(f"{self.path}: the same vector was given twice ({error}); give each key once") from error
        except sqlite3.OperationalError as error:
            raise CacheError(f"{self.path}: {error}; check the folder, its space and other writers") from error
        except sqlite3.DatabaseError as error:
            raise CacheError(f"{self.path} is no vector cache ({error}); delete the file and publish again") from error


@contextmanager
def _block(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.commit()
    finally:
        # after a commit there is nothing left to take back
        connection.rollback()
