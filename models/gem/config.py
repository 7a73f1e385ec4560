"""GEM's sizes.

One frozen, keyword-only config with a JSON round trip; the defaults are the small default model.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from models.gem.schedule import schedule
from models.layers.gdpa import ACTIVATIONS

DAY_SECONDS = 86_400.0
ARCHITECTURES = ("kunlun", "interformer", "dlrm", "dcnv2")
CHOICES = {
    "architecture": ARCHITECTURES,
    "sequence": ("oneseq", "towers"),
    "attention": ("block", "window", "full"),
    "pooling": ("seeds", "attention"),
    "activation": tuple(ACTIVATIONS),
}
MAY_BE_ZERO = ("pyramid_levels", "cross_rank", "domain_experts", "surface_experts")


@dataclass(frozen=True, kw_only=True)
class GemConfig:
    """Sizes of GEM; the defaults are small.

    Attributes:
        architecture: backbone, a name in `ARCHITECTURES`.
        dim: width d of every token and embedding row.
        layers: L of the backbone.
        compskip: run only half of the sequence side in each layer (`models.gem.schedule`); needs an even L.
        cross_layer: gated path from all earlier layers' outputs (`models.layers.cross_layer`).
        history_length: last events read (the reader's slice length).
        history_quotas: newest events of a type that are kept whatever else fills the length, by type.
        sequence: "oneseq", one merged sequence, or "towers", one sequence a type (the control).
        event_projection: a projection of each event type's own.
        rotary: turn queries and keys by place and time.
        attention: "block", "window" or "full" (the quadratic control).
        attention_block: tokens of one block.
        attention_shift: shift every other layer's blocks by half.
        attention_window: tokens seen to either side; at most a block.
        attention_heads: heads of self-attention, GDPA and pooling; divides `dim`.
        activation: of GDPA, a name in `models.layers.gdpa.ACTIVATIONS`.
        activity_tokens: tokens made from a request's decayed sums over all events.
        context_tokens: keys and values of GDPA, made from the request's shared tokens.
        context_hidden: hidden width where context and shared tokens are made.
        pooling: "seeds" (hierarchical) or "attention" (the control).
        seeds: learned seeds m of the summariser.
        summary_tokens: tokens t that the summariser hands to the interaction part; below `seeds`.
        sum_kron_rank: terms r of SumKronLinear.
        recent_tokens: newest events that InterFormer hands over as they are.
        pyramid_levels: levels of InterFormer's pyramid; 0 leaves it out.
        pyramid_ratio: events merged into one from level to level.
        matching_taus: decay times K of same-id sums, in days; learned from these starts.
        matching_hidden: hidden width of the matching MLP.
        matching_tokens: tokens made from the matching summaries.
        dense_hidden: hidden width of the dense MLP.
        dense_tokens: tokens made from dense features.
        experts: Wukong experts M that share each layer's tokens out.
        expert_gate: weigh the experts by a softmax gate.
        wukong_rank: columns k of the low-rank factorisation machine.
        wukong_attentive: make those columns from the input.
        wukong_fm_tokens: tokens n_F made by each layer's FM blocks.
        wukong_linear_tokens: tokens n_L made by each layer's linear compress blocks.
        wukong_hidden: hidden widths of each FM block's MLP.
        cross_rank: of DCNv2's matrices; 0 keeps them whole.
        head_hidden: hidden widths of the trunk.
        domain_experts: shared experts of the trunk's last layer (`models.layers.domain_experts`); 0 leaves the mixture,
            and with it the surfaces' own experts, out.
        surface_experts: experts of each surface's own beside them; 0 shares all.
        expert_temperature: of the gates over domain experts.
        surface_conditioning: let the surface gate the units that the heads read (`models.layers.heads`).
        dropout: rate inside MLPs; 0 trains deterministically without a generator.
    """

    architecture: str = "kunlun"
    dim: int = 32
    layers: int = 2
    compskip: bool = True
    cross_layer: bool = False
    history_length: int = 200
    history_quotas: Mapping[str, int] = field(default_factory=dict)
    sequence: str = "oneseq"
    event_projection: bool = True
    rotary: bool = True
    attention: str = "block"
    attention_block: int = 64
    attention_shift: bool = False
    attention_window: int = 32
    attention_heads: int = 2
    activation: str = "gelu"
    activity_tokens: int = 2
    context_tokens: int = 4
    context_hidden: int = 64
    pooling: str = "seeds"
    seeds: int = 8
    summary_tokens: int = 4
    sum_kron_rank: int = 2
    recent_tokens: int = 2
    pyramid_levels: int = 0
    pyramid_ratio: int = 4
    matching_taus: tuple[float, ...] = (1.0, 6.0, 32.0, 180.0)
    matching_hidden: int = 64
    matching_tokens: int = 4
    dense_hidden: int = 64
    dense_tokens: int = 2
    experts: int = 2
    expert_gate: bool = False
    wukong_rank: int = 8
    wukong_attentive: bool = False
    wukong_fm_tokens: int = 8
    wukong_linear_tokens: int = 8
    wukong_hidden: tuple[int, ...] = (128,)
    cross_rank: int = 0
    head_hidden: tuple[int, ...] = (128, 64)
    domain_experts: int = 2
    surface_experts: int = 1
    expert_temperature: float = 4.0
    surface_conditioning: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        """Refuse sizes that cannot be built.

        Raises:
            ValueError: naming the field and what it must be.
        """
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, bool) or not isinstance(value, int):
                continue
            least = 0 if entry.name in MAY_BE_ZERO else 1
            if value < least:
                raise ValueError(f"GemConfig.{entry.name} is {value}; it must be at least {least}")
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise ValueError(f"GemConfig.{name} is '{getattr(self, name)}'; it must be one of {list(known)}")
        self._check_divisions()
        if not self.matching_taus or min(self.matching_taus) <= 0:
            raise ValueError("GemConfig.matching_taus must hold at least one positive number of days")
        if not self.expert_temperature > 0:
            raise ValueError(f"GemConfig.expert_temperature is {self.expert_temperature}; it must be above 0")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"GemConfig.dropout is {self.dropout}; it must be in [0, 1)")
        if sum(self.history_quotas.values()) > self.history_length or min(self.history_quotas.values(), default=1) < 1:
            raise ValueError("GemConfig.history_quotas must be positive and fit into history_length together")

    def _check_divisions(self) -> None:
        if self.dim % (4 * self.attention_heads):
            raise ValueError(
                f"GemConfig.dim {self.dim} is not divisible by 4 x attention_heads {self.attention_heads}: "
                "a head turns half of its pairs of numbers by age, half by place"
            )
        if self.architecture == "kunlun" and self.compskip:
            schedule(self.layers, compskip=True)
        if self.attention_window > self.attention_block:
            raise ValueError(
                f"GemConfig.attention_window {self.attention_window} is above attention_block {self.attention_block}"
            )
        for name in ("wukong_fm_tokens", "wukong_linear_tokens"):
            if getattr(self, name) % self.experts:
                raise ValueError(f"GemConfig.{name} {getattr(self, name)} is not divisible by experts {self.experts}")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `from_dict` reads them back."""
        return json.loads(json.dumps(asdict(self)))

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, so equal configs give equal text."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "GemConfig":
        """Rebuild a config.

        Raises:
            ValueError: on an unknown key, so that a typo never passes in silence.
        """
        known = {entry.name for entry in fields(cls)}
        if set(data) - known:
            raise ValueError(f"GemConfig has no {sorted(set(data) - known)}; known: {sorted(known)}")
        values: dict[str, Any] = {}
        for name, value in data.items():
            values[name] = tuple(value) if isinstance(value, list) else value
        return cls(**values)

    @classmethod
    def from_json(cls, text: str) -> "GemConfig":
        """Rebuild a config from `to_json`."""
        return cls.from_dict(json.loads(text))
