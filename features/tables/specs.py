"""Which tables there are: partition column and key of each, and a sentence that says what a row is."""

from dataclasses import dataclass, replace

from features.errors import GemlineError


@dataclass(frozen=True)
class TableSpec:
    """One Delta table.

    Attributes:
        name: folder below `tables/`.
        row: what a row is.
        keys: columns that identify a row within a partition.
        partition: partition column, a local day.
        unique: whether the keys are; the same thing may be bought twice in one basket.
        may_be_empty: whether a day without rows is ordinary (attributes come only when they change, and before
            the first run nothing is computed ahead).
        suite: table whose expectations hold for this one; its own name when empty.
    """

    name: str
    row: str
    keys: tuple[str, ...]
    partition: str = "ds"
    may_be_empty: bool = False
    unique: bool = True
    suite: str = ""


SPECS = {
    spec.name: spec
    for spec in (
        TableSpec("impressions", "one ad shown, or presumed shown", ("impression_id",)),
        TableSpec(
            "outcomes",
            "something that happened after an impression, by day of arrival",
            ("request_id", "user_id", "ad_id", "event_type", "event_ts"),
            unique=False,
        ),
        TableSpec(
            "events",
            "user behaviour of any type, by day of arrival",
            ("user_id", "event_ts", "event_type", "ad_id", "request_id"),
            unique=False,
        ),
        TableSpec(
            "users",
            "attributes of a user as known from an instant on",
            ("user_id", "event_timestamp"),
            may_be_empty=True,
        ),
        TableSpec(
            "ads", "attributes of an ad as known from an instant on", ("ad_id", "event_timestamp"), may_be_empty=True
        ),
        TableSpec("user_stats", "rolling statistics of a user up to the end of the day", ("user_id",)),
        TableSpec("ad_stats", "rolling statistics of an ad up to the end of the day", ("ad_id",)),
        TableSpec("user_history", "a user's events that arrived on the day, as sorted arrays", ("user_id",)),
        TableSpec("user_recent", "a user's newest events as of the end of the day", ("user_id",)),
        TableSpec("examples", "features of an impression as of its request", ("impression_id",)),
        TableSpec(
            "labels", "an impression and task whose window closed on the day", ("impression_id", "task"), "label_ds"
        ),
        TableSpec(
            "predictions",
            "probability given before training on the row",
            ("ds", "impression_id", "task", "digest"),
            "scored_ds",
        ),
        TableSpec(
            "fm_outputs",
            "a frozen foundation model's logits and compressed representation of an impression",
            ("fm_generation", "impression_id"),
        ),
        TableSpec(
            "solaris_candidates",
            "a (surface, user, ad) that is to be computed before it is asked for",
            ("surface", "user_id", "ad_id"),
            may_be_empty=True,
        ),
        TableSpec(
            "solaris_vectors",
            "a precomputed vector of a (surface, user, ad); without an ad it is the user's own",
            ("fm_generation", "surface", "user_id", "ad_id"),
            may_be_empty=True,
        ),
        TableSpec(
            "solaris_train_vectors",
            "the precomputed vector that a request would have been answered with",
            ("fm_generation", "impression_id"),
            may_be_empty=True,
        ),
    )
}

VERTICAL_PREDICTIONS = "predictions_"
"""Prefix of the tables of predictions of verticals, each like `predictions`."""


def spec_of(name: str) -> TableSpec:
    """Spec by name.

    Raises:
        GemlineError: no such table.
    """
    if name.startswith(VERTICAL_PREDICTIONS):
        return replace(SPECS["predictions"], name=name, suite="predictions")
    if name not in SPECS:
        raise GemlineError(f"no table '{name}'; known: {', '.join(SPECS)}")
    return SPECS[name]
