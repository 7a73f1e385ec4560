"""What configuration does to rows: joins, conditions, slates, labels, several files of one table (cases B01, B02)."""

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from features.errors import WorldError
from features.ids import id_of
from features.sources.base import Extracted, extract, source
from tests.features.sources.conftest import IMPRESSIONS, LogWorld

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.assets
DAY = "2024-03-07"
NOON = f"{DAY}T12:00:00Z"
BIG = 2**62 + 1
SHOWN = {
    "impression_id": "impression_id",
    "request_id": "request_id",
    "user_id": "user",
    "ad_id": "ad",
    "surface": "placement",
    "request_ts": "shown_at",
    "context_device": "device",
    "format": "format",
}
CLICKED = {"request_id": "request_id", "user_id": "user", "ad_id": "ad", "event_ts": "shown_at"}


def _rows(extracted: Extracted, table: str, *columns: str) -> list[tuple]:
    return sorted((tuple(row[name] for name in columns) for row in extracted.tables[table].collect()), key=repr)


def _refused(extracted: Extracted) -> list[tuple[str, str, str]]:
    assert extracted.refused is not None
    return sorted((row["table"], row["rule"], row["source"]) for row in extracted.refused.collect())


def _lines(*rows: object) -> str:
    return "".join(f"{row}\n" for row in rows)


def test_a_mark_and_windows_line_ends_reach_no_label(spark: "SparkSession", log_world: LogWorld) -> None:
    """Case B01: the label is the last column of a file with a mark and CRLF, one line of which ends otherwise."""
    head = "impression_id,request_id,user,ad,placement,shown_at,device,format,clicked"
    first = f"1,1,10,100,feed,{NOON},phone,video,1"
    second = f"2,2,11,100,feed,{DAY}T12:05:00Z,phone,video,0"
    mapping = {
        "impressions": {"file": "drop.csv", "columns": SHOWN},
        "outcomes": {"file": "drop.csv", "columns": CLICKED, "labels": {"click": "clicked"}},
    }
    results = []
    for raw in (
        _lines(head, first, second).encode(),
        b"\xef\xbb\xbf" + "\r\n".join([head, first, second, ""]).encode(),
        b"\xef\xbb\xbf" + f'{head}\r\n{first[:-1]}"1"\r\n{second}\n'.encode(),
        f"{head}\n{first}\r\n{second}\n".encode(),
    ):
        extracted = extract(spark, log_world({"drop.csv": raw}, **mapping), [DAY])
        assert _refused(extracted) == []
        shown = _rows(extracted, "impressions", "impression_id", "user_id", "ad_id", "format")
        results.append((shown, _rows(extracted, "outcomes", "request_id", "user_id", "ad_id", "event_type")))
    assert results == [([(1, 10, 100, "video"), (2, 11, 100, "video")], [(1, 10, 100, "click")])] * 4


def test_quotes_delimiters_and_line_breaks_stay_inside_their_value(
    spark: "SparkSession", log_world: LogWorld, tmp_path: Path
) -> None:
    odd = 'say "hi", a\tb\nand on'
    quoted = '"' + odd.replace('"', '""') + '"'
    text = IMPRESSIONS + f'1,1,1,5,feed,1,{NOON},{quoted},video\n2,2,1,5,feed,1,{NOON},phone,"{"x"}\ny"\n'
    columns = SHOWN | {"position": "slot"}
    world = log_world({"impressions.csv": text}, impressions={"file": "impressions.csv", "columns": columns})
    extracted = extract(spark, world, [DAY])
    assert _rows(extracted, "impressions", "impression_id", "context_device", "format") == [
        (1, id_of(odd), "video"),
        (2, id_of("phone"), "x\ny"),
    ]
    pieces = log_world(
        {}, impressions={"file": "log.tsv.gz", "names": list(SHOWN.values()), "columns": SHOWN, "line_breaks": False}
    )
    line = "\t".join(("1", "1", "1", "5", "feed", NOON, "a, b", "c|d"))
    (tmp_path / "log.tsv.gz").write_bytes(gzip.compress(_lines(line, "7\t7").encode()))
    extracted = extract(spark, pieces, [DAY])
    assert _rows(extracted, "impressions", "impression_id", "context_device", "format") == [(1, id_of("a, b"), "c|d")]
    assert _refused(extracted) == [("impressions", "malformed line", "log.tsv.gz")]


