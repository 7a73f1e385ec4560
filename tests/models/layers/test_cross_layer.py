"""The cross-layer path: bitwise the identity at first, its formula by loops once the gate is open."""

import math

import pytest
import torch

from models.layers.cross_layer import CrossLayerPath
from models.layers.norm import normalise


def opened(dim: int, tokens: int, earlier: tuple[int, ...], kept: int = 4) -> CrossLayerPath:
    module = CrossLayerPath(dim, tokens, earlier, kept)
    for parameter in (module.gate_D, module.place_ND, module.layer_CD):
        torch.nn.init.normal_(parameter)
    return module


@pytest.mark.parametrize("earlier", [(5,), (5, 7, 3)])
def test_at_first_it_is_bitwise_the_identity_yet_the_gate_learns(earlier: tuple[int, ...]) -> None:
    module = CrossLayerPath(8, 6, earlier)
    x, outputs = torch.randn(4, 6, 8) * 1e3, [torch.randn(4, count, 8) for count in earlier]
    out = module(x, outputs)
    assert torch.equal(out, x)
    out.square().sum().backward()
    assert module.gate_D.grad is not None and (module.gate_D.grad != 0).all()


@pytest.mark.parametrize(("tokens", "earlier"), [(6, (5,)), (3, (5, 7, 3)), (1, (1, 1))])
def test_equals_its_formula_by_loops_forward_and_backward(tokens: int, earlier: tuple[int, ...]) -> None:
    torch.manual_seed(tokens)
    module = opened(8, tokens, earlier, kept=2)
    x = torch.randn(3, tokens, 8, requires_grad=True)
    outputs = [torch.randn(3, count, 8, requires_grad=True) for count in earlier]

    def example(b: int) -> torch.Tensor:
        few = [
            sum(w * t for w, t in zip(row, o[b], strict=True))
            for m, o in zip(module.compress, outputs, strict=True)
            for row in m
        ]
        pairs = [module.keys_values(normalise(f) + e).split(8) for f, e in zip(few, module.layer_CD, strict=True)]
        rows = []
        for token, place in zip(x[b], module.place_ND, strict=True):
            query, heard = normalise(module.query(normalise(token) + place)), torch.zeros(8)
            for key, value in pairs:
                score = query @ normalise(key) / math.sqrt(8)
                heard = heard + score * torch.sigmoid(score) * value / len(pairs)
            rows.append((1 - module.gate_D) * token + module.gate_D * heard)
        return torch.stack(rows)

    expected, got = torch.stack([example(b) for b in range(3)]), module(x, outputs)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    wanted, learned = torch.randn_like(got), [x, *outputs, *module.parameters()]
    slow, fast = (torch.autograd.grad(out, learned, wanted) for out in (expected, got))
    for a, b in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_an_example_hears_its_own_earlier_layers_alone() -> None:
    module = opened(8, 6, (5, 7))
    x, outputs = torch.randn(3, 6, 8), [torch.randn(3, 5, 8), torch.randn(3, 7, 8)]
    before = module(x, outputs)
    outputs[1][1] += 1.0
    assert ((module(x, outputs) - before).abs().sum((1, 2)) > 0).tolist() == [False, True, False]


def test_the_wrong_number_of_earlier_outputs_is_refused() -> None:
    with pytest.raises(ValueError, match="2 earlier outputs, got 1"):
        CrossLayerPath(8, 6, (5, 7))(torch.zeros(1, 6, 8), [torch.zeros(1, 5, 8)])
