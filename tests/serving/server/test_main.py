"""The service as a process: what it imports, how it starts and stops, and the command that asks without it."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from features.home import Home
from orchestration.cli import main
from serving.server import scorer as module
from serving.server.scorer import Scorer
from tests.serving.server.served import FEED, load, release

ENGINES = ("pyspark", "torchrec", "dagster", "training", "models.gem")
"""The foundation model is among them: what it knew was computed before."""
SCORING = f"""
import sys
from pathlib import Path
import serving.server.__main__
import serving.package
from features.home import Home
from serving.server.requests import validated
from tests.serving.server.served import scorer
served = scorer(Home(Path(sys.argv[1])))
print(served.score(validated({{"vertical": "{FEED}", "user_id": 1, "ads": [{{"ad_id": 10}}]}})).scores[0].known)
print([name for name in {ENGINES} if name in sys.modules])
"""


def test_scoring_loads_neither_table_engines_nor_trainer(home: Home) -> None:
    release(home, "2024-03-09", "pkg-a", "gen-a")
    ended = subprocess.run([sys.executable, "-c", SCORING, str(home.root)], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == ["hit", "[]"]


def test_the_service_says_its_address_and_stops_when_told(home: Home) -> None:
    environment = {**os.environ, "GEMLINE_HOME": str(home.root.parent)}
    command = [sys.executable, "-m", "serving.server", "--world", "tiny", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            line = process.stdout.readline()
            assert line.startswith("scoring service: http://127.0.0.1:"), process.stderr.read()
            found = httpx.get(line.split()[2] + "/health")
            assert (found.status_code, found.json()["world"]) == (503, "tiny")
        finally:
            process.send_signal(signal.SIGTERM)
        rest, faults = process.communicate(timeout=60)
    assert (rest, faults) == ("", "")
    assert process.returncode in (0, -signal.SIGTERM)


def test_an_unknown_world_is_one_sentence() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "serving.server", "--world", "atlantis"], capture_output=True, text=True
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: no world 'atlantis'") and "Traceback" not in ended.stderr


def test_a_port_in_use_is_one_sentence() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        command = [sys.executable, "-m", "serving.server", "--world", "tiny", "--port", str(port)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error: cannot listen on 127.0.0.1 port {port} (")
    assert "SERVE_PORT" in ended.stderr and "Traceback" not in ended.stderr


def test_a_home_out_of_reach_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "tiny").write_text("no folder")
    environment = {**os.environ, "GEMLINE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "serving.server", "--world", "tiny", "--port", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: ") and str(tmp_path / "tiny") in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.fixture
def command_home(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    release(home, "2024-03-09", "pkg-a", "gen-a")
    monkeypatch.setenv("GEMLINE_HOME", str(Path(home.root).parent))
    monkeypatch.setattr(module, "Scorer", lambda world, home: Scorer(world, home, load))
    return home


def test_the_command_prints_the_answer(command_home: Home) -> None:
    ask = ["score", "--world", "tiny", "--vertical", FEED, "--user", "1", "--ad", "10", "--ad", "shoe"]
    more = ["--context", "device=phone", "--surface", "feed", "--at", "2024-03-11T12:00:00-04:00"]
    ended = CliRunner().invoke(main, ask + more)
    assert ended.exit_code == 0, ended.output
    answer = json.loads(ended.stdout)
    assert [ad["known"] for ad in answer["scores"]] == ["hit", "fallback_ad"]
    assert (answer["digest"], answer["request_ts"]) == ("pkg-a", "2024-03-11T16:00:00+00:00")


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--context", "device"], "--context device: write NAME=VALUE"),
        (["--context", "devise=1"], "context: unknown names ['devise']; known: device"),
        (["--at", "noon"], "request_ts: must be an ISO 8601 instant"),
        (["--surface", "moon"], "surface: vertical feed_click has none of that name"),
    ],
)
def test_the_command_says_what_does_not_fit(command_home: Home, more: list[str], sentence: str) -> None:
    ended = CliRunner().invoke(
        main, ["score", "--world", "tiny", "--vertical", FEED, "--user", "1", "--ad", "10", *more]
    )
    assert ended.exit_code == 1
    assert sentence in ended.output and "Traceback" not in ended.output
