"""Finding, reading and keeping world files.

A world is named: shipped files stand beside this module, added ones in `GEMLINE_HOME/worlds`. Anything with a slash or
a `.yaml` ending is taken as a path.
"""

from functools import cache
from pathlib import Path

import yaml
from pydantic import ValidationError

from features.errors import WorldError
from features.home import gemline_home
from features.worlds.schema import World

SHIPPED = Path(__file__).parent


def added_worlds() -> Path:
    """Folder of the worlds that the user added."""
    return gemline_home() / "worlds"


def world_files() -> dict[str, Path]:
    """Name to file of all worlds, shipped ones first."""
    files = {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}
    for path in sorted(added_worlds().glob("*.yaml")):
        files.setdefault(path.stem, path)
    return files


def world_names() -> list[str]:
    """Names of all worlds that can be loaded."""
    return list(world_files())


def load_world(name_or_path: str) -> World:
    """Read and validate a world.

    Raises:
        WorldError: no such world, unreadable YAML, or a field that does not fit; the message names the field.
    """
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        return read_world(Path(name_or_path))
    files = world_files()
    if name_or_path not in files:
        raise WorldError(f"no world '{name_or_path}'; known: {', '.join(files)}; `gemline world add FILE` adds one")
    path = files[name_or_path]
    return _read_cached(path, path.stat().st_mtime_ns)


@cache
def _read_cached(path: Path, _mtime: int) -> World:
    return read_world(path)


def read_world(path: Path) -> World:
    """Validate one file; a relative `source.options.path` is read from the file's own folder.

    Raises:
        WorldError: as `load_world`.
    """
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WorldError(f"world file {path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise WorldError(f"world file {path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict):
        raise WorldError(f"world file {path}: expected a mapping at the top, as in {SHIPPED.name}/tiny.yaml")
    _anchor_path(raw, path.parent)
    try:
        return World.model_validate(raw)
    except ValidationError as error:
        raise WorldError(f"world file {path}: {_sentence(error)}") from None


def add_world(path: Path) -> World:
    """Check a world file and keep a copy, with its source path made absolute, in `GEMLINE_HOME/worlds`.

    Raises:
        WorldError: as `load_world`, or the name is that of a shipped world.
    """
    world = read_world(path)
    target = added_worlds() / f"{world.name}.yaml"
    if (SHIPPED / target.name).exists():
        if (SHIPPED / target.name).resolve() == path.resolve():
            return world
        raise WorldError(f"world file {path}: the name '{world.name}' belongs to a shipped world; choose another")
    target.parent.mkdir(parents=True, exist_ok=True)
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    _anchor_path(raw, path.parent)
    target.write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
    return world


def _anchor_path(raw: dict, folder: Path) -> None:
    options = (raw.get("source") or {}).get("options") or {}
    if isinstance(options.get("path"), str):
        options["path"] = str((folder / options["path"]).resolve())


def _sentence(error: ValidationError) -> str:
    parts = []
    for fault in error.errors():
        where = ".".join(str(step) for step in fault["loc"]) or "file"
        what = (
            "unknown key (a typo?)"
            if fault["type"] == "extra_forbidden"
            else fault["msg"].removeprefix("Value error, ")
        )
        parts.append(f"{where}: {what}")
    return "; ".join(parts[:5])
