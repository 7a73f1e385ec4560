"""Text to times, numbers and lists; what does not parse becomes null, and the caller refuses the row."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from features.days import day_bounds, micros
from features.sources.canonical import vector
from features.sources.files.spelling import CALENDAR, UNITS, Counted, counted, has_zone
from features.sources.ids import filled, id64

if TYPE_CHECKING:
    from pyspark.sql import Column

DATE = r"\d{4}-\d{2}-\d{2}"
CLOCK = r"[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?"
OFFSET = r" ?(Z|[+-]\d{2}(:?\d{2})?)"
WEEK = r"^(\d{4})-?W(\d{2})$"
EPOCH_DAY = "1970-01-01"
FIRST, LAST = (micros(day_bounds(day, "UTC")[0]) for day in ("0001-01-02", "9999-12-30"))
"""Numbers beyond them are no times: milliseconds read as seconds, or a corrupt row."""
YES = ("1", "1.0", "true", "t", "yes", "y")
NO = ("0", "0.0", "false", "f", "no", "n")


def time_of(text: "Column", spelling: str, zone: str) -> "Column":
    """TIMESTAMP of text in a spelling of `features.sources.files.spelling`; null where it is none.

    Digits beyond microseconds are cut, never rounded: the last instant of a day stays in it.

    Args:
        text: the column.
        spelling: how times are written.
        zone: of a time that does not say its own.
    """
    clean = filled(text)
    number = counted(spelling)
    if number is not None:
        return _of_number(clean, number, zone)
    if spelling == "iso":
        aware = F.when(clean.rlike(f"^{DATE}{CLOCK}{OFFSET}$"), _plain(clean).try_cast("timestamp"))
        naive = F.when(clean.rlike(f"^{DATE}({CLOCK})?$"), _plain(clean).try_cast("timestamp"))
        return F.coalesce(aware, F.to_utc_timestamp(F.coalesce(naive, _monday(clean)), zone))
    parsed = F.try_to_timestamp(clean, F.lit(spelling))
    return parsed if has_zone(spelling) else F.to_utc_timestamp(parsed, zone)


def _of_number(clean: "Column", number: Counted, zone: str) -> "Column":
    count = clean.try_cast("decimal(38,9)")
    if number.unit == "ns":
        scaled = F.try_divide(count, F.lit(1000).cast("decimal(10,0)"))
    else:
        scaled = F.try_multiply(count, F.lit(UNITS[number.unit]).cast("decimal(14,0)"))
    # a day of the calendar begins when the zone says so; the epoch of 1970 is one instant everywhere
    calendar = number.unit in CALENDAR
    start = micros(day_bounds(number.since, "UTC" if calendar or number.since == EPOCH_DAY else zone)[0])
    moved = F.floor(scaled).try_cast("bigint")
    at = F.when(moved.between(FIRST - start, LAST - start), F.timestamp_micros(moved + F.lit(start).cast("bigint")))
    return F.to_utc_timestamp(at, zone) if calendar else at


def _monday(clean: "Column") -> "Column":
    """First instant of an ISO week: the week that holds the 4th of January is the first."""
    year = F.regexp_extract(clean, WEEK, 1).try_cast("int")
    week = F.regexp_extract(clean, WEEK, 2).try_cast("int")
    fourth = F.make_date(year, F.lit(1), F.lit(4))
    monday = F.date_add(F.trunc(fourth, "week"), (week - 1) * 7)
    return F.when(F.weekofyear(monday) == week, monday.cast("timestamp"))


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


def truth_of(text: "Column") -> "Column":
    """BOOLEAN of a label: blank is false; null where the text is neither yes nor no."""
    clean = F.lower(filled(text))
    no = clean.isNull() | clean.isin(*NO)
    return F.when(clean.isin(*YES), F.lit(True)).when(no, F.lit(False))


def ids_of(text: "Column", separator: str = "|") -> "Column":
    """Ids of a list, blank items null; null where the text is no list."""
    return F.transform(items(text, separator), id64)


def vector_of(text: "Column", width: int, separator: str = "|") -> "Column":
    """A list of just that many finite numbers, as floats; null where the text is another."""
    return vector(F.transform(items(text, separator), lambda item: filled(item).try_cast("float")), width)


def items(text: "Column", separator: str = "|") -> "Column":
    """Items of a list as text: a JSON array, or values with the separator between them."""
    clean = filled(text)
    parted = F.split(clean, rf"\Q{separator}\E")
    return F.when(clean.startswith("["), F.from_json(clean, "array<string>")).otherwise(parted)
