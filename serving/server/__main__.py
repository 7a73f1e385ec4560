"""`python -m serving.server --world W`: the scoring service on the live releases of a world."""

import argparse
import socket

import torch
import uvicorn

from features.errors import GemlineError
from features.home import Home
from features.worlds import load_world
from serving.server.app import create_app
from serving.server.scorer import Scorer


class Server(uvicorn.Server):
    """Says its address once it listens; SIGTERM and SIGINT let running requests end."""

    async def startup(self, sockets: list | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        if self.started:
            host = f"[{self.config.host}]" if ":" in self.config.host else self.config.host
            port = self.servers[0].sockets[0].getsockname()[1]
            print(
                f"scoring service: http://{host}:{port} (POST /score, GET /health, /metrics, /openapi.json)", flush=True
            )


def _require_free(host: str, port: int) -> None:
    """Say at once, before anything is loaded, that one cannot listen there."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # as servers do: a port that was just left is free
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except (OSError, OverflowError) as error:
        raise SystemExit(
            f"error: cannot listen on {host} port {port} ({error}); end what holds it, or choose another: --port, or "
            "make serve SERVE_PORT=..."
        ) from None


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m serving.server", description=__doc__)
    parser.add_argument("--world", required=True, help="name of a world")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=8000, help="0: any free one")
    given = parser.parse_args()
    _require_free(given.host, given.port)
    # requests run side by side, a core each
    torch.set_num_threads(1)
    try:
        world = load_world(given.world)
        scorer = Scorer(world, Home.of(world.name))
        scorer.warm_up()
    except GemlineError as error:
        raise SystemExit(f"error: {error}") from None
    except OSError as error:
        home = Home.of(given.world).root
        raise SystemExit(f"error: {error}; whoever serves must be able to read {home} and write its cache") from None
    app = create_app(scorer)
    config = uvicorn.Config(app, given.host, given.port, log_level="warning", timeout_graceful_shutdown=30)
    server = Server(config)
    server.run()
    raise SystemExit(0 if server.started else 3)


if __name__ == "__main__":
    main()
