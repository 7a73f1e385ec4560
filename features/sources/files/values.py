"""Text to times and numbers; what does not parse becomes null, and the caller refuses the row."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.sources.canonical import vector
from features.sources.files.options import Options
from features.sources.ids import filled, id64

if TYPE_CHECKING:
    from pyspark.sql import Column

DATE = r"\d{4}-\d{2}-\d{2}"
CLOCK = r"[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?"
OFFSET = r" ?(Z|[+-]\d{2}(:?\d{2})?)"
MICROS = {"s": "1000000", "ms": "1000", "us": "1", "ns": "0.001"}


def time_of(text: "Column", options: Options, timezone: str) -> "Column":
    """TIMESTAMP of ISO 8601 text, or of numbers where the options say `epoch`; null where it is neither.

    Digits beyond microseconds are cut, never rounded: the last instant of a day stays in it.
    """
    clean = filled(text)
    if options.epoch is not None:
        micros = clean.try_cast("decimal(38,9)") * F.lit(MICROS[options.epoch]).cast("decimal(10,3)")
        return F.timestamp_micros(F.floor(micros).cast("bigint"))
    aware = F.when(clean.rlike(f"^{DATE}{CLOCK}{OFFSET}$"), _plain(clean).try_cast("timestamp"))
    naive = F.when(clean.rlike(f"^{DATE}({CLOCK})?$"), _plain(clean).try_cast("timestamp"))
    if options.naive_times == "local":
        naive = F.to_utc_timestamp(naive, timezone)
    return F.coalesce(aware, naive)


def _plain(text: "Column") -> "Column":
    """Spellings that ISO 8601 allows and Spark does not read, in the one that it does."""
    cut = F.regexp_replace(text, r"(\.\d{6})\d+", "$1")
    joined = F.regexp_replace(cut, r" (Z|[+-]\d{2}:?\d{0,2})$", "$1")
    with_colon = F.regexp_replace(joined, r"(:[\d.]+[+-]\d{2})(\d{2})$", "$1:$2")
    return F.regexp_replace(with_colon, r"(:[\d.]+[+-]\d{2})$", "$1:00")


def number_of(text: "Column", kind: str) -> "Column":
    """A finite number of a Spark type; null where the text is none."""
    number = filled(text).try_cast(kind)
    if kind != "double":
        return number
    return F.when(~F.isnan(number) & (F.abs(number) < float("inf")), number)


def ids_of(text: "Column") -> "Column":
    """Ids of a list, blank items null; null where the text is no list."""
    return F.transform(_items(text), id64)


def vector_of(text: "Column", width: int) -> "Column":
    """A list of just that many finite numbers, as floats; null where the text is another."""
    return vector(F.transform(_items(text), lambda item: filled(item).try_cast("float")), width)


def _items(text: "Column") -> "Column":
    """Items of a list as text: a JSON array, or values with `|` between them."""
    clean = filled(text)
    return F.when(clean.startswith("["), F.from_json(clean, "array<string>")).otherwise(F.split(clean, r"\|"))
