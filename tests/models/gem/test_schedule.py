"""CompSkip's schedule."""

import pytest

from models.gem.schedule import EVERYTHING, Runs, schedule


def test_layers_alternate_and_the_last_one_summarises_what_all_before_it_did() -> None:
    first, second, third, fourth = schedule(4, compskip=True)
    assert first == Runs(attention=True, feedforward=False, summary=True)  # nothing is cached yet
    assert third == Runs(attention=True, feedforward=False, summary=False)
    assert second == fourth == Runs(attention=False, feedforward=True, summary=True)
    assert schedule(3, compskip=False) == (EVERYTHING,) * 3


def test_an_odd_number_of_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="take 4"):
        schedule(3, compskip=True)
