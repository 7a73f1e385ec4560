"""Days that a command cannot do anything with are refused in a sentence, before anything starts."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from orchestration.cli import main


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("report --world tiny --day 2024-03-06", "--day 2024-03-06: world tiny goes from 2024-03-07 to"),
        ("report --world tiny --day 2030-01-01", "--day 2030-01-01: world tiny goes from 2024-03-07 to"),
        ("run --world tiny --start 2024-03-07 --end 2024-03-08 --train-from 2024-03-09", "or no day trains"),
        ("run --world tiny --start 2024-03-08 --end 2024-03-07", "give them in date order"),
        ("run --world tiny --start 2024-03-08 --end 2024-03-09 --train-from 2024-03-07", "give them in date order"),
        ("run --world tiny --start 2024-3-8 --end 2024-03-09", "is no day; write YYYY-MM-DD"),
        ("rollback --world tiny --model moon --reason why", "moon"),
    ],
)
def test_a_day_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, sentence: str) -> None:
    monkeypatch.setenv("GEMLINE_HOME", str(tmp_path))
    ended = CliRunner().invoke(main, command.split())
    assert ended.exit_code != 0
    assert sentence in ended.output and "Traceback" not in ended.output
    assert ended.exception is None or isinstance(ended.exception, SystemExit)
