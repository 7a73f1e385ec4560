"""What is said of stale content: why, how much of it, and what making it again costs."""

import dagster as dg

from features.tables.lineage import StaleDay
from orchestration.rebuilding import recorded_cost, told
from orchestration.staleness import StaleModel, Staleness

DAYS = ("2024-03-07", "2024-03-08", "2024-03-10")


def test_nothing_stale_is_one_line() -> None:
    assert told(Staleness((), ()), "tiny").startswith("nothing is stale")


def test_tables_are_told_by_spans_of_days_with_reasons_and_costs() -> None:
    days = [StaleDay("user_stats", ds, ("events",), (), 500) for ds in DAYS]
    days.append(StaleDay("examples", DAYS[1], (), ("user_stats",), 1))
    costs = {"user_stats": 2.4}
    assert told(Staleness(tuple(days), ()), "tiny", costs.get).splitlines() == [
        "user_stats of 2024-03-07..2024-03-08, 2024-03-10: events restated - 3 days, 1,500 rows, about 7 s",
        "examples of 2024-03-08: follows user_stats - 1 day, 1 row",
        "to make them again: gemline rebuild --world tiny",
    ]


def test_models_are_told_with_what_is_live() -> None:
    models = (
        StaleModel("gem", DAYS[1], ("examples",), (), live=False),
        StaleModel("gem", DAYS[2], (), ("labels", "parent"), live=True),
    )
    assert told(Staleness((), models), "tiny", {"gem_model": 31.0}.get).splitlines() == [
        "gem of 2024-03-08: trained on superseded examples, about 31 s",
        "gem of 2024-03-10 (live): follows labels, parent, about 31 s",
        "to make them again: gemline rebuild --world tiny (--models trains the models again, too)",
    ]


def test_a_step_that_never_ran_has_no_cost() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        assert recorded_cost("tiny", instance)("user_stats") is None


def test_without_an_instance_no_cost_is_known() -> None:
    assert recorded_cost("tiny")("user_stats") is None
