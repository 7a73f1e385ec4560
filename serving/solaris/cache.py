"""The cache of precomputed vectors and of users' memories: one SQLite file, many readers, one writer at a time.

Every row carries its generation in its key and every question names one, so vectors of two generations never meet.
The rule of an answer: of the newest run that is not younger than the request, and only if that run has not expired,
the exact vector, else the user's aggregate, else nothing. `features.solaris.train_vectors` is the same rule on
tables; a test holds the two together.

Each answer is read in one transaction, so it comes from one run even while the next one is being published.
"""

import operator
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from serving.solaris.database import CacheError, Database

__all__ = ["CacheError", "Found", "VectorCache"]

STORED = np.dtype("<f4")

TABLES = {
    "generations": "generation TEXT NOT NULL, width INTEGER NOT NULL, PRIMARY KEY (generation)",
    "runs": "generation TEXT NOT NULL, run_us INTEGER NOT NULL, PRIMARY KEY (generation, run_us)",
    "exact_vectors": (
        "generation TEXT NOT NULL, run_us INTEGER NOT NULL, surface TEXT NOT NULL, user_id INTEGER NOT NULL, "
        "ad_id INTEGER NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (generation, run_us, surface, user_id, ad_id)"
    ),
    # apart from the exact ones: every int64 is a possible ad, so none is left to stand for "no ad"
    "user_vectors": (
        "generation TEXT NOT NULL, run_us INTEGER NOT NULL, surface TEXT NOT NULL, user_id INTEGER NOT NULL, "
        "vector BLOB NOT NULL, PRIMARY KEY (generation, run_us, surface, user_id)"
    ),
    "memories": (
        "generation TEXT NOT NULL, user_id INTEGER NOT NULL, impression_id INTEGER NOT NULL, day INTEGER NOT NULL, "
        "request_us INTEGER NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (generation, user_id, impression_id)"
    ),
}
OF_A_RUN = ("runs", "exact_vectors", "user_vectors")
OF_A_USER = ("exact_vectors", "user_vectors", "memories")

NEWEST_RUN = "SELECT max(run_us) FROM runs WHERE generation = ? AND run_us <= ?"
# all that a run holds of one user is a short scan of neighbouring rows, however many ads are asked for
OF_USER = """
SELECT ad_id, vector FROM exact_vectors
WHERE generation = :generation AND run_us = :run_us AND surface = :surface AND user_id = :user_id
UNION ALL
SELECT NULL, vector FROM user_vectors
WHERE generation = :generation AND run_us = :run_us AND surface = :surface AND user_id = :user_id
"""
MEMORY = """
SELECT day, request_us, impression_id, vector FROM memories WHERE generation = ? AND user_id = ?
ORDER BY day, request_us, impression_id
"""
PRUNE = """
DELETE FROM memories WHERE generation = :generation AND user_id = :user_id AND impression_id IN (
    SELECT impression_id FROM memories WHERE generation = :generation AND user_id = :user_id
    ORDER BY day DESC, request_us DESC, impression_id DESC LIMIT -1 OFFSET :keep
)
"""


@dataclass(frozen=True)
class Found:
    """An answer for one ad.

    Attributes:
        source: `exact`, `user` or `none`, as in `features.transform.transfer.SOURCES`.
        vector: float32 [d]; None when the source is `none`.
    """

    source: str
    vector: np.ndarray | None


NOTHING = Found("none", None)