def test_a_file_without_header_is_named_by_the_world(spark: "SparkSession", log_world: LogWorld) -> None:
    part = {"file": "log.dat", "format": "csv", "delimiter": ";", "names": [*SHOWN.values()], "columns": SHOWN}
    line = f"1;1;1;5;feed;{NOON};phone;video"
    extracted = extract(spark, log_world({"log.dat": _lines(line)}, impressions=part), [DAY])
    assert _rows(extracted, "impressions", "impression_id", "format") == [(1, "video")]
    with pytest.raises(WorldError, match=r"impressions.names: 8 names, but .*log.dat has 9 columns"):
        source(world := log_world({"log.dat": _lines(line + ";x")}, impressions=part)).check(world)


def test_files_are_joined_by_key_and_a_repeated_key_is_refused(
    spark: "SparkSession", log_world: LogWorld, tmp_path: Path
) -> None:
    """Case B02: big ids meet across formats; a row without a partner keeps blanks and neighbours keep their ids."""
    requests = {
        "id": pa.array([BIG, BIG + 1, 3, 3]),
        "who": pa.array([BIG + 2, None, 7, 8]),
        "when": pa.array([NOON, NOON, NOON, f"{DAY}T13:00:00Z"]),
        "hw": pa.array(["phone"] * 4),
    }
    pq.write_table(pa.table(requests), tmp_path / "requests.parquet")
    join = [
        {"file": "requests.parquet", "by": {"req": "id"}, "columns": {"user": "who", "at": "when", "device": "hw"}},
        {"file": "kinds.jsonl", "by": {"ad": "ad"}, "columns": {"kind": "format"}},
    ]
    columns = {"request_id": "req", "user_id": "user", "ad_id": "ad", "surface": "where", "request_ts": "at"}
    columns |= {"context_device": "device", "format": "kind"}
    world = log_world(
        {
            "shown.csv": _lines("req,ad,where", f"{BIG},5,feed", f"{BIG + 1},5,feed", "3,6,feed", "9,6,story"),
            "kinds.jsonl": _lines(json.dumps({"ad": 5, "format": "video"}), '{"ad": '),
        },
        impressions={"file": "shown.csv", "join": join, "columns": columns},
    )
    extracted = extract(spark, world, [DAY])
    assert _rows(extracted, "impressions", "request_id", "user_id", "ad_id", "format") == sorted(
        [(BIG, BIG + 2, 5, "video"), (BIG + 1, None, 5, "video"), (3, 7, 6, None)], key=repr
    )
    assert _refused(extracted) == [
        ("impressions", "malformed line", "kinds.jsonl"),
        ("impressions", "no request_ts", "shown.csv"),
        ("impressions", "repeated id in a joined file", "requests.parquet"),
    ]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_slate_becomes_impressions_with_positions_and_labels(
    spark: "SparkSession", log_world: LogWorld, tmp_path: Path, kind: str
) -> None:
    """Case B02: ids inside lists stay exact. A slate whose lists differ, and one that shows nothing, are refused."""
    slates = [
        {"r": 1, "u": BIG, "ads": [BIG, BIG + 1, 7], "kinds": ["a", "b", "c"], "hit": [BIG + 1]},
        {"r": 2, "u": None, "ads": [5], "kinds": ["a"], "hit": []},
        {"r": 3, "u": 9, "ads": [5, 6], "kinds": ["a"], "hit": [5]},
        {"r": 4, "u": 9, "ads": [], "kinds": [], "hit": []},
        {"r": 5, "u": 9, "ads": [8, 9], "kinds": ["a", "b"], "hit": [9, 8]},
    ]
    rows: list[dict[str, Any]] = [row | {"at": NOON, "on": "feed", "hw": "phone"} for row in slates]
    part = {"file": f"log.{kind}", "slate": ["ads", "kinds"]}
    own = {"request_id": "r", "user_id": "u", "ad_id": "ads"}
    mapping = {
        "impressions": part
        | {"columns": own | {"surface": "on", "request_ts": "at", "context_device": "hw", "format": "kinds"}},
        "outcomes": part
        | {"columns": own | {"event_ts": "at"}, "labels": {"click": {"column": "hit", "holds": "ads"}}},
    }
    texts = [[_joined(value) for value in row.values()] for row in rows]
    text = {
        "csv": _lines(",".join(rows[0]), *(",".join(values) for values in texts)),
        "jsonl": _lines(*(json.dumps(row) for row in rows)),
        "parquet": "",
    }[kind]
    world = log_world({f"log.{kind}": text}, **mapping)
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet")
    extracted = extract(spark, world, [DAY])
    assert _rows(extracted, "impressions", "request_id", "user_id", "ad_id", "position", "format") == sorted(
        [
            (1, BIG, BIG, 1, "a"),
            (1, BIG, BIG + 1, 2, "b"),
            (1, BIG, 7, 3, "c"),
            (2, None, 5, 1, "a"),
            (5, 9, 8, 1, "a"),
            (5, 9, 9, 2, "b"),
        ],
        key=repr,
    )
    clicked = [(1, BIG + 1, "click"), (5, 8, "click"), (5, 9, "click")]
    assert _rows(extracted, "outcomes", "request_id", "ad_id", "event_type") == clicked
    rule = "ads and kinds are no lists of one length"
    assert _refused(extracted) == [(table, rule, f"log.{kind}") for table in ("impressions",) * 2 + ("outcomes",) * 2]


