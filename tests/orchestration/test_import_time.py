"""What an import costs: code locations load without engines, what serves without trainer and tables.

import-linter sees every import, lazy ones included; these tests see what is loaded, each in a fresh process.
"""

import json
import subprocess
import sys

import pytest

ENGINES = ("torch", "torchrec", "pyspark", "feast", "great_expectations")
NOT_FOR_SERVING = ("torchrec", "pyspark", "dagster", "feast", "great_expectations")


def loaded(statement: str, names: tuple[str, ...]) -> list[str]:
    """Which of the packages a fresh Python has loaded after a statement."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps([n for n in {names!r} if n in sys.modules]))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    found: list[str] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_the_probe_sees_a_package_that_is_loaded() -> None:
    assert loaded("import json, redis", ("redis", "torch")) == ["redis"]


@pytest.mark.parametrize("world", ["tiny", "complete_journey"])
def test_a_code_location_loads_without_the_engines(world: str) -> None:
    assert loaded(f"from orchestration.definitions import {world}", ENGINES) == []


@pytest.mark.parametrize("module", ["orchestration.cli", "orchestration.doctor", "orchestration.running"])
def test_the_command_line_starts_without_the_engines(module: str) -> None:
    assert loaded(f"import {module}", ENGINES) == []


@pytest.mark.parametrize("module", ["serving.releases", "features.transform"])
def test_what_serves_loads_without_trainer_and_tables(module: str) -> None:
    assert loaded(f"import {module}", NOT_FOR_SERVING) == []


@pytest.mark.parametrize("package", ["models.layers", "models.gem"])
def test_models_load_without_the_engines_of_data(package: str) -> None:
    assert loaded(f"import {package}", ("pyspark", "dagster", "feast", "great_expectations", "pandas")) == []
