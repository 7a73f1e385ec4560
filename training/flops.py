"""FLOPs by counter.

A multiplication with an addition counts as two. Matrix products, convolutions and attention are counted;
element-wise work is not. PyTorch's counter does not know the CPU's fused attention, so its formula is added here.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

aten = torch.ops.aten


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    flops: int = sdpa_flop_count(query, key, value)
    return flops


def _attention_backward(grad: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    flops: int = sdpa_backward_flop_count(grad, query, key, value)
    return flops


CPU_ATTENTION: dict[Any, Any] = {
    aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}


def count(module: Callable[..., Any], *inputs: Any, backward: bool = False) -> int:
    """FLOPs of one call.

    Args:
        module: a module or function.
        inputs: its positional arguments.
        backward: also count the gradient of the sum of its output (a tensor, or the first of a tuple).

    Returns:
        FLOPs of the forward pass, with `backward` of both passes.
    """
    counter = FlopCounterMode(display=False, custom_mapping=CPU_ATTENTION)
    leaves = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    if isinstance(module, nn.Module):
        leaves += [p for p in module.parameters() if p.requires_grad]
    with counter, torch.set_grad_enabled(backward):
        # The counter's hooks cannot stand on leaves.
        out = module(*(x.clone() if isinstance(x, Tensor) else x for x in inputs))
        if backward:
            first: Tensor = out if isinstance(out, Tensor) else out[0]
            torch.autograd.grad(first.sum(), leaves, allow_unused=True)
    return int(counter.get_total_flops())
