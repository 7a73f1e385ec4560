"""Answering `gemline features list` and `describe`: what is declared and applied in a world's feature store."""

from datetime import timedelta

from features.errors import GemlineError
from features.home import Home
from features.store.definitions import ViewSpec, view_specs
from features.store.repo import require_applied
from features.store.versions import SchemaVersion, current, served
from features.worlds import World, load_world

ENTITIES = {"user_id": "user", "ad_id": "ad"}


def listing(world_name: str) -> str:
    """Views and services, one line each.

    Raises:
        StoreStale: the store was not applied, or from other declarations.
    """
    world, home = _opened(world_name)
    lines = [f"feature store of world {world.name}, owner {world.owner}", "", "views"]
    lines += [f"  {_view_line(spec)}" for spec in view_specs(world).values()]
    now = current(world, home)
    lines += ["", "services"]
    for schema in served(world, home):
        mark = "" if schema == now else "  (an older schema version)"
        lines += [f"  {name:<16} {count} features{mark}" for name, count in _sizes(world, schema).items()]
    return "\n".join(lines)


def description(world_name: str, name: str) -> str:
    """Everything that is declared of a view, a feature or a service.

    Raises:
        StoreStale: as `listing`.
        GemlineError: nothing has that name.
    """
    world, home = _opened(world_name)
    specs = view_specs(world)
    if name in specs:
        return _view_text(world, specs[name])
    services = {one: schema for schema in served(world, home) for one in (schema.service, schema.online_service)}
    if name in services:
        return _service_text(world, services[name], name)
    view, _, feature = name.rpartition(":")
    found = [spec for spec in specs.values() if feature in spec.names and view in ("", spec.name)]
    if not found:
        known = [*specs, *services]
        raise GemlineError(
            f"world {world.name} has no view, service or feature '{name}'; known: {', '.join(known)}, and the features "
            "that `gemline features describe VIEW` names"
        )
    return "\n\n".join(_feature_text(world, spec, feature) for spec in found)


def _opened(world_name: str) -> tuple[World, Home]:
    world = load_world(world_name)
    home = Home.of(world.name)
    require_applied(world, home)
    return world, home


def _view_line(spec: ViewSpec) -> str:
    return (
        f"{spec.name:<16} {ENTITIES[spec.key]:<5} {len(spec.names):>3} features  {_life(spec):<22} {spec.description}"
    )


def _life(spec: ViewSpec) -> str:
    return f"ttl {_span(spec.ttl)}" if spec.ttl else "until a newer one"


def _view_text(world: World, spec: ViewSpec) -> str:
    lines = [
        f"view {spec.name}: {spec.description}",
        f"entity {ENTITIES[spec.key]} ({spec.key}), table {spec.table}, owner {world.owner}",
        f"a value counts from {_span(spec.lag) if spec.lag else 'the instant'} after its stamp on; {_life(spec)}",
        "",
    ]
    width = max(map(len, spec.names))
    for name, (column, kind) in zip(spec.names, spec.features.items(), strict=True):
        note = spec.notes[column]
        lines.append(f"  {name:<{width}}  {kind:<13} {note.description} [{note.unit}]")
    return "\n".join(lines)


def _service_text(world: World, schema: SchemaVersion, name: str) -> str:
    lines = [f"service {name}: schema version {schema.number} ({schema.digest}), owner {world.owner}"]
    specs = view_specs(world)
    for view, own in schema.features.items():
        if name == schema.online_service or not specs[view].is_history:
            lines.append(f"  {view}: {', '.join(own)}")
    return "\n".join(lines)


def _feature_text(world: World, spec: ViewSpec, feature: str) -> str:
    column = feature.removeprefix(spec.prefix)
    note = spec.notes[column]
    return "\n".join(
        [
            f"feature {spec.name}:{feature}: {note.description}",
            f"type {spec.features[column]}, unit: {note.unit}",
            f"entity {ENTITIES[spec.key]} ({spec.key}), column {column} of table {spec.table}, owner {world.owner}",
            f"a value counts from {_span(spec.lag) if spec.lag else 'the instant'} after its stamp on; {_life(spec)}",
        ]
    )


def _sizes(world: World, schema: SchemaVersion) -> dict[str, int]:
    specs = view_specs(world)
    counts = {view: len(own) for view, own in schema.features.items()}
    short = sum(count for view, count in counts.items() if not specs[view].is_history)
    return {schema.service: short, schema.online_service: sum(counts.values())}


def _span(span: timedelta) -> str:
    hours, rest = divmod(int(span.total_seconds()), 3600)
    return f"{hours} h" + (f" {rest // 60} min" if rest else "")
