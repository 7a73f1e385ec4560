"""The HTTP face of the scorer: `POST /score`, `GET /health`, `GET /metrics`.

Faults are one sentence, `{"error": ...}`: 422 for a request that does not fit, 404 for what is not served, 409 for
a world that is not ready. What can be asked is in `/openapi.json`; there is no page for it, which would load its
scripts from elsewhere.
"""

import logging
import os
import time
from typing import Any

import anyio
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from features.errors import GemlineError
from serving.server.answers import Answer
from serving.server.health import health_of
from serving.server.live import NotServed
from serving.server.requests import RequestError, ScoreRequest, read_request
from serving.server.scorer import Scorer

LOG = logging.getLogger(__name__)
MAX_BODY = 8 * 2**20
PATHS = "POST /score, GET /health, /metrics and /openapi.json"
BODY = {"content": {"application/json": {"schema": ScoreRequest.model_json_schema()}}, "required": True}
FAULTS: dict[int | str, dict[str, Any]] = {
    404: {"description": "not served"},
    409: {"description": "the world is not ready"},
    413: {"description": "the body is too long"},
    422: {"description": "the request does not fit"},
}


def create_app(scorer: Scorer) -> FastAPI:
    """The application around one scorer."""
    label = " (synthetic)" if scorer.world.synthetic else ""
    app = FastAPI(title=f"gemline: {scorer.world.title}{label}", docs_url=None, redoc_url=None)
    app.state.scorer = scorer
    # scoring computes; more threads than cores would only take the cores from one another
    limiter = anyio.CapacityLimiter(cores())

    @app.post("/score", response_model=Answer, responses=FAULTS, openapi_extra={"requestBody": BODY})
    async def score(request: Request) -> Response:
        """Probabilities of a user's ads."""
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                return JSONResponse({"error": f"the body is longer than {MAX_BODY} bytes; ask in parts"}, 413)
        return await anyio.to_thread.run_sync(_answered, scorer, bytes(body), limiter=limiter)

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> JSONResponse:
        """A path or a method that is not there."""
        sentence = f"{request.method} {request.url.path}: {error.detail.lower()}; there are {PATHS}"
        return JSONResponse({"error": _plain(sentence)}, error.status_code, error.headers)

    @app.get("/health")
    def health() -> JSONResponse:
        """What is live and what is wrong: `down` (503) cannot answer, `degraded` answers with less than it should."""
        found = health_of(scorer)
        found["faults"] = {about: _plain(fault) for about, fault in found["faults"].items()}
        return JSONResponse(found, 503 if found["status"] == "down" else 200)

    @app.get("/metrics")
    def metrics() -> Response:
        """Counters in the format of Prometheus."""
        return Response(scorer.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return app


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _answered(scorer: Scorer, body: bytes) -> Response:
    started = time.perf_counter()
    vertical, status = "unknown", 500
    try:
        request = read_request(body)
        if any(entry.name == request.vertical for entry in scorer.world.verticals):
            vertical = request.vertical
        answer = scorer.score(request)
        status = 200
        return Response(answer.model_dump_json(), media_type="application/json")
    except GemlineError as error:
        status = 422 if isinstance(error, RequestError) else 404 if isinstance(error, NotServed) else 409
        return JSONResponse({"error": _plain(str(error))}, status)
    except Exception:
        LOG.exception("a request of vertical %s could not be scored", vertical)
        return JSONResponse({"error": "scoring failed; the log of the service says why"}, status)
    finally:
        scorer.metrics.requests.labels(vertical, str(status)).inc()
        scorer.metrics.seconds.labels(vertical).observe(time.perf_counter() - started)


def _plain(text: str) -> str:
    """Text that can be encoded: a client may have sent half a surrogate pair."""
    return text.encode(errors="backslashreplace").decode()