def _joined(value: object) -> str:
    return "|".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)


def test_labels_are_columns_numbers_lists_or_times(spark: "SparkSession", log_world: LogWorld) -> None:
    labels = {"click": {"column": "seconds", "at_least": 1.5}, "buy": {"at": "bought_at"}}
    text = _lines(
        "request_id,user,ad,shown_at,seconds,bought_at,price",
        f"1,1,5,{NOON},2,{DAY}T14:00:00Z,3.5", f"2,1,5,{NOON},1.4,,", f"3,1,5,{NOON},,soon,", f"4,1,5,{NOON},many,,",
        f"5,1,,{NOON},0,,", f"6,1,,{NOON},9,,",
    )  # fmt: skip
    outcomes = {"file": "log.csv", "columns": CLICKED | {"value": "price"}, "labels": labels}
    flagged = {"file": "flags.csv", "columns": CLICKED, "labels": {"click": "yes", "buy": "sold"}}
    flags = _lines("request_id,user,ad,shown_at,yes,sold", f"7,1,5,{NOON},True,yes", f"8,1,5,{NOON},0,maybe")
    world = log_world({"log.csv": text, "flags.csv": flags}, outcomes=[outcomes, flagged])
    extracted = extract(spark, world, [DAY])
    found = [(row[0], row[1], str(row[2])[11:16], row[3]) for row in _rows(extracted, "outcomes", "request_id",
             "event_type", "event_ts", "value")]  # fmt: skip
    assert found == [
        (1, "buy", "14:00", 3.5), (1, "click", "12:00", 3.5), (7, "buy", "12:00", None), (7, "click", "12:00", None),
    ]  # fmt: skip
    assert _refused(extracted) == [
        ("outcomes", "event_ts is no time", "log.csv"), ("outcomes", "no ad_id", "log.csv"),
        ("outcomes", "seconds is no number", "log.csv"), ("outcomes", "sold is no yes or no", "flags.csv"),
    ]  # fmt: skip


def test_one_file_holds_what_precedes_and_what_follows(spark: "SparkSession", log_world: LogWorld) -> None:
    """A stream of rows of all kinds: impressions are one kind, all others are behaviour, and outcomes too."""
    stream = [
        ("1", BIG, 5, "BUY", f"{DAY}T09:00:00Z"), ("2", BIG, 5, "show", NOON), ("3", BIG, 5, "Tap", f"{DAY}T12:01:00Z"),
        ("4", BIG, 6, "scroll", f"{DAY}T12:02:00Z"),
    ]  # fmt: skip
    text = _lines("row,who,what,kind,at", *(",".join(map(str, row)) for row in stream))
    own = {"user_id": "who", "ad_id": "what"}
    acts = {
        "file": "stream.csv",
        "where": {"kind": ["BUY", "Tap"]},
        "recode": {"event_type": {"BUY": "buy", "Tap": "click"}},
    }
    acted = own | {"event_type": "kind", "event_ts": "at"}
    world = log_world(
        {"stream.csv": text},
        impressions={
            "file": "stream.csv",
            "where": {"kind": "show"},
            "constants": {"place": "feed", "hw": "tv", "shape": "video"},
            "columns": own | {"request_ts": "at", "surface": "place", "context_device": "hw", "format": "shape"},
        },
        outcomes=acts | {"columns": acted | {"request_id": "row"}},
        events=acts | {"constants": {"brand": "none"}, "columns": acted | {"brand": "brand"}},
    )
    extracted = extract(spark, world, [DAY])
    assert _refused(extracted) == []
    assert _rows(extracted, "impressions", "user_id", "ad_id", "surface", "format") == [(BIG, 5, "feed", "video")]
    for table in ("outcomes", "events"):
        found = _rows(extracted, table, "user_id", "ad_id", "event_type")
        assert found == [(BIG, 5, "buy"), (BIG, 5, "click")], table


