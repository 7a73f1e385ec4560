"""Counts by binary search equal a plain loop over the log."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from benchmarks.rivals.counting import FAR, Log


def _plain(events: list[tuple[int, int, int, float]], key: tuple[int, int], day: int) -> dict[str, float]:
    mine = [(d, amount) for user, item, d, amount in events if (user, item) == key and d < day]
    days = sorted({d for d, _ in mine})
    recency, span = (day - days[-1], day - days[0]) if days else (FAR, FAR)
    interval = (days[-1] - days[0]) / (len(days) - 1) if len(days) > 1 else FAR
    return {
        "count": len(mine),
        "count_28": sum(d >= day - 28 for d, _ in mine),
        "total_28": sum(amount for d, amount in mine if d >= day - 28),
        "days": len(days),
        "recency": recency,
        "span": span,
        "interval": interval,
        "due": recency / max(interval, 1.0) if len(days) > 1 else -1.0,
    }


@pytest.mark.parametrize("rows", [0, 1, 400])
def test_the_state_before_a_day_is_that_of_a_loop(rows: int) -> None:
    rng = np.random.default_rng(rows)
    user, item = rng.integers(-3, 4, rows), rng.integers(0, 5, rows) * 10**17
    day, amount = rng.integers(700_000, 700_090, rows), rng.normal(size=rows)
    log = Log.of((user, item), day, amount)
    asked = (rng.integers(-4, 6, 300), rng.integers(-1, 6, 300) * 10**17)
    at = rng.integers(699_990, 700_120, 300)
    state = log.before(asked, at)
    found = {
        "count": state.count(),
        "count_28": state.count(28),
        "total_28": state.total(28),
        "days": state.days(),
        "recency": state.recency(),
        "span": state.span(),
        "interval": state.interval(),
        "due": state.due(),
    }
    events = list(zip(user.tolist(), item.tolist(), day.tolist(), amount.tolist(), strict=True))
    plain = [_plain(events, (u, i), d) for u, i, d in zip(*(part.tolist() for part in asked), at.tolist(), strict=True)]
    for name, values in found.items():
        assert_allclose(values, [row[name] for row in plain], atol=1e-9, err_msg=name)
