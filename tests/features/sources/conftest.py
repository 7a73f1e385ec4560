"""Small log-file worlds: the world `tiny` over files that a test writes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from features.worlds import World, load_world
from features.worlds.schema import Source, Surface

IMPRESSIONS = "impression_id,request_id,user,ad,placement,slot,shown_at,device,format\n"
ADS = "ad,known_from,brand,topic,objective,tags,image\n"
OUTCOMES = "request_id,user,ad,kind,at,received_at,value\n"
LogWorld = Callable[..., World]


@pytest.fixture
def log_world(tmp_path: Path) -> LogWorld:
    """`build(impressions=..., keep_rate=..., **options)` writes the given files and maps them as `tiny` does.

    `files` gives file contents by name (text or bytes); `mapping` overrides sections of `source.options`.
    """

    def build(files: dict[str, str | bytes], keep_rate: float = 1.0, **mapping: object) -> World:
        world = load_world("tiny")
        defaults = {
            "impressions.csv": IMPRESSIONS,
            "outcomes.csv": OUTCOMES,
            "users.csv": "user,known_from,country,age_band\n",
            "ads.csv": ADS,
            "events.jsonl": "",
        }
        for name, content in (defaults | files).items():
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        options = world.source.options | {"path": str(tmp_path)} | mapping
        surfaces = tuple(Surface(name=name, keep_rate=keep_rate) for name in world.surface_names)
        return world.model_copy(update={"source": Source(adapter="files", options=options), "surfaces": surfaces})

    return build
