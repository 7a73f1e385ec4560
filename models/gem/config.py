"""GEM's sizes.

One frozen, keyword-only config with a JSON round trip; the defaults are the small default model.
"""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

DAY_SECONDS = 86_400.0


@dataclass(frozen=True, kw_only=True)
class GemConfig:
    """Sizes of GEM.

    Attributes:
        dim: width d of every token and embedding row.
        history_length: last events read (the reader's slice length).
        history_block: tokens of one self-attention block (`models.layers.blocks`).
        attention_heads: heads of self-attention, GDPA and pooling; divides `dim`.
        context_tokens: keys and values of GDPA made from the request side.
        seeds: learned seeds m of the summariser.
        summary_tokens: tokens t that the summariser hands to the interaction part; below `seeds`.
        sum_kron_rank: terms r of SumKronLinear.
        matching_taus: decay times K of same-id sums, in days; learned from these starts.
        matching_hidden: hidden width of the matching MLP.
        matching_tokens: tokens made from the matching summaries.
        dense_hidden: hidden width of the dense MLP.
        dense_tokens: tokens made from dense features.
        wukong_layers: interaction layers l.
        wukong_rank: columns k of the low-rank factorisation machine.
        wukong_fm_tokens: tokens n_F made by each FM block.
        wukong_linear_tokens: tokens n_L made by each linear compress block.
        wukong_hidden: hidden widths of each FM block's MLP.
        head_hidden: hidden widths of the shared trunk.
        dropout: rate inside MLPs; 0 trains deterministically without a generator.
    """

    dim: int = 32
    history_length: int = 200
    history_block: int = 32
    attention_heads: int = 2
    context_tokens: int = 4
    seeds: int = 8
    summary_tokens: int = 4
    sum_kron_rank: int = 2
    matching_taus: tuple[float, ...] = (1.0, 6.0, 32.0, 180.0)
    matching_hidden: int = 64
    matching_tokens: int = 4
    dense_hidden: int = 64
    dense_tokens: int = 2
    wukong_layers: int = 1
    wukong_rank: int = 8
    wukong_fm_tokens: int = 8
    wukong_linear_tokens: int = 8
    wukong_hidden: tuple[int, ...] = (128,)
    head_hidden: tuple[int, ...] = (128, 64)
    dropout: float = 0.0

    def __post_init__(self) -> None:
        """Refuse sizes that cannot be built.

        Raises:
            ValueError: naming the field and what it must be.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and value < 1:
                raise ValueError(f"GemConfig.{field.name} is {value}; it must be at least 1")
        if self.dim % self.attention_heads:
            raise ValueError(f"GemConfig.dim {self.dim} is not divisible by attention_heads {self.attention_heads}")
        if not self.matching_taus or min(self.matching_taus) <= 0:
            raise ValueError("GemConfig.matching_taus must hold at least one positive number of days")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"GemConfig.dropout is {self.dropout}; it must be in [0, 1)")

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
        known = {field.name for field in fields(cls)}
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
