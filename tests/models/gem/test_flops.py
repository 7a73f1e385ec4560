"""The closed form of Kunlun's FLOPs equals what a counter counts, to the last one; CompSkip saves what it says."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from models.gem.backbone import Events, Sizes
from models.gem.config import GemConfig
from models.gem.flops import Load, attention, kunlun, saved, trunk
from models.gem.kunlun import Kunlun
from models.gem.schedule import schedule
from models.gem.trunk import Trunk
from models.layers.blocks import BlockLayout
from training.flops import CPU_ATTENTION

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no compskip": {"compskip": False},
    "odd without compskip": {"compskip": False, "layers": 3},
    "window": {"attention": "window"},
    "shift": {"attention_shift": True},
    "attention pooling": {"pooling": "attention"},
    "attentive": {"wukong_attentive": True},
    "gate": {"expert_gate": True},
    "cross layer": {"cross_layer": True},
    "all": {"cross_layer": True, "expert_gate": True, "wukong_attentive": True, "compskip": False},
}


def drawn(variant: str, seed: int) -> tuple[GemConfig, Sizes, Tensor, int]:
    """Random sizes, history lengths [towers, R] with empty and partial ones, and candidates."""
    rng = np.random.default_rng([seed, len(variant)])

    def draw(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    many = draw(1, 3)
    config = GemConfig(
        dim=8 * draw(1, 3),
        **{"layers": 2 * draw(1, 3)} | VARIANTS[variant],
        attention_block=8,
        attention_window=draw(1, 8),
        context_tokens=draw(1, 4),
        context_hidden=draw(3, 20),
        seeds=draw(3, 6),
        summary_tokens=draw(1, 3),
        sum_kron_rank=draw(1, 3),
        experts=many,
        wukong_rank=draw(1, 6),
        wukong_fm_tokens=many * draw(1, 3),
        wukong_linear_tokens=many * draw(1, 3),
        wukong_hidden=(draw(3, 20),) * draw(0, 2),
    )
    sizes = Sizes(own=draw(many, 9), shared=draw(1, 6), towers=draw(1, 3))
    lengths = torch.from_numpy(rng.integers(0, 30, (sizes.towers, draw(1, 5))))
    lengths[0, 0] = 0
    return config, sizes, lengths, draw(1, 12)


def counted(config: GemConfig, sizes: Sizes, lengths_TR: Tensor, candidates: int) -> tuple[int, Load]:
    """FLOPs by counter of a forward pass, and its load."""
    requests = lengths_TR.shape[1]
    towers = []
    for lengths in lengths_TR:
        layout = BlockLayout.of(lengths, config.attention_block)
        towers.append(Events(torch.randn(*layout.mask.shape, config.dim), layout))
    own, shared = torch.randn(candidates, sizes.own, config.dim), torch.randn(requests, sizes.shared, config.dim)
    backbone = Kunlun(config, sizes)
    with FlopCounterMode(display=False, custom_mapping=CPU_ATTENTION) as counter, torch.no_grad():
        backbone(own, shared, towers, torch.arange(candidates) % requests)
    slots = sum(events.layout.mask.numel() for events in towers)
    return counter.get_total_flops(), Load(requests, candidates, slots)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("variant", VARIANTS)
def test_closed_form_equals_the_counter(variant: str, seed: int) -> None:
    config, sizes, lengths, candidates = drawn(variant, seed)
    found, load = counted(config, sizes, lengths, candidates)
    assert kunlun(config, sizes, load).total == found > 0


@pytest.mark.parametrize("seed", range(4))
def test_what_compskip_saves_is_counted_too(seed: int) -> None:
    config, sizes, lengths, candidates = drawn("plain", seed)
    part, load = counted(config, sizes, lengths, candidates)
    whole, _ = counted(replace(config, compskip=False), sizes, lengths, candidates)
    assert saved(config, sizes, load) == pytest.approx(1 - part / whole, abs=1e-12)


def test_compskip_takes_from_the_sequence_part_alone() -> None:
    config, sizes, load = GemConfig(layers=4), Sizes(own=10, shared=6), Load(requests=3, candidates=40, slots=640)
    part, whole = (kunlun(replace(config, compskip=skip), sizes, load) for skip in (True, False))
    assert (part.request, part.interaction) == (whole.request, whole.interaction)
    assert 2 * part.attention == whole.attention and 2 * part.feedforward == whole.feedforward
    assert 4 * part.summary == 3 * whole.summary, "of four summaries, only the third is skipped"
    assert sum(run.summary for run in schedule(4, compskip=True)) == 3
    assert part.sequence == part.total - part.request - part.interaction


@pytest.mark.parametrize("hidden", [(7,), (9, 5), (9, 6, 5)])
@pytest.mark.parametrize(("shared", "own"), [(0, 1), (1, 0), (2, 1), (1, 3)])
def test_the_trunk_costs_what_a_counter_counts(hidden: tuple[int, ...], shared: int, own: int) -> None:
    config = GemConfig(head_hidden=hidden, domain_experts=shared, surface_experts=own)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        Trunk(11, config, 4)(torch.randn(13, 11), torch.randint(0, 4, (13,)))
    assert trunk(config, 11, 13) == counter.get_total_flops() > 0


def test_full_attention_has_no_closed_form() -> None:
    with pytest.raises(ValueError, match="longest"):
        attention(GemConfig(attention="full"), Load(1, 1, 64))
