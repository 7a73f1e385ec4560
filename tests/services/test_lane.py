"""The services lane itself: each server answers, and an absent one that is required fails, not skips."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg2
import pytest
import redis


@pytest.mark.services
def test_redis_answers(redis_url: str) -> None:
    client = redis.Redis.from_url(redis_url)
    client.set("gemline:lane", "here", ex=60)
    assert client.get("gemline:lane") == b"here"


@pytest.mark.services
def test_postgres_answers(postgres_url: str) -> None:
    connection = psycopg2.connect(postgres_url)
    with connection, connection.cursor() as cursor:
        cursor.execute("select 40 + 2")
        assert cursor.fetchone() == (42,)
    connection.close()


@pytest.mark.parametrize(("required", "code", "word"), [("1", 1, "2 errors"), ("0", 0, "2 skipped")])
def test_an_absent_server_fails_only_where_it_is_required(required: str, code: int, word: str, tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GEMLINE_")}
    # nothing to start there either
    env |= {"GEMLINE_REQUIRE_SERVICES": required, "PATH": str(tmp_path)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-m",
        "services",
        "-p",
        "no:cacheprovider",
        str(Path(__file__)),
    ]
    ended = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (ended.returncode, word in ended.stdout) == (code, True), ended.stdout
    assert "Redis is absent: GEMLINE_REDIS_URL is not set" in ended.stdout
