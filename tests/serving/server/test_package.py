"""The service on real packages: what the network itself gives, the same alone as among others, none that is altered."""

import json
from typing import Any

import numpy as np
import pytest
import torch

from features.days import micros
from features.home import Home
from features.schema_of import schema_of
from features.store.lookup import OnlineStore
from models import artefact
from models.layers.tables import TABLES_PREFIX
from models.vertical.config import VerticalConfig
from models.vertical.model import VerticalModel
from serving import releases
from serving.package import DENSE, PARITY_ROWS, TABLES, RawInputs, pack_inputs, served_model
from serving.server.columns import rows_of_request
from serving.server.knowledge import knowledge_of
from serving.server.live import NotServed
from serving.server.requests import ScoreRequest, resolved, validated
from serving.server.scorer import Scorer
from serving.solaris.cache import VectorCache
from tests.serving.server.served import FEED, MEMORY, NOW, WIDTH, WORLD

VERTICAL = WORLD.vertical(FEED)
ADS = [10, 12, None, 11, 10]


def request(user: Any, ads: list[Any]) -> ScoreRequest:
    return validated({"vertical": FEED, "user_id": user, "ads": [{"ad_id": ad} for ad in ads]})


def raw_inputs(home: Home, given: ScoreRequest) -> RawInputs:
    asked = resolved(given, WORLD, VERTICAL.surfaces)
    found = OnlineStore(WORLD, home).features(asked.users, [10, 11, 12], NOW)
    rows = rows_of_request(WORLD, asked, NOW, found)
    cache = VectorCache(home.folder("cache") / "vectors.db", 48 * 3_600_000_000)
    known = knowledge_of(cache, "gen-a", WIDTH, asked, micros(NOW))
    return RawInputs(rows.columns, rows.day, rows.histories, known.memory, known.precomputed)


@pytest.fixture
def expected(home: Home) -> np.ndarray:
    """Makes a package of an untrained network live, and gives its probabilities of user 1 and `ADS`."""
    torch.manual_seed(0)
    config = VerticalConfig(dim=4, history_length=10, dense_hidden=8, trunk_hidden=(8,))
    schema = schema_of(WORLD, config.history_length).part(VERTICAL.surfaces, VERTICAL.tasks)
    network = VerticalModel(schema, config, WIDTH, 3)
    for weights in network.parameters():
        torch.nn.init.normal_(weights, std=0.3)
    manifest = {
        "model_digest": "m",
        "world": WORLD.name,
        "vertical": FEED,
        "ds": "2024-03-10",
        "generation": "gen-a",
        "schema": schema.to_dict(),
        "config": config.to_dict(),
        "surfaces": list(schema.surfaces),
        "tasks": list(schema.task_names),
        "history_length": config.history_length,
        "memory_length": MEMORY,
        "width": WIDTH,
    }
    state = network.state_dict()
    dense = {name: value for name, value in state.items() if not name.startswith(TABLES_PREFIX)}
    tables = {name: value for name, value in state.items() if name.startswith(TABLES_PREFIX)}
    raw = raw_inputs(home, request(1, ADS))
    model = served_model(manifest, dense, tables)
    probabilities = model.score(*model.inputs(raw))
    folder = home.folder("packages") / "first"
    parity = pack_inputs(raw, probabilities, schema.surfaces)
    written = artefact.write(folder, manifest, {DENSE: dense, TABLES: tables, PARITY_ROWS: parity})
    releases.promote(home.releases, FEED, releases.Release("2024-03-10", written["digest"], "packages/first"))
    return probabilities


def clicks(scorer: Scorer, user: Any, ads: list[Any]) -> list[float | None]:
    return [ad.scores["click"] for ad in scorer.score(request(user, ads)).scores]


def test_the_service_gives_what_the_network_gives(home: Home, expected: np.ndarray) -> None:
    found = clicks(Scorer(WORLD, home), 1, ADS)
    assert found == pytest.approx(expected[:, 0].tolist(), abs=1e-9)
    assert len({round(number, 6) for number in found if number}) == 4


def test_a_pair_scores_the_same_alone_and_in_any_company(home: Home, expected: np.ndarray) -> None:
    scorer = Scorer(WORLD, home)
    for user in (1, 99, None):
        together = clicks(scorer, user, ADS)
        assert clicks(scorer, user, ADS[::-1]) == pytest.approx(together[::-1], abs=1e-6)
        for place, ad in enumerate(ADS):
            assert clicks(scorer, user, [ad]) == pytest.approx(together[place : place + 1], abs=1e-6)


def test_an_altered_package_is_not_served(home: Home, expected: np.ndarray) -> None:
    path = home.root / "packages" / "first" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "memory_length": 1}))
    with pytest.raises(NotServed, match="altered"):
        clicks(Scorer(WORLD, home), 1, ADS)
