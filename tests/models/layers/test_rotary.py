"""Rotation: against complex numbers, lengths kept, scores depend on differences alone."""

import math

import pytest
import torch

from models.layers.rotary import AGE_SPAN, Rotation, TemporalRotary, rotate


def test_equals_complex_multiplication() -> None:
    rotary = TemporalRotary(8, time_scale_days=2.0, base=100.0)
    age, index = torch.rand(3, 5) * 90, torch.randint(0, 1000, (3, 5))
    x = torch.randn(3, 2, 5, 8)
    got = rotate(x, rotary(age, index))
    for n in range(3):
        for head in range(2):
            for place in range(5):
                for pair in range(4):
                    if pair < 2:
                        frequency = 2 * math.pi * AGE_SPAN ** (-pair / 2)
                        angle = frequency * math.log1p(float(age[n, place]) / 2.0)
                    else:
                        angle = 100.0 ** (-(pair - 2) / 2) * int(index[n, place])
                    one = complex(float(x[n, head, place, pair]), float(x[n, head, place, pair + 4]))
                    turned = one * complex(math.cos(angle), math.sin(angle))
                    assert float(got[n, head, place, pair]) == pytest.approx(turned.real, abs=5e-4)
                    assert float(got[n, head, place, pair + 4]) == pytest.approx(turned.imag, abs=5e-4)


def test_scores_depend_on_ratios_of_ages_and_differences_of_places() -> None:
    rotary = TemporalRotary(16, time_scale_days=0.5).double()
    q, k = torch.randn(1, 1, 7, 16).double(), torch.randn(1, 1, 7, 16).double()
    age, index = torch.rand(1, 7).double() * 30, torch.arange(7)[None]

    def scores(stretch: float, shift: int) -> torch.Tensor:
        later = (age + 0.5) * stretch - 0.5  # scale + age grows by one factor
        rotation = rotary(later, index + shift)
        return rotate(q, rotation) @ rotate(k, rotation).transpose(-1, -2)

    torch.testing.assert_close(scores(1.0, 0), scores(3.0, 0))
    torch.testing.assert_close(scores(1.0, 0), scores(2.0, 40))
    one = rotate(q, rotary(age, index)) @ rotate(k, rotary(age, index + 1)).transpose(-1, -2)
    assert (one - scores(1.0, 0)).abs().max() > 0.1


def test_lengths_are_kept_and_the_newest_event_at_age_zero_does_not_turn() -> None:
    rotary, x = TemporalRotary(8), torch.randn(2, 3, 4, 8)
    rotation = rotary(torch.rand(2, 4) * 400, torch.randint(0, 9000, (2, 4)))
    torch.testing.assert_close(rotate(x, rotation).norm(dim=-1), x.norm(dim=-1))
    still = rotary(torch.zeros(2, 4), torch.zeros(2, 4, dtype=torch.long))
    assert torch.equal(rotate(x, still), x) and rotate(x, None) is x
    assert not list(rotary.parameters()) and not rotary.state_dict()


def test_a_negative_age_counts_as_zero_and_odd_heads_are_refused() -> None:
    rotation: Rotation = TemporalRotary(4)(torch.tensor([[-5.0, 0.0]]), torch.zeros(1, 2))
    assert torch.equal(rotation.cos[0, 0], rotation.cos[0, 1])
    with pytest.raises(ValueError, match="multiple of 4"):
        TemporalRotary(6)
