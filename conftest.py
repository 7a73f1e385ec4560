"""What every test run needs before the first import: quiet engines, few threads, and a home of its own.

Lanes are markers (`-m unit`, `-m assets`, ...); a test that names none is in the lane `unit`.
"""

import os
from pathlib import Path

# before Feast's metrics, which make its counters files that all registries of a process share
import prometheus_client  # noqa: F401
import pytest

LANES = ("unit", "assets", "distributed", "services", "browser", "gpu")

# two processes of tests share two cores
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
# a second task for each scan of a few hundred rows only costs; C2 compiles what never becomes hot, and took 40 % of the
# CPU of test_ingest and test_feature_store
os.environ.setdefault("GEMLINE_SPARK_MASTER", "local[1]")
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
os.environ["GX_ANALYTICS_ENABLED"] = "false"
# a test never touches the user's runs: what it needs it makes
os.environ.pop("DAGSTER_HOME", None)
os.environ["GEMLINE_SPARK_CONF"] = str(Path(__file__).parent / "tests" / "spark.conf")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put every test without a lane into the lane `unit`."""
    for item in items:
        if not any(item.get_closest_marker(lane) for lane in LANES):
            item.add_marker("unit")


@pytest.fixture(scope="session", autouse=True)
def gemline_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The session's `GEMLINE_HOME`; a test that wants another sets it with monkeypatch."""
    home = tmp_path_factory.mktemp("gemline_home")
    os.environ["GEMLINE_HOME"] = str(home)
    return home
