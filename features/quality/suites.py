"""The expectations of each table, built from the world: keys, domains, ranges, and a count that makes empty days red.

Each rule is about every row, so that days can be audited together; what is about a day as a whole - shares, counts,
drift, references, freshness - is in `monitors.py` and `day_rules.py`. Severity `critical` closes the gate; `warning` is
shown and lets the day through.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from features.errors import GemlineError
from features.transform.transfer import SOURCES
from features.worlds.schema import World

if TYPE_CHECKING:
    from great_expectations.expectations import Expectation

    from features.tables.specs import TableSpec

Suite = "list[Expectation]"
SMALLEST_KEEP_RATE = 1e-9


def suite_of(spec: "TableSpec", world: World) -> "list[Expectation]":
    """Expectations on one day's rows of a table.

    Raises:
        GemlineError: the table has no expectations - nothing to check is an error, never a pass - or one that is not
            about every row.
    """
    expectations = [*_keys(spec), *DOMAINS.get(spec.suite or spec.name, _no_domains)(world)]
    if not expectations:
        raise GemlineError(f"table {spec.name} has an empty suite; add expectations to features/quality/suites.py")
    if shares := [type(entry).__name__ for entry in expectations if getattr(entry, "mostly", 1) != 1]:
        raise GemlineError(
            f"table {spec.name}: {shares[0]} allows a share of rows (mostly), which other days would dilute; "
            "watch that share in features/quality/monitors.py"
        )
    return expectations


def _keys(spec: "TableSpec") -> "list[Expectation]":
    import great_expectations.expectations as gxe

    never_null = [key for key in spec.keys if key not in NULLABLE_KEYS.get(spec.name, ())]
    expectations: list[Expectation] = [gxe.ExpectColumnValuesToNotBeNull(column=key) for key in never_null]
    if spec.unique and spec.keys:
        # with the day, since days are audited together and a key may come again on another one
        expectations.append(gxe.ExpectCompoundColumnsToBeUnique(column_list=[spec.partition, *spec.keys]))
    return expectations


NULLABLE_KEYS = {
    "outcomes": ("request_id", "user_id"),
    "events": ("request_id",),
    # without an ad: the user's own vector
    "solaris_vectors": ("ad_id",),
}


def _impressions(world: World) -> "list[Expectation]":
    import great_expectations.expectations as gxe

    return [
        gxe.ExpectColumnValuesToNotBeNull(column="ad_id"),
        gxe.ExpectColumnValuesToNotBeNull(column="request_ts"),
        gxe.ExpectColumnValuesToBeInSet(column="surface", value_set=list(world.surface_names)),
        gxe.ExpectColumnValuesToNotBeNull(column="keep_rate"),
        gxe.ExpectColumnValuesToBeBetween(column="keep_rate", min_value=SMALLEST_KEEP_RATE, max_value=1.0),
    ]


def _behaviour(world: World) -> "list[Expectation]":
    import great_expectations.expectations as gxe

    return [gxe.ExpectColumnValuesToBeInSet(column="event_type", value_set=list(world.event_types))]


def _statistics(prefix: str) -> Callable[[World], "list[Expectation]"]:
    def domains(world: World) -> "list[Expectation]":
        import great_expectations.expectations as gxe

        columns = [f"{prefix}_events_{window}d" for window in world.statistics.windows]
        return [gxe.ExpectColumnValuesToBeBetween(column=column, min_value=0) for column in columns]

    return domains


def _examples(world: World) -> "list[Expectation]":
    import great_expectations.expectations as gxe

    return [
        gxe.ExpectColumnValuesToNotBeNull(column="request_ts"),
        gxe.ExpectColumnValuesToBeInSet(column="surface", value_set=list(world.surface_names)),
        gxe.ExpectColumnValuesToBeBetween(column="keep_rate", min_value=SMALLEST_KEEP_RATE, max_value=1.0),
        gxe.ExpectColumnValuesToNotBeNull(column="hour"),
    ]


def _labels(world: World) -> "list[Expectation]":
    import great_expectations.expectations as gxe

    return [
        gxe.ExpectColumnValuesToBeInSet(column="label", value_set=[0.0, 1.0]),
        gxe.ExpectColumnValuesToNotBeNull(column="label"),
        gxe.ExpectColumnValuesToBeInSet(column="task", value_set=[head.name for head in world.heads]),
        gxe.ExpectColumnValuesToBeBetween(column="weight", min_value=1.0),
        gxe.ExpectColumnValuesToNotBeNull(column="weight"),
    ]


def _predictions(world: World) -> "list[Expectation]":
    import great_expectations.expectations as gxe

    return [
        gxe.ExpectColumnValuesToNotBeNull(column="prediction"),
        gxe.ExpectColumnValuesToBeBetween(column="prediction", min_value=0.0, max_value=1.0),
        gxe.ExpectColumnValuesToBeInSet(column="task", value_set=[head.name for head in world.heads]),
    ]


def _vectors(world: World) -> "list[Expectation]":
    import great_expectations.expectations as gxe

    return [
        gxe.ExpectColumnValuesToNotBeNull(column="vector"),
        gxe.ExpectColumnValuesToBeInSet(column="surface", value_set=list(world.surface_names)),
    ]


def _candidates(world: World) -> "list[Expectation]":
    import great_expectations.expectations as gxe

    return [
        gxe.ExpectColumnValuesToNotBeNull(column="run_ts"),
        gxe.ExpectColumnValuesToBeInSet(column="surface", value_set=list(world.surface_names)),
    ]


def _train_vectors(_world: World) -> "list[Expectation]":
    import great_expectations.expectations as gxe

    return [gxe.ExpectColumnValuesToBeInSet(column="source", value_set=list(SOURCES))]


def _no_domains(_world: World) -> "list[Expectation]":
    return []


DOMAINS: dict[str, Callable[[World], "list[Expectation]"]] = {
    "impressions": _impressions,
    "outcomes": _behaviour,
    "events": _behaviour,
    "user_stats": _statistics("user"),
    "ad_stats": _statistics("ad"),
    "examples": _examples,
    "labels": _labels,
    "predictions": _predictions,
    "fm_outputs": _vectors,
    "solaris_candidates": _candidates,
    "solaris_vectors": _vectors,
    "solaris_train_vectors": _train_vectors,
}


def describe(spec: "TableSpec", world: World) -> list[str]:
    """The suite in words, for metadata and docs."""
    return [f"{type(entry).__name__} {_subject(entry)} {entry.severity}" for entry in suite_of(spec, world)]


def columns_of(suite: "Sequence[Expectation]") -> set[str]:
    """Columns that a suite's rules name."""
    return {name for entry in suite for name in _columns(entry)}


def _subject(entry: "Expectation") -> str:
    return ", ".join(_columns(entry))


def _columns(entry: "Expectation") -> list[str]:
    return list(getattr(entry, "column_list", None) or [getattr(entry, "column", "")])
