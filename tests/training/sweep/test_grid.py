"""The grid: all rows first, each mix once, and a line to paste that means exactly the mix."""

import pytest
import yaml

from training.mixing import Mixing, MixingError
from training.recipes import gem_tiny
from training.sweep.grid import SweepError, grid, label, snippet

TWO = ("feed", "story")


def test_exponents_of_whole_surfaces_are_one_mix() -> None:
    mixes = grid(TWO)
    assert mixes == (Mixing(), *(Mixing(tau=tau, budget=budget) for budget in (0.5, 0.25) for tau in (1.0, 0.5, 0.0)))
    assert len({label(mix) for mix in mixes}) == len(mixes) == 7


def test_one_surface_has_no_exponent() -> None:
    assert grid(("feed",)) == (Mixing(), Mixing(budget=0.5), Mixing(budget=0.25))


def test_shares_of_tasks_are_in_every_mix_but_the_first() -> None:
    mixes = grid(TWO, taus=[0.5], budgets=[1.0, 0.5], own={"story": 0.25}, tasks={"view": 0.3, "buy": 1.0})
    assert mixes == (
        Mixing(),
        Mixing(tasks={"view": 0.3}),
        Mixing(tau=0.5, budget=0.5, taus={"story": 0.25}, tasks={"view": 0.3}),
    )
    assert label(mixes[2]) == "tau 0.5, budget 0.5, story tau 0.25, view share 0.3"


def test_a_grid_of_all_rows_alone_is_refused() -> None:
    with pytest.raises(SweepError, match="give a budget or a task share below 1"):
        grid(TWO, budgets=[1.0], tasks={"view": 1.0})
    with pytest.raises(MixingError, match=r"budget is 1\.5"):
        grid(TWO, budgets=[1.5])


@pytest.mark.parametrize("mix", grid(TWO, tasks={"buy": 0.5}))
def test_the_line_to_paste_is_the_mix_whatever_the_recipe_held(mix: Mixing) -> None:
    held = gem_tiny().derive({"mixing": {"tau": 0.1, "taus": {"feed": 0.9}, "budget": 0.7, "tasks": {"buy": 0.2}}})
    assert held.derive(yaml.safe_load(snippet(mix))).mixing == mix
    assert snippet(mix).count("\n") == 0
