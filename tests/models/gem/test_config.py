"""GemConfig: JSON round trip and refusals."""

import pytest

from models.gem.config import GemConfig


def test_round_trip() -> None:
    config = GemConfig(dim=16, matching_taus=(2.0,), wukong_hidden=())
    assert GemConfig.from_json(config.to_json()) == config
    assert GemConfig.from_dict({}) == GemConfig()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 0}, "dim is 0"),
        ({"dim": 30, "attention_heads": 4}, "divisible"),
        ({"matching_taus": []}, "matching_taus"),
        ({"matching_taus": [0.0]}, "matching_taus"),
        ({"dropout": 1.0}, "dropout"),
        ({"expert_temperature": 0.0}, "expert_temperature"),
        ({"surface_experts": -1}, "surface_experts is -1"),
        ({"dimm": 3}, "no \\['dimm'\\]"),
    ],
)
def test_sizes_that_cannot_be_built_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GemConfig.from_dict(change)
