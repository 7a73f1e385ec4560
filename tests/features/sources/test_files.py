"""The log-file adapter: formats, ids, times, days and refusals (cases B01, B02, B04, B05)."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from features.errors import WorldError
from features.ids import id_of
from features.sources.base import Extracted, extract, source
from features.sources.canonical import TABLES, columns_of
from features.worlds import World, load_world
from tests.features.sources.conftest import ADS, IMPRESSIONS, OUTCOMES, LogWorld

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.assets
DAY, NEXT = "2024-03-07", "2024-03-08"


def _rows(extracted: Extracted, table: str = "impressions") -> list[dict[str, Any]]:
    frame = extracted.tables[table]
    return sorted(
        (row.asDict() for row in frame.collect()), key=lambda row: tuple(str(value) for value in row.values())
    )


def _rules(extracted: Extracted) -> list[tuple[str, str]]:
    assert extracted.refused is not None
    return sorted((row["table"], row["rule"]) for row in extracted.refused.collect())


def _shown(number: int, at: str, user: object = 1, ad: object = 5, surface: str = "feed") -> str:
    return f"{number},{number},{user},{ad},{surface},1,{at},phone,video\n"


def _mapping(file: str, **columns: str) -> dict[str, object]:
    mapped = load_world("tiny").source.options["impressions"]["columns"]
    return {"file": file, "columns": {**mapped, **columns}}


# ---- tiny


@pytest.fixture(scope="module")
def tiny(spark: "SparkSession") -> dict[str, list[dict[str, Any]]]:
    world = load_world("tiny")
    extracted = extract(spark, world, world.days())
    assert _rules(extracted) == []
    for table in TABLES:
        assert dict(extracted.tables[table].dtypes) == columns_of(table, world)
    return {table: _rows(extracted, table) for table in TABLES}


def test_a_day_alone_gives_what_the_range_gives(spark: "SparkSession", tiny: dict) -> None:
    world = load_world("tiny")
    for ds in (DAY, "2024-03-09", "2024-03-10"):
        alone = extract(spark, world, [ds])
        for table in ("impressions", "events", "ads"):
            assert _rows(alone, table) == [row for row in tiny[table] if row["ds"] == ds], (table, ds)


def test_the_closed_day_is_empty_and_the_others_are_not(tiny: dict) -> None:
    assert {row["ds"] for row in tiny["impressions"]} == {DAY, NEXT, "2024-03-10", "2024-03-11"}
    assert {row["ds"] for row in tiny["outcomes"]} == {DAY, NEXT, "2024-03-10", "2024-03-11"}


def test_earlier_events_arrive_with_the_first_day_and_a_late_one_on_its_own(tiny: dict) -> None:
    start = datetime(2024, 3, 7, 5, tzinfo=UTC).replace(tzinfo=None)
    assert {row["ds"] for row in tiny["events"] if row["event_ts"] < start} == {DAY}
    late = [row for row in tiny["events"] if row["event_type"] == "click" and row["ds"] == NEXT]
    assert sum(row["event_ts"] < datetime(2024, 3, 8, 5) for row in late) == 1  # noqa: DTZ001


def test_corrections_are_rows_of_their_own_day(tiny: dict) -> None:
    topics = [(row["ds"], row["topic"]) for row in tiny["ads"] if row["ad_id"] == 507]
    assert topics == [(DAY, id_of("food")), ("2024-03-10", id_of("music"))]
    assert all(row["available_ts"] == row["event_timestamp"] for row in tiny["ads"])


def test_clicked_rows_are_all_kept_at_the_rate_of_their_surface(tiny: dict) -> None:
    clicked = {(row["request_id"], row["ad_id"]) for row in tiny["outcomes"] if row["event_type"] == "click"}
    kept = {(row["request_id"], row["ad_id"]): row for row in tiny["impressions"]}
    assert clicked <= kept.keys()
    assert {(row["surface"], row["keep_rate"]) for row in tiny["impressions"]} == {
        ("feed", 0.5),
        ("story", 1.0),
    }
    feed = [row for row in tiny["impressions"] if row["surface"] == "feed"]
    assert len(feed) < 500 < 664


# ---- B01, B02, B04, B05


def test_a_mark_and_windows_line_ends_change_nothing(spark: "SparkSession", log_world: LogWorld) -> None:
    text = IMPRESSIONS + _shown(1, f"{DAY}T12:00:00Z") + _shown(2, f"{DAY}T12:05:00Z", user=11)
    plain = _rows(extract(spark, log_world({"impressions.csv": text}), [DAY]))
    marked = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    assert _rows(extract(spark, log_world({"impressions.csv": marked}), [DAY])) == plain
    assert [row["impression_id"] for row in plain] == [1, 2]
    assert {row["context_device"] for row in plain} == {id_of("phone")}


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_ids_survive_a_missing_neighbour(spark: "SparkSession", log_world: LogWorld, tmp_path: Path, kind: str) -> None:
    users = [2**62 + 1, None, 2**62 + 2, 2**53 + 1]
    names = IMPRESSIONS.strip().split(",")
    rows = [
        dict(zip(names, (9 + at, 9 + at, user, 5, "feed", 1, f"{DAY}T12:00:00Z", "phone", "video"), strict=True))
        for at, user in enumerate(users)
    ]
    if kind == "csv":
        lines = [",".join("" if value is None else str(value) for value in row.values()) for row in rows]
        text = "\n".join([IMPRESSIONS.strip(), *lines]) + "\n"
    else:
        text = "\n".join(json.dumps(row) for row in rows) + "\n"
    world = log_world({f"log.{kind}": text}, impressions=_mapping(f"log.{kind}"))
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet")
    found = {row["impression_id"]: row["user_id"] for row in _rows(extract(spark, world, [DAY]))}
    assert found == dict(enumerate(users, 9))


def test_ten_thousand_rows_come_out_once_each_and_equal_on_a_second_run(
    spark: "SparkSession", log_world: LogWorld
) -> None:
    text = IMPRESSIONS + "".join(_shown(number, f"{DAY}T12:00:00Z") for number in range(10_000))
    world = log_world({"impressions.csv": text}, keep_rate=0.5)
    once, again = (_rows(extract(spark, world, [DAY])) for _ in range(2))
    assert once == again
    assert len({row["impression_id"] for row in once}) == len(once)
    assert abs(len(once) - 5000) < 250


@pytest.mark.parametrize("zone", ["UTC", None])
def test_nanoseconds_are_cut_not_rounded(
    spark: "SparkSession", log_world: LogWorld, tmp_path: Path, zone: str | None
) -> None:
    midnight = int(datetime(2024, 3, 8, tzinfo=UTC).timestamp()) * 10**9
    stamps = pa.array([midnight - 1, midnight + 1], pa.timestamp("ns", tz=zone))
    same = {name: pa.array([1, 2]) for name in ("impression_id", "request_id", "user", "ad", "slot")}
    words = {"placement": pa.array(["feed", "feed"]), "device": pa.array(["phone", "phone"])}
    words["format"] = pa.array(["video", None])
    world = log_world({}, impressions=_mapping("drop.parquet")).model_copy(update={"timezone": "UTC"})
    pq.write_table(pa.table({**same, **words, "shown_at": stamps}), tmp_path / "drop.parquet")
    rows = {row["ds"]: row["request_ts"] for row in _rows(extract(spark, world, [DAY, NEXT]))}
    assert rows == {
        DAY: datetime(2024, 3, 7, 23, 59, 59, 999999),  # noqa: DTZ001
        NEXT: datetime(2024, 3, 8),  # noqa: DTZ001
    }


@pytest.mark.parametrize("kind", ["s", "ms", "us", "int96"])
def test_parquet_times_of_any_unit_are_one_instant(
    spark: "SparkSession", log_world: LogWorld, tmp_path: Path, kind: str
) -> None:
    at = datetime(2024, 3, 7, 12, 30, 5)  # noqa: DTZ001
    same = {name: pa.array([1]) for name in ("impression_id", "request_id", "user", "ad")}
    words = {"placement": pa.array(["feed"]), "device": pa.array(["phone"]), "format": pa.array(["video"])}
    words["slot"] = pa.array([1])
    stamps = pa.array([at], pa.timestamp("ns" if kind == "int96" else kind))
    table = pa.table({**same, **words, "shown_at": stamps})
    pq.write_table(table, tmp_path / "drop.parquet", use_deprecated_int96_timestamps=kind == "int96")
    (row,) = _rows(extract(spark, log_world({}, impressions=_mapping("drop.parquet")), [DAY]))
    assert row["request_ts"] == at


# ---- times and days


@pytest.mark.parametrize(
    ("text", "options", "utc"),
    [
        ("2024-03-07T23:30:00-05:00", {}, "2024-03-08 04:30:00"),
        ("2024-03-07T23:30:00-0500", {}, "2024-03-08 04:30:00"),
        ("2024-03-07 23:30:00.1234567Z", {}, "2024-03-07 23:30:00.123456"),
        ("2024-03-07T12:30", {}, "2024-03-07 12:30:00"),
        ("2024-03-07T12:30:00", {"naive_times": "local"}, "2024-03-07 17:30:00"),
        ("1709814600", {"times": "s"}, "2024-03-07 12:30:00"),
        ("1709814600123456789", {"times": "ns"}, "2024-03-07 12:30:00.123456"),
    ],
)
def test_spellings_of_time(spark: "SparkSession", log_world: LogWorld, text: str, options: dict, utc: str) -> None:
    world = log_world({"impressions.csv": IMPRESSIONS + _shown(1, text)}, **options)
    (row,) = _rows(extract(spark, world, [DAY]))
    assert row["request_ts"] == datetime.fromisoformat(utc)


def test_an_outcome_counts_to_the_day_on_which_it_arrived(spark: "SparkSession", log_world: LogWorld) -> None:
    lines = f"1,1,5,click,{DAY}T12:00:00Z,{NEXT}T12:00:00Z,1.5\n2,1,5,click,{DAY}T12:00:00Z,{DAY}T11:00:00Z,\n"
    found = _rows(extract(spark, log_world({"outcomes.csv": OUTCOMES + lines}), [DAY, NEXT]), "outcomes")
    assert {(row["request_id"], row["ds"], row["value"]) for row in found} == {(1, NEXT, 1.5), (2, DAY, None)}


def test_a_row_without_an_impression_id_gets_one_from_its_key(spark: "SparkSession", log_world: LogWorld) -> None:
    mapping = _mapping("impressions.csv")
    columns = dict(mapping["columns"])  # type: ignore[call-overload]
    del columns["impression_id"]
    text = IMPRESSIONS + _shown(1, f"{DAY}T12:00:00Z") + _shown(2, f"{DAY}T12:00:00Z") + _shown(2, f"{DAY}T12:00:00Z")
    world = log_world({"impressions.csv": text}, impressions={**mapping, "columns": columns})
    extracted = extract(spark, world, [DAY])
    assert len({row["impression_id"] for row in _rows(extracted)}) == 2
    assert _rules(extracted) == [("impressions", "repeated impression_id")]


# ---- refusals


def test_each_refused_row_says_its_rule_file_and_content(spark: "SparkSession", log_world: LogWorld) -> None:
    noon = f"{DAY}T12:00:00Z"
    impressions = [
        _shown(1, noon), _shown(1, noon, ad=6), _shown(2, noon, ad=""), _shown(3, "soon"), _shown(4, ""),
        _shown(5, noon, surface="moon"), "6,6,1,5,feed,first," + noon + ",phone,video\n", "7,7\n",
        _shown(8, "2024-02-30T00:00:00Z"),
    ]  # fmt: skip
    events = [
        {"user": 1, "ad": 5, "kind": "stare", "at": noon},
        {"user": None, "ad": 5, "kind": "click", "at": noon},
    ]
    world = log_world(
        {
            "impressions.csv": IMPRESSIONS + "".join(impressions),
            "outcomes.csv": OUTCOMES + f"1,1,5,click,{noon},,cheap\n",
            "ads.csv": f"{ADS}5,{noon},a,b,,,\n5,{noon},a,c,,,\n",
            "events.jsonl": "\n".join([*(json.dumps(row | _EVENT) for row in events), "{broken"]) + "\n",
        }
    )
    extracted = extract(spark, world, [DAY])
    assert [row["impression_id"] for row in _rows(extracted)] == [1]
    assert _rules(extracted) == sorted(
        [
            ("ads", "repeated ad_id and event_timestamp"), ("events", "malformed line"),
            ("events", "no user_id"),
            ("events", "unknown event_type"), ("impressions", "malformed line"), ("impressions", "no ad_id"),
            ("impressions", "no request_ts"), ("impressions", "position is no number"),
            ("impressions", "repeated impression_id"), ("impressions", "request_ts is no time"),
            ("impressions", "request_ts is no time"), ("impressions", "unknown surface"),
            ("outcomes", "value is no number"),
        ]
    )  # fmt: skip
    moon = extracted.refused.where("rule = 'unknown surface'").first()  # type: ignore[union-attr]
    assert moon["source"] == "impressions.csv" and json.loads(moon["row"])["placement"] == "moon"


_EVENT = {"placement": "feed", "request_id": 1, "brand": "a", "received_at": f"{DAY}T12:00:00Z"}


def test_of_repeated_ids_the_first_by_time_stays_whatever_the_day_asked(
    spark: "SparkSession", log_world: LogWorld
) -> None:
    text = IMPRESSIONS + _shown(1, f"{NEXT}T12:00:00Z") + _shown(1, f"{DAY}T12:00:00Z")
    world = log_world({"impressions.csv": text})
    assert len(_rows(extract(spark, world, [DAY]))) == 1
    assert _rows(extract(spark, world, [NEXT])) == []


def test_a_replaced_file_is_read_again(spark: "SparkSession", log_world: LogWorld) -> None:
    text = IMPRESSIONS + _shown(1, f"{DAY}T12:00:00Z")
    assert len(_rows(extract(spark, log_world({"impressions.csv": text}), [DAY]))) == 1
    assert _rows(extract(spark, log_world({"impressions.csv": IMPRESSIONS}), [DAY])) == []


def test_files_of_one_glob_may_order_their_columns_differently(spark: "SparkSession", log_world: LogWorld) -> None:
    other = "format,device,shown_at,slot,placement,ad,user,request_id,impression_id\n"
    world = log_world(
        {
            "log-1.csv": IMPRESSIONS + _shown(1, f"{DAY}T12:00:00Z"),
            "log-2.csv": other + f"video,phone,{DAY}T12:00:00Z,1,feed,5,1,2,2\n",
        },
        impressions=_mapping("log-*.csv"),
    )
    first, second = _rows(extract(spark, world, [DAY]))
    assert {**second, "impression_id": 1, "request_id": 1} == first


# ---- lists


def _ad(number: int, tags: str, image: str = "") -> str:
    quoted = ['"' + text.replace('"', '""') + '"' for text in (tags, image)]
    return f"{number},{DAY}T12:00:00Z,a,b,,{','.join(quoted)}\n"


def test_lists_of_ids_are_different_values_in_the_order_of_the_log(spark: "SparkSession", log_world: LogWorld) -> None:
    lists = ["new|sale|new", '["5", "0005", 7]', "", " | ", "[]", f"{2**62 + 1}|{2**62 + 2}|", "[null, 3]"]
    world = log_world({"ads.csv": ADS + "".join(_ad(number, text) for number, text in enumerate(lists))})
    extracted = extract(spark, world, [DAY])
    assert _rules(extracted) == []
    found = {row["ad_id"]: row["tags"] for row in _rows(extracted, "ads")}
    assert found == {
        0: [id_of("new"), id_of("sale")],
        1: [5, id_of("0005"), 7],
        2: None,
        3: None,
        4: None,
        5: [2**62 + 1, 2**62 + 2],
        6: [3],
    }


def test_a_list_too_long_keeps_its_first_values_and_is_noted(spark: "SparkSession", log_world: LogWorld) -> None:
    world = log_world(
        {"ads.csv": ADS + _ad(1, "|".join(map(str, range(9)))) + _ad(2, "0|1|2|3|4|5|6|7|7") + _ad(3, "[oops")}
    )
    extracted = extract(spark, world, [DAY])
    assert {row["ad_id"]: row["tags"] for row in _rows(extracted, "ads")} == {1: [*range(8)], 2: [*range(8)]}
    assert _rules(extracted) == [
        ("ads", "tags holds more than 8 values: the first were kept"),
        ("ads", "tags is no list"),
    ]


@pytest.mark.parametrize(
    "image", ["[1, 2, 3]", "[1, 2, 3, NaN]", "[1, 2, 3, null]", "1|2|3|1e39", "1|2|3|Infinity", "x"]
)
def test_a_vector_that_is_not_of_its_width_or_not_finite_is_refused(
    spark: "SparkSession", log_world: LogWorld, image: str
) -> None:
    """Case B15: no such number reaches a table."""
    world = log_world({"ads.csv": ADS + _ad(1, "", image) + _ad(2, "", "[0.1, -2, 3e-3, 4]") + _ad(3, "")})
    extracted = extract(spark, world, [DAY])
    images = {row["ad_id"]: row["image"] for row in _rows(extracted, "ads")}
    assert images == {2: pytest.approx([0.1, -2, 3e-3, 4]), 3: None}
    assert _rules(extracted) == [("ads", "image is no list of 4 finite numbers")]


def test_parquet_lists_are_lists(spark: "SparkSession", log_world: LogWorld, tmp_path: Path) -> None:
    rows = {"ad": [1, 2], "known_from": [f"{DAY}T12:00:00Z"] * 2, "brand": ["a", "b"], "topic": ["a", "b"]}
    lists = {
        "objective": pa.array([None, "sales"]),
        "tags": pa.array([["new", 'a "b", c'], None]),
        "image": pa.array([[0.5, 1.5, float("nan"), 2.0], [0.1, 1.5, 2.5, 3.5]], pa.list_(pa.float32())),
    }
    columns = load_world("tiny").source.options["ads"]["columns"]
    world = log_world({}, ads={"file": "ads.parquet", "columns": columns})
    pq.write_table(pa.table(rows | lists), tmp_path / "ads.parquet")
    extracted = extract(spark, world, [DAY])
    assert [(row["ad_id"], row["image"]) for row in _rows(extracted, "ads")] == [
        (2, pytest.approx([0.1, 1.5, 2.5, 3.5], rel=1e-6))
    ]
    lists["image"] = pa.array([None, None], pa.list_(pa.float32()))
    pq.write_table(pa.table(rows | lists), tmp_path / "ads.parquet")
    found = {row["ad_id"]: row["tags"] for row in _rows(extract(spark, world, [DAY]), "ads")}
    assert found == {1: [id_of("new"), id_of('a "b", c')], 2: None}


def test_the_shipped_log_has_bags_vectors_and_formats_and_lacks_some(tiny: dict) -> None:
    assert {len(row["tags"] or ()) for row in tiny["ads"]} == {0, 1, 2, 3}
    assert {None if row["image"] is None else len(row["image"]) for row in tiny["ads"]} == {None, 4}
    assert {row["format"] for row in tiny["impressions"]} == {None, "carousel", "image", "video"}


# ---- the mapping


def _check(world: World) -> None:
    source(world).check(world)


def test_a_column_that_the_file_lacks_is_named_with_those_it_has(log_world: LogWorld) -> None:
    world = log_world({}, impressions=_mapping("impressions.csv", ad_id="advert"))
    with pytest.raises(WorldError, match=r"impressions.csv has no column 'advert'; it has impression_id, request_id"):
        _check(world)


def test_a_name_that_is_not_canonical_is_refused(log_world: LogWorld) -> None:
    with pytest.raises(
        WorldError, match=r"impressions.columns: 'adid' is no column of impressions; known: impression_id"
    ):
        _check(log_world({}, impressions=_mapping("impressions.csv", adid="ad")))


def test_a_key_that_is_mistyped_is_refused(log_world: LogWorld) -> None:
    with pytest.raises(WorldError, match=r"source.options.impresions: unknown key \(a typo\?\)"):
        _check(log_world({}, impresions=_mapping("impressions.csv")))


def test_what_the_world_declares_must_be_mapped(log_world: LogWorld) -> None:
    mapping = {"file": "ads.csv", "columns": {"ad_id": "ad", "brand": "brand"}}
    with pytest.raises(WorldError, match=r"ads.columns: map 'topic' to a raw column"):
        _check(log_world({}, ads=mapping))
    with pytest.raises(WorldError, match=r"source.options.users is missing"):
        _check(log_world({}, users=None))


def test_a_missing_file_and_an_unknown_suffix_are_named(log_world: LogWorld) -> None:
    with pytest.raises(WorldError, match=r"impressions.file: no file .*nothing.csv"):
        _check(log_world({}, impressions=_mapping("nothing.csv")))
    with pytest.raises(WorldError, match=r"log.xls ends in none of"):
        _check(log_world({"log.xls": "x"}, impressions=_mapping("log.xls")))


def test_floating_point_ids_are_refused(log_world: LogWorld, tmp_path: Path) -> None:
    names = IMPRESSIONS.strip().split(",")
    world = log_world({}, impressions=_mapping("drop.parquet"))
    pq.write_table(pa.table({name: pa.array([1.0, None]) for name in names}), tmp_path / "drop.parquet")
    with pytest.raises(WorldError, match=r"column 'impression_id' of .* is floating point"):
        _check(world)
