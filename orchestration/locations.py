"""Code locations of the worlds that a user added: a workspace file beside the shipped one."""

from pathlib import Path

import yaml

from features.home import gemline_home
from features.worlds.load import added_worlds


def write_workspace() -> Path:
    """Write `GEMLINE_HOME/workspace.yaml` with one code location for each added world; `make dev` loads it too."""
    names = sorted(path.stem for path in added_worlds().glob("*.yaml"))
    locations = [
        {"python_module": {"module_name": "orchestration.definitions", "attribute": name, "location_name": name}}
        for name in names
    ]
    path = gemline_home() / "workspace.yaml"
    path.write_text(yaml.safe_dump({"load_from": locations}, sort_keys=False), encoding="utf-8")
    return path
