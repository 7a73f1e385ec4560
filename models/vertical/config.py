"""A vertical model's sizes; the JSON round trip is that of GEM's config."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True, kw_only=True)
class VerticalConfig:
    """Sizes of a vertical model.

    Attributes:
        dim: width of an embedding row.
        history_length: last events read; at most what the feature store holds (`history.recent_length`).
        matching_taus: starting decay times of same-id sums, in days.
        dense_hidden: hidden width of the MLP over numbers.
        trunk_hidden: hidden widths of the shared trunk.
        dropout: rate inside MLPs.
        auxiliary_gradient: factor of the teacher's gradient into the trunk (beta of ExFM); 0 teaches nothing.
    """

    dim: int = 8
    history_length: int = 50
    matching_taus: tuple[float, ...] = (2.0, 14.0, 90.0)
    dense_hidden: int = 32
    trunk_hidden: tuple[int, ...] = (64, 32)
    dropout: float = 0.0
    auxiliary_gradient: float = 1.0

    def __post_init__(self) -> None:
        """Refuse sizes that cannot be built.

        Raises:
            ValueError: naming the field.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and value < 1:
                raise ValueError(f"VerticalConfig.{field.name} is {value}; it must be at least 1")
        if not self.matching_taus or min(self.matching_taus) <= 0 or not self.trunk_hidden:
            raise ValueError("VerticalConfig: matching_taus must be positive days, trunk_hidden must name a width")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"VerticalConfig.dropout is {self.dropout}; it must be in [0, 1)")
        if self.auxiliary_gradient < 0:
            raise ValueError(f"VerticalConfig.auxiliary_gradient is {self.auxiliary_gradient}; it must not be negative")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `from_dict` reads them back."""
        return dict(json.loads(json.dumps(asdict(self))))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "VerticalConfig":
        """Rebuild a config.

        Raises:
            ValueError: on an unknown key.
        """
        known = {field.name for field in fields(cls)}
        if set(data) - known:
            raise ValueError(f"VerticalConfig has no {sorted(set(data) - known)}; known: {sorted(known)}")
        values: dict[str, Any] = {}
        for name, value in data.items():
            values[name] = tuple(value) if isinstance(value, list) else value
        return cls(**values)
