"""Domain experts: equal to a loop over rows, and what a surface owns depends on its own rows alone."""

import pytest
import torch

from models.layers.domain_experts import DomainExperts

SURFACES = 4


def made(shared: int = 2, own: int = 1, temperature: float = 4.0, surfaces: int = SURFACES) -> DomainExperts:
    """A layer 6 -> 5 with gates that say something, in which all surfaces have been seen."""
    torch.manual_seed(shared + 10 * own)
    layer = DomainExperts(6, 5, surfaces, shared=shared, own=own, temperature=temperature)
    torch.nn.init.normal_(layer.gate)
    layer.see(torch.ones(surfaces, dtype=torch.bool))
    return layer


def by_row(layer: DomainExperts, x: torch.Tensor, surface: torch.Tensor) -> torch.Tensor:
    """The definition, a row at a time."""
    out = []
    for row, place in zip(x, surface.tolist(), strict=True):
        experts = list(layer.shared(row).view(layer.shared_experts, 5))
        for own in range(layer.own_experts):
            experts.append(row @ layer.own_weight[place, own] + layer.own_bias[place, 5 * own : 5 * own + 5])
        gate = torch.softmax(layer.gate[place] @ row / layer.temperature, 0)
        out.append(sum(weight * expert.relu() for weight, expert in zip(gate, experts, strict=True)))
    return torch.stack(out)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("shared", "own", "temperature"), [(2, 1, 4.0), (1, 2, 1.0), (3, 0, 4.0), (1, 1, 0.5)])
def test_equals_a_loop_over_rows(shared: int, own: int, temperature: float, training: bool) -> None:
    layer = made(shared, own, temperature).train(training)
    x, surface = torch.randn(23, 6, requires_grad=True), torch.randint(0, SURFACES, (23,))
    expected, got = by_row(layer, x, surface), layer(x, surface)
    torch.testing.assert_close(got, expected)
    wanted = torch.randn_like(got)
    slow, fast = (torch.autograd.grad(out, [x, *layer.parameters()], wanted) for out in (expected, got))
    for a, b in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, b)


def test_gates_add_up_to_one_and_start_even() -> None:
    x, surface = torch.randn(9, 6) * 50, torch.randint(0, SURFACES, (9,))
    weights = made().mixture(x, surface)[1]
    torch.testing.assert_close(weights.sum(1), torch.ones(9))
    assert weights.shape == (9, 3) and weights.std() > 0.1
    start = DomainExperts(6, 5, SURFACES, shared=2, own=1)
    torch.testing.assert_close(start.mixture(x, surface)[1], torch.full((9, 3), 1 / 3))


def test_a_higher_temperature_keeps_gates_softer() -> None:
    x, surface = torch.randn(50, 6), torch.randint(0, SURFACES, (50,))
    hot, cold = (made(temperature=t).mixture(x, surface)[1].amax(1).mean() for t in (4.0, 1.0))
    assert hot < cold - 0.1


def test_without_own_experts_only_gates_tell_surfaces_apart() -> None:
    layer = made(own=0)
    x = torch.randn(7, 6)
    torch.nn.init.zeros_(layer.gate)
    expected = layer.shared(x).view(7, 2, 5).relu().mean(1)
    for surface in range(SURFACES):
        torch.testing.assert_close(layer(x, torch.full((7,), surface)), expected)
    assert {name for name, _ in layer.named_parameters()} == {"gate", "shared.weight", "shared.bias"}


def test_one_shared_expert_alone_is_a_linear_layer_with_relu() -> None:
    layer, x = made(1, 0), torch.randn(7, 6)
    assert torch.equal(layer(x, torch.randint(0, SURFACES, (7,))), layer.shared(x).relu())


def test_an_absent_surface_gets_a_gradient_of_exactly_zero() -> None:
    layer = made(own=2)
    layer(torch.randn(12, 6), torch.tensor([0, 2] * 6)).square().sum().backward()
    for name in DomainExperts.BY_SURFACE:
        gradient = layer.get_parameter(name).grad
        assert gradient is not None and len(gradient) == SURFACES
        assert [bool(row.any()) for row in gradient] == [True, False, True, False], name


def test_a_surface_answers_from_the_shared_experts_until_it_was_seen() -> None:
    layer = DomainExperts(6, 5, SURFACES)
    torch.nn.init.normal_(layer.gate)
    layer.see(torch.tensor([True, False, False, False]))
    x, surface = torch.randn(8, 6), torch.tensor([0, 1] * 4)
    weights = layer.eval().mixture(x, surface)[1]
    assert (weights[0::2, 2] > 0).all() and not weights[1::2, 2].any()
    torch.testing.assert_close(weights.sum(1), torch.ones(8))
    before = layer(x, surface)
    torch.nn.init.normal_(layer.own_weight)
    assert torch.equal(layer(x, surface)[1::2], before[1::2]) and not torch.equal(layer(x, surface), before)
    trained = layer.train().mixture(x, surface)[1]
    assert (trained[:, 2] > 0).all(), "own experts must learn from their first row"
    fresh = DomainExperts(6, 5, SURFACES)
    fresh.load_state_dict(layer.state_dict())
    assert fresh.seen.tolist() == [True, False, False, False]


@pytest.mark.parametrize("surfaces", [1, 500])
def test_any_number_of_surfaces_and_rows(surfaces: int) -> None:
    layer = made(surfaces=surfaces)
    assert layer(torch.zeros(0, 6), torch.zeros(0, dtype=torch.long)).shape == (0, 5)
    x, surface = torch.randn(40, 6), torch.randint(0, surfaces, (40,))
    torch.testing.assert_close(layer(x, surface), by_row(layer, x, surface))


@pytest.mark.parametrize("options", [{"shared": 0}, {"own": -1}, {"temperature": 0.0}])
def test_impossible_sizes_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="at least one shared expert"):
        DomainExperts(6, 5, SURFACES, **options)  # type: ignore[arg-type]
