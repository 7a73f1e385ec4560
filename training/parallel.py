"""How many processes work as one: sharded tables, summed gradients.

Tables are sharded by TorchRec's planner; the dense part is replicated, and its gradients are summed in one
collective a step. Losses are normalised globally, so that two ranks compute what one computes: TorchRec
divides the gradients that it exchanges by the number of ranks, hence every rank scales its part of the loss
by that number, and the dense gradients are averaged alike.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torchrec import EmbeddingCollection
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embedding_types import EmbeddingComputeKernel
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner import EmbeddingShardingPlanner, ParameterConstraints, Topology
from torchrec.distributed.planner.storage_reservations import FixedPercentageStorageReservation
from torchrec.distributed.types import ShardingType

from training.compute import Compute

SHARDINGS = (ShardingType.TABLE_WISE.value, ShardingType.ROW_WISE.value)
"""Whole tables on a rank, or rows spread over ranks; gradients of replicated tables would not be summed."""


def shard(model: nn.Module, compute: Compute) -> nn.Module:
    """The model with its embedding collection sharded over the group; weights stay what they were.

    Args:
        model: unsharded, with all weights; its tables' optimizer is fused already.
        compute: without a group the model is returned as it is, on its device.
    """
    if not compute.grouped:
        return model.to(compute.device)
    weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
    planner = EmbeddingShardingPlanner(
        topology=Topology(
            world_size=compute.world,
            local_world_size=int(os.environ.get("LOCAL_WORLD_SIZE", compute.world)),
            compute_device=compute.device.type,
        ),
        storage_reservation=FixedPercentageStorageReservation(percentage=0.15),
        constraints=_constraints(model),
    )
    sharders = [EmbeddingCollectionSharder()]
    plan = planner.collective_plan(model, sharders, dist.group.WORLD)
    sharded = DistributedModelParallel(
        model, device=compute.device, plan=plan, sharders=sharders, init_data_parallel=False
    )
    copy_into(sharded.state_dict(), weights)
    return sharded


def _constraints(model: nn.Module) -> dict[str, ParameterConstraints]:
    kernel = EmbeddingComputeKernel.FUSED.value
    tables = [
        config.name
        for module in model.modules()
        if isinstance(module, EmbeddingCollection)
        for config in module.embedding_configs()
    ]
    return {name: ParameterConstraints(sharding_types=list(SHARDINGS), compute_kernels=[kernel]) for name in tables}


@torch.no_grad()
def copy_into(state: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Copy full tensors into a state dict of plain and sharded tensors, each rank its own parts."""
    for name, value in state.items():
        if not hasattr(value, "local_shards"):
            value.copy_(weights[name])
            continue
        for part in value.local_shards():
            at, size = part.metadata.shard_offsets, part.metadata.shard_sizes
            window = tuple(slice(start, start + length) for start, length in zip(at, size, strict=True))
            part.tensor.copy_(weights[name][window])


def average_gradients(parameters: Iterable[nn.Parameter], compute: Compute) -> None:
    """Average dense gradients over ranks, as one flat tensor; a rank without rows counts as zeros."""
    held = list(parameters)
    for parameter in held:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    if not compute.grouped or not held:
        return
    flat = torch.cat([parameter.grad.reshape(-1) for parameter in held if parameter.grad is not None])
    dist.all_reduce(flat)
    flat /= compute.world
    start = 0
    for parameter in held:
        parameter.grad = flat[start : start + parameter.numel()].view_as(parameter)
        start += parameter.numel()
