"""Where a process computes and beside how many others: device, process group, and sums over ranks.

What shards tables over the group is in `training.parallel`; this module needs no more than torch.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from training.reader import Share


@dataclass(frozen=True)
class Compute:
    """Where this process computes, and beside how many others.

    Attributes:
        device: of tensors and model.
        rank: of this process.
        world: number of processes.
        grouped: whether a process group is joined; without one the model stays unsharded.
    """

    device: torch.device
    rank: int = 0
    world: int = 1
    grouped: bool = False

    @classmethod
    def alone(cls) -> "Compute":
        """One process on the CPU."""
        return cls(torch.device("cpu"))

    @property
    def share(self) -> Share:
        """This process's part of a global batch."""
        return Share(self.rank, self.world)


def join(timeout: timedelta = timedelta(seconds=120)) -> Compute:
    """Choose device and backend, divide the cores, and join the group that torchrun set up (if it did).

    Args:
        timeout: after which a collective that a lost rank never enters fails, instead of waiting for ever.
    """
    local_world = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // local_world))
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    if "RANK" not in os.environ:
        return Compute(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timeout)
    return Compute(device, dist.get_rank(), dist.get_world_size(), grouped=True)


@contextmanager
def deterministic() -> Iterator[None]:
    """Only operations that give the same numbers every time, also on several threads."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def leave(compute: Compute) -> None:
    """Leave the process group, if one was joined."""
    if compute.grouped:
        dist.destroy_process_group()


def summed(values: Tensor, compute: Compute) -> Tensor:
    """The values added up over all ranks."""
    if compute.grouped:
        dist.all_reduce(values)
    return values


def agreed(value: int, compute: Compute) -> int:
    """Rank 0's number, on every rank."""
    if not compute.grouped:
        return value
    tensor = torch.tensor(value, device=compute.device)
    dist.broadcast(tensor, 0)
    return int(tensor.item())


def barrier(compute: Compute) -> None:
    """Wait until every process is here."""
    if compute.grouped:
        dist.barrier()
