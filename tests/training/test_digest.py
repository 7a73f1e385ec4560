"""The digest: the same for the same inputs, another one for any change."""

from pathlib import Path
from typing import Any

import pytest
import torch

from training.digest import Identity, model_digest, sources_hash, tensors_hash

TENSORS = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.tensor(3)}
BASE: dict[str, Any] = {
    "position": "2024-05-03",
    "config": {"seed": 1, "world_size": 2, "recipe": {"dim": 8}},
    "consumed": [("labels", "2024-05-03", "x"), ("examples", "2024-05-03", "y")],
    "parent": None,
}


def test_the_same_inputs_give_the_same_digest_whatever_their_order() -> None:
    again = dict(reversed(list(TENSORS.items())))
    reordered = BASE | {
        "consumed": BASE["consumed"][::-1],
        "config": dict(reversed(list(BASE["config"].items()))),
    }
    assert model_digest(TENSORS, **BASE) == model_digest(again, **reordered)


@pytest.mark.parametrize(
    "change",
    [
        {"position": "2024-05-02"},
        {"config": BASE["config"] | {"world_size": 1}},
        {"consumed": [*BASE["consumed"][:1], ("examples", "2024-05-03", "z")]},
        {"parent": "abc"},
        {"sources": "other"},
    ],
)
def test_any_change_gives_another_digest(change: dict[str, Any]) -> None:
    assert model_digest(TENSORS, **BASE) != model_digest(TENSORS, **(BASE | change))


@pytest.mark.parametrize(
    "other",
    [
        {"a": torch.tensor(3)},
        TENSORS | {"a": torch.tensor(4)},
        TENSORS | {"a": torch.tensor(3, dtype=torch.int32)},
        TENSORS | {"b": TENSORS["b"].reshape(3, 2)},
        TENSORS | {"b": torch.nextafter(TENSORS["b"], torch.tensor(9.0))},
        {"c": TENSORS["b"], "a": TENSORS["a"]},
    ],
)
def test_every_bit_name_type_and_shape_of_a_tensor_counts(other: dict[str, torch.Tensor]) -> None:
    assert tensors_hash(other) != tensors_hash(TENSORS)


def test_memory_layout_does_not_count() -> None:
    turned = TENSORS["b"].t().contiguous().t()
    assert not turned.is_contiguous()
    assert tensors_hash(TENSORS | {"b": turned}) == tensors_hash(TENSORS)


def test_sources_are_those_of_model_trainer_and_transform(tmp_path: Path) -> None:
    for name in ("models/a.py", "training/b.py", "features/transform/c.py", "features/d.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")

    def fresh() -> str:
        return sources_hash.__wrapped__(tmp_path)

    before = fresh()
    (tmp_path / "features/d.py").write_text("x = 2\n")
    assert fresh() == before
    (tmp_path / "features/transform/c.py").write_text("x = 2\n")
    changed = fresh()
    assert changed != before
    (tmp_path / "models/e.py").write_text("")
    assert fresh() != changed


def test_an_identity_survives_json() -> None:
    identity = Identity(tensors="t", sources="s", **(BASE | {"consumed": tuple(BASE["consumed"])}))
    assert Identity.from_dict(identity.to_dict()) == identity
    assert Identity.from_dict(identity.to_dict()).digest() == identity.digest()
