"""Products along funnels: equal to a plain loop, never above the parent, direct where no ancestor exists."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from features.transform.schema import FeatureSchema, TaskSpec
from models.funnel import NONE, parents, unconditional

SURFACES = ("feed", "search", "apps")
CHAIN = (
    TaskSpec("click", True),
    TaskSpec("cart", parent="click", surfaces=("search",)),
    TaskSpec("buy", parent="cart"),
    TaskSpec("install", parent="click"),
)


def funnel(schema: FeatureSchema, tasks: tuple[TaskSpec, ...]) -> FeatureSchema:
    return replace(schema, surfaces=SURFACES, tasks=tasks)


def random_tasks(rng: np.random.Generator) -> tuple[TaskSpec, ...]:
    """Any forest of any depth, in any order, each task on any surfaces."""
    names = [f"t{number}" for number in rng.permutation(int(rng.integers(1, 9)))]
    found = []
    for place, name in enumerate(names):
        above = names[int(rng.integers(place))] if place and rng.random() < 0.8 else None
        here = tuple(surface for surface in SURFACES if rng.random() < 0.6)
        found.append(TaskSpec(name, parent=above, surfaces=here))
    return tuple(found[place] for place in rng.permutation(len(found)))


def by_hand(schema: FeatureSchema, conditional: np.ndarray, surface: str) -> dict[str, float]:
    """The product of a row, one ancestor at a time, by the words of the rule."""
    specs = {task.name: task for task in schema.tasks}
    given = dict(zip(schema.task_names, conditional.tolist(), strict=True))
    answers = {}
    for name in specs:
        product, ancestor = given[name], specs[name].parent
        while ancestor is not None:
            if not specs[ancestor].surfaces or surface in specs[ancestor].surfaces:
                product *= given[ancestor]
            ancestor = specs[ancestor].parent
        answers[name] = product
    return answers


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(20))
def test_random_funnels_equal_a_loop_and_fall_along_every_path(
    schema: FeatureSchema, seed: int, dtype: torch.dtype
) -> None:
    rng = np.random.default_rng(seed)
    made = funnel(schema, random_tasks(rng))
    # the hard ends too: 0, 1, and numbers whose products round
    given = np.where(rng.random((64, len(made.tasks))) < 0.1, rng.integers(0, 2), rng.random((64, len(made.tasks))))
    surface = torch.from_numpy(rng.integers(0, 3, 64))
    table, conditional = parents(made), torch.from_numpy(given).to(dtype)
    found = unconditional(conditional, surface, table)
    above = table[surface]
    held = above != NONE
    assert (found[held] <= found.gather(1, above.clamp(min=0))[held]).all()
    assert torch.equal(found[~held], conditional[~held])
    for row in range(64):
        expected = by_hand(made, conditional[row].double().numpy(), SURFACES[surface[row]])
        assert found[row].tolist() == pytest.approx([expected[name] for name in made.task_names], rel=1e-5)


def test_a_task_is_direct_where_no_ancestor_exists(schema: FeatureSchema) -> None:
    narrow = (replace(CHAIN[0], surfaces=("feed", "search")), *CHAIN[1:])
    table = parents(funnel(schema, narrow))
    # feed has no cart, so a purchase follows the click itself; apps has neither
    assert table.tolist() == [[-1, 0, 0, 0], [-1, 0, 1, 0], [-1, -1, -1, -1]]
    given = torch.tensor([[0.5, 0.25, 0.5, 0.125]]).expand(3, 4)
    found = unconditional(given, torch.arange(3), table)
    assert found.tolist() == [[0.5, 0.125, 0.25, 0.0625], [0.5, 0.125, 0.0625, 0.0625], [0.5, 0.25, 0.5, 0.125]]


def test_what_is_not_finite_is_not_finite_below(schema: FeatureSchema) -> None:
    table = parents(funnel(schema, CHAIN))
    found = unconditional(torch.tensor([[0.5, torch.nan, 0.5, 0.5]]), torch.tensor([1]), table)
    assert torch.isfinite(found).tolist() == [[True, False, False, True]]


def test_no_rows_and_no_funnel(schema: FeatureSchema) -> None:
    table = parents(funnel(schema, CHAIN))
    assert unconditional(torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64), table).shape == (0, 4)
    plain = parents(funnel(schema, CHAIN[:1]))
    given = torch.rand(5, 1)
    assert torch.equal(unconditional(given, torch.zeros(5, dtype=torch.int64), plain), given)
