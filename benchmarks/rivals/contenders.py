"""Who takes part: each contender's settings on trial, which of them was chosen, and its predictions, kept on disk.

Every contender had the same number of trials on weeks 40-43 after training on weeks 5-39. The choices are in
`tuned.json`, which `python -m benchmarks.rivals.tuning` writes; predictions depend on code, settings, seed and
rows, and are made once for each of these.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.rivals.boosting import Boosting
from benchmarks.rivals.dataset import Dataset, Peer
from benchmarks.rivals.environment import REQUIREMENTS
from benchmarks.rivals.gem import Gem
from benchmarks.rivals.nets import HISTORY, Net
from benchmarks.rivals.popularity import Popular
from features.home import gemline_home
from training.digest import sources_hash
from training.metrics import Floats
from training.recipes import ABLATIONS

Settings = Mapping[str, Any]
HERE = Path(__file__).parent
TUNED = HERE / "tuned.json"

STAGES = (150, 300, 450, 600, 900)
"""Numbers of trees that one trial of boosting looks at."""
_REGULAR: Settings = {
    "learning_rate": 0.03,
    "min_data_in_leaf": 200,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "lambda_l2": 10.0,
}
_TREES: tuple[Settings, ...] = (
    {"learning_rate": 0.05, "num_leaves": 31, "min_data_in_leaf": 50},
    {"learning_rate": 0.05, "num_leaves": 63, "min_data_in_leaf": 100, "feature_fraction": 0.7},
    {**_REGULAR, "num_leaves": 31},
    {**_REGULAR, "num_leaves": 63, "cat_smooth": 50, "min_data_per_group": 300},
)
_DIN: Settings = {"batch_size": 512, "embedding_dim": 10, "learning_rate": 1e-3, "dnn_hidden_units": [256, 128]}
_DCN: Settings = {
    "batch_size": 512,
    "embedding_dim": 10,
    "learning_rate": 1e-3,
    "parallel_dnn_hidden_units": [256, 128],
}

_GEM: Settings = {"model.history_length": 800}

TRIALS: dict[str, tuple[Settings, ...]] = {
    "popularity": ({}, {"weeks": 26}, {"weeks": 12}, {"weeks": 4}),
    "boosting_running": _TREES,
    "boosting_strong": _TREES,
    "din": (
        _DIN,
        {**_DIN, "learning_rate": 2e-3},
        {**_DIN, "embedding_dim": 16, "net_dropout": 0.1},
        {**_DIN, "batch_size": 256, "din_use_softmax": True},
    ),
    "dcnv2": (
        _DCN,
        {**_DCN, "learning_rate": 2e-3},
        {**_DCN, "embedding_dim": 16, "net_dropout": 0.1},
        {**_DCN, "batch_size": 256, "num_cross_layers": 2},
    ),
    "gem_small": (
        _GEM,
        {**_GEM, "model.dim": 16},
        {**_GEM, "table_lr": 0.1},
        {**_GEM, "batch_size": 256},
    ),
}
"""Settings on trial of each contender, the same number for all; what `tuned.json` lacks was not chosen yet."""


def peer_of(name: str, settings: Settings) -> Peer:
    """A contender with settings; a name outside of `TRIALS` is a recipe, its settings are overrides."""
    makers: dict[str, Callable[[], Peer]] = {
        "popularity": lambda: Popular(**settings),
        "boosting_running": lambda: _boosting("running", settings),
        "boosting_strong": lambda: _boosting("strong", settings),
        "din": lambda: _net("din", settings),
        "dcnv2": lambda: _net("dcnv2", settings),
    }
    return makers.get(name, lambda: Gem(name, settings))()


def _net(model: str, settings: Settings) -> Net:
    own = dict(settings)
    history = int(own.pop("history", HISTORY))
    return Net(model, own, history)


def _boosting(kind: str, settings: Settings) -> Boosting:
    own = dict(settings)
    rounds = own.pop("rounds", None)
    return Boosting(kind, own, STAGES if rounds is None else (int(rounds),))


def tuned(name: str) -> Settings:
    """The chosen settings of a contender; the first on trial where nothing was tuned yet.

    An ablation or sibling `gem_small_*` takes over the choice of `gem_small`.
    """
    name = "gem_small" if name in ABLATIONS else name
    known = json.loads(TUNED.read_text(encoding="utf-8")) if TUNED.exists() else {}
    if name in known:
        found: Settings = known[name]["chosen"]
        return found
    first = TRIALS.get(name, ({},))[0]
    return {**first, "rounds": STAGES[2]} if name.startswith("boosting") else first


def predictions(name: str, settings: Settings, dataset: Dataset, seed: int) -> Floats:
    """Probabilities in the full log of the judged rows, from disk where the same were made before.

    Returns:
        [N]; of boosting without `rounds`, [stages, N].
    """
    path = _folder() / f"{name}-{seed}-{_key(name, settings, dataset)}.npy"
    if not path.exists():
        peer = peer_of(name, settings)
        staged = isinstance(peer, Boosting) and len(peer.stages) > 1
        found = peer.staged(dataset, seed) if staged and isinstance(peer, Boosting) else peer(dataset, seed)
        part = path.with_suffix(".part.npy")
        np.save(part, found)
        part.rename(path)
    kept: Floats = np.load(path)
    return kept


def _folder() -> Path:
    folder = gemline_home() / "benches" / "peers"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _key(name: str, settings: Settings, dataset: Dataset) -> str:
    code = _code(name)
    text = json.dumps([name, settings, code, dataset.hash(), dataset.households], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


FILES: dict[str, tuple[str, ...]] = {
    "popularity": ("popularity.py", "../../training/baselines.py"),
    "boosting_running": ("boosting.py", "columns.py", "counting.py", "scripts/boost.py"),
    "boosting_strong": ("boosting.py", "columns.py", "counting.py", "scripts/boost.py"),
    "din": ("nets.py", "scripts/ctr.py"),
    "dcnv2": ("nets.py", "scripts/ctr.py"),
}
"""What a contender's predictions depend on beside its settings and rows; a recipe's on everything that trains."""


def _code(name: str) -> str:
    if name not in FILES:
        return f"{sources_hash()} {hashlib.sha256((HERE / 'gem.py').read_bytes()).hexdigest()}"
    parts = [(HERE / file).read_bytes() for file in FILES[name]]
    return hashlib.sha256(b"\0".join([*parts, REQUIREMENTS.read_bytes()])).hexdigest()
