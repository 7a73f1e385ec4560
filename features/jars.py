"""The jars of Delta for Spark: fetched once by `make setup`, then read from the environment's own folder.

Spark's resolver can bring them at every session start, which costs seconds and needs a network each time; a
folder of plain files needs neither. Only the `io.delta` jars are kept: all else they ask for is in Spark.

`python -m features.jars` fetches them.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from features.errors import GemlineError

PACKAGE = "io.delta:delta-spark_4.1_2.13:4.4.0"
KEPT = "io.delta_*.jar"
# what must be there for a session to have Delta
NEEDED = ("delta-spark_4.1_2.13-4.4.0", "delta-storage-4.4.0")

_RESOLVE = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
builder = builder.config("spark.jars.packages", sys.argv[1]).config("spark.jars.ivy", sys.argv[2])
builder.getOrCreate().stop()
"""


def jar_folder() -> Path:
    """Where the jars are: `GEMLINE_JARS`, or `jars` in the Python environment that runs this."""
    return Path(os.environ.get("GEMLINE_JARS") or Path(sys.prefix) / "jars")


def missing_jars(folder: Path) -> list[str]:
    """Names of the needed jars, without `.jar`, that `folder` lacks."""
    return [name for name in NEEDED if not list(folder.glob(f"*{name}.jar"))]


def jar_paths() -> list[str]:
    """Paths of the Delta jars, sorted.

    Raises:
        GemlineError: a needed jar is absent.
    """
    folder = jar_folder()
    missing = missing_jars(folder)
    if missing:
        raise GemlineError(f"Spark cannot read Delta tables: {', '.join(missing)} is not in {folder}; run `make setup`")
    return sorted(str(path) for path in folder.glob(KEPT))


def fetch(target: Path) -> list[Path]:
    """Bring the jars into `target` through Spark's own resolver.

    Args:
        target: folder of the jars, made when it is not there.

    Returns:
        The jars that lie in `target` afterwards.

    Raises:
        GemlineError: the resolver failed; the message ends with its last line.
    """
    with tempfile.TemporaryDirectory() as scratch:
        ended = subprocess.run(
            [sys.executable, "-c", _RESOLVE, PACKAGE, scratch],
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
        )
        found = sorted((Path(scratch) / "jars").glob(KEPT))
        if ended.returncode or not found:
            last = (ended.stderr.strip().splitlines() or ["no output"])[-1]
            raise GemlineError(
                f"the Delta jars {PACKAGE} could not be fetched; check the network, then `make setup`: {last}"
            )
        target.mkdir(parents=True, exist_ok=True)
        for stale in target.glob(KEPT):
            # two versions of Delta in one session fail in strange ways
            stale.unlink()
        return [_place(path, target) for path in found]


def _place(jar: Path, target: Path) -> Path:
    # under another name first: a half-copied jar must never pass for a whole one
    partial = target / f"{jar.name}.part"
    shutil.copyfile(jar, partial)
    return partial.replace(target / jar.name)


def main() -> None:
    """Fetch the jars unless all are there; the last line says where they are."""
    folder = jar_folder()
    try:
        if missing_jars(folder):
            fetch(folder)
    except GemlineError as error:
        sys.exit(str(error))
    print(f"Delta jars: {folder}")


if __name__ == "__main__":
    main()
