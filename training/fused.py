"""Row-wise Adagrad inside the backward pass, for embedding tables that may be sharded.

Adagrad keeps one number a row, so its memory is a small fraction of the table, and a rarely seen row keeps
its large step. It is applied inside the backward pass (`apply_optimizer_in_backward`), hence must be set up
before sharding.
"""

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad

from training.recipes import Recipe


def fuse_tables(collection: nn.Module, recipe: Recipe) -> None:
    """Give every embedding table its row-wise Adagrad; call before sharding."""
    apply_optimizer_in_backward(
        RowWiseAdagrad, collection.parameters(), {"lr": recipe.table_lr, "eps": recipe.adagrad_eps}
    )


def table_state(model: nn.Module) -> dict[str, Any]:
    """Squared-gradient sums of every table's rows by canonical name, `table_optim.<parameter>`.

    Returns:
        Tensors [rows] for a plain model, sharded tensors for a sharded one; loading into them restores.
    """
    fused = getattr(model, "fused_optimizer", None)
    if fused is not None:
        return dict(_sharded_sums(fused.state_dict()["state"]))
    return dict(_plain_sums(model))


def _sharded_sums(state: dict[str, dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    for parameter, entries in state.items():
        for key, value in entries.items():
            if key.endswith("momentum1"):
                yield f"table_optim.{parameter}", value


def _plain_sums(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for name, parameter in model.named_parameters():
        for optimizer in getattr(parameter, "_in_backward_optimizers", ()):
            yield f"table_optim.{name}", optimizer.state[parameter]["sum"].view(-1)
