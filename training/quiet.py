"""Warnings of torch and torchrec that no user can act on: silenced by name, and only while a run lasts."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

MESSAGES = (
    # torchrec calls these itself
    ".*ShardedTensor.*",
    ".*_all_gather_base.*",
    # one process without a group is how the tests and a digest read checkpoints
    "torch.distributed is disabled, unavailable or uninitialized.*",
    # torch.optim.Adagrad builds sparse tensors from gradients that torch made
    "Sparse invariant checks are implicitly disabled.*",
)
LOGGERS = (
    # "use TopologyFactory" and dense size estimates: the topology is built from what the machine reports
    "torchrec.distributed.planner.types",
    "torchrec.distributed.planner.storage_reservations",
    # said once for any model, about an API that torchrec calls
    "torch.fx._symbolic_trace",
)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence `MESSAGES` and what `LOGGERS` say below an error."""
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    with warnings.catch_warnings():
        for message in MESSAGES:
            warnings.filterwarnings("ignore", message=message)
        for name in LOGGERS:
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)