def test_columns_come_and_go_with_the_days(spark: "SparkSession", log_world: LogWorld, tmp_path: Path) -> None:
    """A column new on some day changes nothing, one missing is blank there, a changed type is the same text."""
    whole = {"impression_id": [1], "request_id": [1], "user": [BIG], "ad": [5], "placement": ["feed"]}
    whole |= {"shown_at": [NOON], "device": [3], "format": ["video"]}
    pq.write_table(pa.table(whole), tmp_path / "log-1.parquet")
    less = {name: values for name, values in whole.items() if name not in ("user", "device")}
    pq.write_table(pa.table(less | {"impression_id": [2], "extra": [0.5]}), tmp_path / "log-2.parquet")
    pq.write_table(pa.table(whole | {"impression_id": ["3"], "device": ["3"]}), tmp_path / "log-3.parquet")
    world = log_world({}, impressions={"file": "log-*.parquet", "columns": SHOWN})
    rows = _rows(extract(spark, world, [DAY]), "impressions", "impression_id", "user_id", "context_device")
    assert rows == [(1, BIG, 3), (2, None, None), (3, BIG, 3)]
    pq.write_table(pa.table({"impression_id": [4], "shown_at": [NOON]}), tmp_path / "log-4.parquet")
    with pytest.raises(WorldError, match=r"columns.ad_id: .*log-4.parquet has no column 'ad'; it has impression_id, s"):
        source(world).check(world)


def test_several_columns_are_one_id_or_one_time(spark: "SparkSession", log_world: LogWorld) -> None:
    columns = {
        "request_id": ["shop", "no"],
        "ad_id": ["shop", "item"],
        "surface": "place",
        "request_ts": ["day", "clock"],
    }
    columns |= {"context_device": "hw", "format": "hw", "user_id": "who"}
    shared = {
        "columns": columns,
        "recode": {"surface": {1: "feed", 2: "story"}},
        "times": {"request_ts": "d/M/yy HH:mm"},
    }
    head = "no,item,place,day,clock,hw,who"
    world = log_world(
        {
            "a.csv": _lines(head, "1,5,1,7/3/24,12:00,tv,1", "2,,2,7/3/24,12:00,tv,2"),
            "b.csv": _lines(head, "1,5,2,07/03/24,13:00,tv,"),
        },
        impressions=[{"file": f"{shop}.csv", "constants": {"shop": shop}, **shared} for shop in ("a", "b")],
    )  # fmt: skip
    extracted = extract(spark, world, [DAY])
    found = _rows(extracted, "impressions", "request_id", "ad_id", "surface", "user_id")
    assert found == sorted(
        [(id_of("a/1"), id_of("a/5"), "feed", 1), (id_of("b/1"), id_of("b/5"), "story", None)], key=repr
    )
    assert _refused(extracted) == [("impressions", "no ad_id", "a.csv")]


@pytest.mark.parametrize(
    ("table", "change", "sentence"),
    [
        ("impressions", {"labels": {"click": "x"}}, "impressions.labels: only outcomes and events have labels"),
        ("outcomes", {"labels": {"klick": "x"}}, r"outcomes.labels: 'klick' is not in event_types \(click, buy\)"),
        ("outcomes", {"labels": {"click": {"column": "x", "at_least": 1, "holds": "y"}}},
         "`at_least` or `holds`, not both"),
        ("impressions", {"times": {"request_ts": "dd/mm/yy"}}, r"no M \(months are MM; mm are minutes\)"),
        ("impressions", {"times": {"ad_id": "s"}}, "impressions.times: 'ad_id' holds no times"),
        ("impressions", {"recode": {"colour": {1: "red"}}}, "impressions.recode: 'colour' is no key of `columns`"),
        ("impressions", {"slate": ["shown"]}, "impressions.slate: .*impressions.csv has no column 'shown'"),
        ("impressions", {"join": [{"file": "users.csv", "by": {"user": "uid"}, "columns": {"c": "country"}}]},
         r"impressions.join.0.by: .*users.csv has no column 'uid'; it has user, known_from"),
        ("impressions", {"file": "nothing.csv"}, "impressions.file: no file"),
    ],
)  # fmt: skip
def test_a_mapping_that_does_not_fit_is_one_sentence(
    log_world: LogWorld, table: str, change: dict[str, object], sentence: str
) -> None:
    own = {
        "impressions": SHOWN,
        "outcomes": {"request_id": "request_id", "user_id": "user", "ad_id": "ad", "event_ts": "at"},
    }
    world = log_world({}, **{table: {"file": f"{table}.csv", "columns": own[table]} | change})
    with pytest.raises(WorldError, match=sentence) as caught:
        source(world).check(world)
    assert "\n" not in str(caught.value)
