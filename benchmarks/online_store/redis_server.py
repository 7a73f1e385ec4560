"""A real Redis server for as long as something needs one: on a free loopback port, keeping nothing on disk."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

BINARY = "redis-server"
START_S = 20.0


def available() -> bool:
    """Whether this machine has a Redis server to start."""
    return shutil.which(BINARY) is not None


@contextmanager
def redis_server() -> Iterator[str]:
    """Address of a server that is stopped at the end, `redis://127.0.0.1:port`.

    Raises:
        RuntimeError: it did not answer within 20 s.
    """
    binary = shutil.which(BINARY)
    if binary is None:
        raise RuntimeError(f"{BINARY} is not in PATH")
    with TemporaryDirectory(prefix="redis-") as folder:
        port = _free_port()
        command = [binary, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
        server = subprocess.Popen([*command, "--dir", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait(port, server)
            yield f"redis://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait()


def _wait(port: int, server: "subprocess.Popen[bytes]") -> None:
    import redis

    client = redis.Redis(port=port)
    until = time.monotonic() + START_S
    while server.poll() is None and time.monotonic() < until:
        try:
            client.ping()
        except redis.exceptions.ConnectionError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"{BINARY} on port {port} does not answer")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
