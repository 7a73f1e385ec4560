"""Model lines: GEM and each vertical; what a line predicts, where its predictions are, and what decides about it."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from features.schema_of import categorical_columns, schema_of
from features.tables.specs import VERTICAL_PREDICTIONS
from features.worlds.schema import GEM

if TYPE_CHECKING:
    from features.worlds.schema import World


@dataclass(frozen=True)
class Line:
    """One chain of models, a day at a time.

    Attributes:
        name: of its checkpoints, releases and decisions.
        predictions: table of its predictions.
        surfaces: whose rows it predicts.
        tasks: what it predicts.
        judged: tasks that decide about its releases.
        recipe: name of its default recipe.
        excluded: columns of examples that it does not get.
    """

    name: str
    predictions: str
    surfaces: tuple[str, ...]
    tasks: tuple[str, ...]
    judged: tuple[str, ...]
    recipe: str
    excluded: tuple[str, ...] = ()


def gem_line(world: "World") -> Line:
    """The foundation model: all surfaces, all tasks with all their windows."""
    return _line(world, GEM, "predictions", world.surface_names, tuple(head.name for head in world.heads), world.recipe)


def vertical_line(world: "World", name: str) -> Line:
    """A vertical of the world file.

    Raises:
        GemlineError: there is none of that name.
    """
    vertical = world.vertical(name)
    line = _line(world, name, VERTICAL_PREDICTIONS + name, vertical.surfaces, vertical.tasks, vertical.recipe)
    columns = categorical_columns(world)
    return replace(line, excluded=tuple(columns[feature] for feature in vertical.exclude))


def _line(
    world: "World", name: str, table: str, surfaces: tuple[str, ...], tasks: tuple[str, ...], recipe: str
) -> Line:
    part = schema_of(world).part(surfaces, tasks)
    return Line(name, table, part.surfaces, part.task_names, part.judged_tasks, recipe)