class VectorCache:
    """An embedded store of vectors by generation; any thread of any process may use one."""

    def __init__(self, path: Path, life_us: int) -> None:
        """Open the cache, making it when it is not there yet.

        Args:
            path: the file; its folder is made when it is not there.
            life_us: a run answers requests before run_us + life_us.

        Raises:
            CacheError: the file is something else, of another version, or may not be written.
        """
        self._life_us = life_us
        self._file = Database(path, TABLES)

    # ------------------------------------------------------------------ vectors

    def publish_run(
        self, generation: str, run_us: int, rows: Iterable[tuple[str, int, int | None, np.ndarray]]
    ) -> bool:
        """Put a whole run in place of what it holds so far; readers see the state before or all of it.

        The run before the newest stays, for requests stamped before the newest one; older runs are deleted. Other
        generations are left alone. Whatever `rows` raises leaves the cache as it was.

        Args:
            generation: of all vectors.
            run_us: instant of the run, UTC microseconds.
            rows: surface, user_id, ad_id (None: the user's aggregate on that surface), vector [d].

        Returns:
            Whether it was published: of the runs older than the newest one only those that are still held are replaced,
            and one without rows is no run.

        Raises:
            CacheError: a vector of another width than the generation's, one that is not finite, a key given twice.
        """
        run_us = operator.index(run_us)
        with self._file.writing() as connection:
            held = {row[0] for row in connection.execute("SELECT run_us FROM runs WHERE generation = ?", (generation,))}
            if held and run_us < max(held) and run_us not in held:
                return False
            for table in OF_A_RUN:
                connection.execute(f"DELETE FROM {table} WHERE generation = ? AND run_us = ?", (generation, run_us))
            packer = _Packer(connection, generation)
            for surface, user_id, ad_id, vector in rows:
                head = (generation, run_us, surface, operator.index(user_id))
                blob = packer.packed(vector)
                if ad_id is None:
                    connection.execute("INSERT INTO user_vectors VALUES (?, ?, ?, ?, ?)", (*head, blob))
                else:
                    values = (*head, operator.index(ad_id), blob)
                    connection.execute("INSERT INTO exact_vectors VALUES (?, ?, ?, ?, ?, ?)", values)
            if not packer.count:
                return False
            connection.execute("INSERT INTO runs VALUES (?, ?)", (generation, run_us))
            self._drop_old_runs(connection, generation)
        return True

    def lookup(
        self, generation: str, surface: str, user_id: int | None, ad_ids: Sequence[int | None], request_us: int
    ) -> list[Found]:
        """What a request gets for each of its ads, all from one run.

        Args:
            generation: the only one that is asked.
            surface: of the request.
            user_id: None gets `none` for every ad.
            ad_ids: None gets the user's aggregate.
            request_us: UTC microseconds.

        Returns:
            One answer an ad, in order.

        Raises:
            CacheError: a stored vector is damaged.
        """
        if user_id is None or not len(ad_ids):
            return [NOTHING] * len(ad_ids)
        request_us = operator.index(request_us)
        with self._file.reading() as connection:
            run_us = connection.execute(NEWEST_RUN, (generation, request_us)).fetchone()[0]
            if run_us is None or request_us >= run_us + self._life_us:
                return [NOTHING] * len(ad_ids)
            width = _width(connection, generation)
            key = {"generation": generation, "run_us": run_us, "surface": surface, "user_id": operator.index(user_id)}
            rows = connection.execute(OF_USER, key).fetchall()
        vectors = self._unpacked([blob for _, blob in rows], width)
        known: dict[int | None, Found] = {
            ad_id: Found("user" if ad_id is None else "exact", vector)
            for (ad_id, _), vector in zip(rows, vectors, strict=True)
        }
        otherwise = known.get(None, NOTHING)
        return [otherwise if ad_id is None else known.get(operator.index(ad_id), otherwise) for ad_id in ad_ids]

    @staticmethod
    def _drop_old_runs(connection: sqlite3.Connection, generation: str) -> None:
        kept = connection.execute(
            "SELECT run_us FROM runs WHERE generation = ? ORDER BY run_us DESC LIMIT 2", (generation,)
        ).fetchall()
        for table in OF_A_RUN:
            connection.execute(f"DELETE FROM {table} WHERE generation = ? AND run_us < ?", (generation, kept[-1][0]))

    # ----------------------------------------------------------------- memories

    def remember(
        self,
        generation: str,
        rows: Iterable[tuple[int, str, int, int, np.ndarray]],
        keep: int,
        days: Collection[str] = (),
    ) -> None:
        """Add representations to users' memories; the same impression again replaces itself.

        Args:
            generation: of all vectors.
            rows: user_id, ds (ISO day), request_us, impression_id, vector [d].
            keep: newest rows kept of each user named in `rows`, by (ds, request_us, impression_id).
            days: ISO days of which `rows` holds all there is: what else is remembered of them is forgotten.

        Raises:
            CacheError: a vector of another width than the generation's, or one that is not finite.
        """
        with self._file.writing() as connection:
            for ds in days:
                given = (generation, date.fromisoformat(ds).toordinal())
                connection.execute("DELETE FROM memories WHERE generation = ? AND day = ?", given)
            packer = _Packer(connection, generation)
            users = set()
            for user_id, ds, request_us, impression_id, vector in rows:
                user = operator.index(user_id)
                users.add(user)
                stamps = (operator.index(impression_id), date.fromisoformat(ds).toordinal(), operator.index(request_us))
                values = (generation, user, *stamps, packer.packed(vector))
                connection.execute("INSERT OR REPLACE INTO memories VALUES (?, ?, ?, ?, ?, ?)", values)
            everyone = [{"generation": generation, "user_id": user, "keep": keep} for user in sorted(users)]
            connection.executemany(PRUNE, everyone)

    def remembered(self, generation: str, days: Collection[str]) -> set[tuple[int, int]]:
        """Pairs (user_id, impression_id) of all that is remembered of some ISO days."""
        query = "SELECT user_id, impression_id FROM memories WHERE generation = ? AND day = ?"
        with self._file.reading() as connection:
            return {
                pair
                for ds in days
                for pair in connection.execute(query, (generation, date.fromisoformat(ds).toordinal()))
            }

    def memory(self, generation: str, user_id: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """A user's memory, oldest first by day, request and impression.

        Returns:
            Day ordinals int64 [E], request_us int64 [E], impression_id int64 [E], vectors float32 [E, d]; E = 0 when
            nothing is remembered, and d = 0 when nothing at all is known of the generation.

        Raises:
            CacheError: a stored vector is damaged.
        """
        with self._file.reading() as connection:
            width = _width(connection, generation)
            rows = [] if user_id is None else connection.execute(MEMORY, (generation, operator.index(user_id)))
            found = list(rows)
        stamps = np.array([row[:3] for row in found], dtype=np.int64).reshape(len(found), 3)
        vectors = self._unpacked([row[3] for row in found], width)
        return stamps[:, 0].copy(), stamps[:, 1].copy(), stamps[:, 2].copy(), vectors

    # -------------------------------------------------------------- generations

    def generations(self) -> dict[str, int | None]:
        """Each generation with its newest run (UTC microseconds), None when it has only memories."""
        query = "SELECT generation, max(run_us) FROM generations LEFT JOIN runs USING (generation) GROUP BY generation"
        with self._file.reading() as connection:
            return dict(connection.execute(query).fetchall())

    def forget(self, generation: str) -> None:
        """Delete everything of a generation; of an unknown one there is nothing to delete."""
        with self._file.writing() as connection:
            for table in TABLES:
                connection.execute(f"DELETE FROM {table} WHERE generation = ?", (generation,))

    def forget_user(self, user_id: int, *, delete: bool) -> dict[str, int]:
        """Count what is kept of a user, of all generations and runs: table -> rows; tables without any are absent.

        Args:
            user_id: the user.
            delete: overwrite it with zeros and delete it, in one transaction.
        """
        given, counts = (operator.index(user_id),), {}
        with self._file.writing() if delete else self._file.reading() as connection:
            connection.execute("PRAGMA secure_delete = ON")
            for table in OF_A_USER:
                own = connection.execute(f"SELECT count(*) FROM {table} WHERE user_id = ?", given)
                counts[table] = own.fetchone()[0]
                if delete:
                    connection.execute(f"DELETE FROM {table} WHERE user_id = ?", given)
        if delete:
            # the log of writes still holds the pages as they were
            self._file.connection().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return {table: count for table, count in counts.items() if count}

    # ---------------------------------------------------------------- internals

    def _unpacked(self, blobs: Sequence[bytes], width: int) -> np.ndarray:
        """float32 [N, d], in memory of its own."""
        if any(len(blob) != width * STORED.itemsize for blob in blobs):
            raise CacheError(f"{self._file.path} holds a damaged vector; delete the file and publish again")
        return np.frombuffer(b"".join(blobs), dtype=STORED).reshape(len(blobs), width).astype(np.float32)


class _Packer:
    """Vectors of one generation as blobs; the first one ever fixes the generation's width."""

    def __init__(self, connection: sqlite3.Connection, generation: str) -> None:
        self._connection = connection
        self._generation = generation
        self._width = _width(connection, generation)
        self.count = 0

    def packed(self, vector: np.ndarray) -> bytes:
        # what float32 cannot hold becomes infinite here and is refused below
        with np.errstate(over="ignore"):
            values = np.asarray(vector).astype(STORED)
        if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
            raise CacheError(
                f"a vector of generation {self._generation} is empty, not flat or not finite; compute it again"
            )
        if not self._width:
            self._width = len(values)
            self._connection.execute("INSERT INTO generations VALUES (?, ?)", (self._generation, self._width))
        if len(values) != self._width:
            raise CacheError(
                f"a vector of {len(values)} numbers for generation {self._generation}, whose vectors have "
                f"{self._width}; a new width needs a new generation"
            )
        self.count += 1
        return values.tobytes()


def _width(connection: sqlite3.Connection, generation: str) -> int:
    """Numbers of a generation's vectors; 0 when it is unknown."""
    row = connection.execute("SELECT width FROM generations WHERE generation = ?", (generation,)).fetchone()
    return row[0] if row else 0
