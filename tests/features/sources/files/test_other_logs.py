"""Public logs by configuration alone: Open Bandit (several surfaces, no users) and MovieLens 100K (typed headers).

The rows here are made up in the layout of the published files; the whole Open Bandit sample is read where it is
installed (`docs/open_bandit.md`), and shows in the test's name that it was left out where it is not.
"""

import gzip
import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from features.ids import id_of
from features.labels import Log, labels_of
from features.sources.base import Extracted, extract
from features.worlds import World
from features.worlds.load import SHIPPED, read_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.assets
EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "open_bandit.yaml"
CAMPAIGNS = ("all", "men", "women")
HEAD = ",timestamp,item_id,position,click,propensity_score,user_feature_0,user_feature_1,user_feature_2,user_feature_3"
ITEM_HEAD = ",item_id,item_feature_0,item_feature_1,item_feature_2,item_feature_3"


def _rows(extracted: Extracted, table: str, *columns: str) -> list[tuple]:
    return sorted((tuple(row[name] for name in columns) for row in extracted.tables[table].collect()), key=repr)


def _labels(world: World, extracted: Extracted, days: list[str]) -> list[float]:
    log = Log(world, extracted.tables["impressions"], extracted.tables["outcomes"])
    return sorted(row["label"] for row in labels_of(log, days).collect())


def _made_up(folder: Path) -> None:
    for policy in ("random", "bts"):
        for campaign in CAMPAIGNS:
            own = folder / policy / campaign
            own.mkdir(parents=True)
            rows = [
                f"{at},2019-11-2{4 + at} 00:00:3{at}.762830+00:00,{at},{at + 1},{int(at == 1)},0.0125,aa,bb,cc,dd,0.0"
                for at in range(3)
            ]
            (own / f"{campaign}.csv").write_text("\n".join([f"{HEAD},user-item_affinity_0", *rows]) + "\n")
            items = [f"{at},{at},-0.5,ee,ff,gg" for at in range(3)]
            (own / "item_context.csv").write_text("\n".join([ITEM_HEAD, *items]) + "\n")


def test_open_bandit_has_surfaces_and_items_by_campaign_and_no_users(spark: "SparkSession", tmp_path: Path) -> None:
    _made_up(tmp_path)
    shutil.copy(EXAMPLE, tmp_path)
    world = read_world(tmp_path / EXAMPLE.name)
    extracted = extract(spark, world, world.days())
    assert extracted.refused is not None and extracted.refused.count() == 0
    shown = _rows(extracted, "impressions", "ds", "surface", "position", "ad_id", "user_id")
    assert len(shown) == 18
    assert {row[:3] for row in shown} == {
        ("2019-11-24", "left", 1),
        ("2019-11-25", "center", 2),
        ("2019-11-26", "right", 3),
    }
    assert {row[3] for row in shown} == {id_of(f"{campaign}/{item}") for campaign in CAMPAIGNS for item in range(3)}
    assert {row[4] for row in shown} == {None}
    assert len(_rows(extracted, "ads", "ad_id")) == 9
    assert {row[0] for row in _rows(extracted, "events", "user_id")} == {id_of("nobody")}
    # six clicks, and every impression due on its own day: the click is part of the row
    assert _labels(world, extracted, world.days()) == [0.0] * 12 + [1.0] * 6


@pytest.mark.skipif(find_spec("obp") is None, reason="the package obp is not installed")
def test_the_published_sample_of_open_bandit(spark: "SparkSession", tmp_path: Path) -> None:
    (place,) = find_spec("obp").submodule_search_locations  # type: ignore[union-attr,misc]
    raw = yaml.safe_load(EXAMPLE.read_text())
    raw["source"]["options"]["path"] = str(Path(place) / "dataset" / "obd")
    (tmp_path / "world.yaml").write_text(yaml.safe_dump(raw))
    world = read_world(tmp_path / "world.yaml")
    extracted = extract(spark, world, world.days())
    assert extracted.refused is not None and extracted.refused.count() == 0
    assert extracted.tables["impressions"].count() == 60_000
    assert extracted.tables["outcomes"].count() == 287
    assert extracted.tables["impressions"].select("ad_id").distinct().count() == 80 + 34 + 46


def _movielens(folder: Path) -> dict[str, Any]:
    """A world of the tiny one's size over the layout of ml-100k, and a handful of rows."""
    tables = {
        "ml.inter": ["user_id:token\titem_id:token\trating:float\ttimestamp:float", "196\t242\t3\t881250949",
                     "186\t302\t4\t881250950", "22\t377\t5\t881337349", "22\t51\tx\t881337349"],
        "ml.user": ["user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token",
                    "196\t49\tM\twriter\t55105"],
        "ml.item": ["item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq",
                    '242\tSome "Quoted Film\t1997\tComedy', "302\tOther, The\t1997\tCrime Film-Noir Mystery Thriller"],
    }  # fmt: skip
    for name, lines in tables.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    own = {"user_id": "user_id:token", "ad_id": "item_id:token"}
    at = "timestamp:float"
    liked = {"labels": {"liked": {"column": "rating:float", "at_least": 4}}}
    rated = {"file": "ml.inter", "format": "tsv", "quote": ""}
    listed = {"format": "tsv", "quote": "", "separator": " "}
    options = {
        "path": str(folder),
        "times": "s",
        "impressions": rated | {"columns": own | {"request_ts": at}},
        "outcomes": rated | liked | {"columns": own | {"event_ts": at}},
        "events": rated | liked | {"columns": own | {"event_ts": at}},
        "users": {"file": "ml.user", "format": "tsv", "columns": {"user_id": own["user_id"], "age": "age:token"}},
        "ads": listed | {"file": "ml.item", "columns": {"ad_id": own["ad_id"], "genres": "class:token_seq"}},
    }
    raw = yaml.safe_load((SHIPPED / "tiny.yaml").read_text())
    names = ("user_id", "ad_id", "surface", "hour", "weekday")
    kept = [feature for feature in raw["categorical"] if feature["name"] in names]
    raw |= {"name": "movielens", "timezone": "UTC", "first_day": "1997-12-04", "last_day": "1997-12-06"}
    raw |= {"closed_days": [], "context": [], "embeddings": [], "verticals": [], "demo": None}
    raw |= {"surfaces": [{"name": "site"}], "event_types": ["liked"], "users": {"attributes": ["age"]}}
    raw |= {"ads": {"attributes": ["genres"]}, "source": {"adapter": "files", "options": options}}
    raw["tasks"] = [{"name": "liked", "event": "liked", "match": ["user_id", "ad_id"], "window": "PT0S",
                     "from_request": True, "primary": True}]  # fmt: skip
    raw["history"] = {"fields": [{"name": "ad_id", "table": "ad", "candidate": "ad_id"}]}
    raw["categorical"] = [
        *kept,
        {"name": "genres", "table": "tag", "multi": True},
        {"name": "age", "table": "age_band"},
    ]
    return raw


def test_movielens_has_typed_headers_seconds_and_likes(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "world.yaml").write_text(yaml.safe_dump(_movielens(tmp_path)))
    world = read_world(tmp_path / "world.yaml")
    extracted = extract(spark, world, world.days())
    shown = _rows(extracted, "impressions", "ds", "user_id", "ad_id", "surface")
    assert shown == [
        ("1997-12-04", 186, 302, "site"),
        ("1997-12-04", 196, 242, "site"),
        ("1997-12-05", 22, 377, "site"),
        ("1997-12-05", 22, 51, "site"),
    ]
    assert _rows(extracted, "outcomes", "user_id", "ad_id", "event_type") == [(186, 302, "liked"), (22, 377, "liked")]
    genres = [id_of(name) for name in ("Crime", "Film-Noir", "Mystery", "Thriller")]
    assert _rows(extracted, "ads", "ad_id", "genres") == [(242, [id_of("Comedy")]), (302, genres)]
    assert extracted.refused is not None
    assert {row["rule"] for row in extracted.refused.collect()} == {"rating:float is no number"}
    assert _labels(world, extracted, world.days()) == [0.0, 0.0, 1.0, 1.0]


def test_the_example_of_the_docs_reads_the_log_that_it_describes(spark: "SparkSession", tmp_path: Path) -> None:
    """The commented mapping in docs/worlds.md, over the files that its comments speak of."""
    page = (EXAMPLE.parents[1] / "worlds.md").read_text()
    options = yaml.safe_load(page.split("```yaml\nsource:")[1].split("```")[0])["options"]
    logs = tmp_path / "logs"
    logs.mkdir()
    row = {"shop": "x", "request": 1, "user": 7, "shown": [5, 6], "prices": [1.5, 2.5], "page": 2, "device": "d1"}
    lines = json.dumps(row | {"asked_at": 1709814600123, "clicked": [6]}) + "\n"
    (logs / "requests-1.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (logs / "devices.tsv").write_text("d1\tphone\n")
    stream = ("x/1,7,6,BUY,07/03/24", "x/1,7,6,LOOK,07/03/24", "x/1,7,5,CART,06/03/24")
    (logs / "shop.csv").write_text("\n".join(["ref,who,what,kind,day", *stream]) + "\n")
    raw = _movielens(tmp_path) | {"timezone": "America/New_York", "first_day": "2024-03-06", "last_day": "2024-03-07"}
    raw |= {"surfaces": [{"name": "feed"}, {"name": "search"}], "event_types": ["click", "buy", "cart"], "users": {}}
    raw |= {"ads": {}, "context": ["device"], "source": {"adapter": "files", "options": options}}
    raw["tasks"] = [raw["tasks"][0] | {"name": "click", "event": "click", "match": ["request_id", "ad_id"]}]
    raw["categorical"] = [feature for feature in raw["categorical"] if feature["name"] not in ("genres", "age")]
    (tmp_path / "world.yaml").write_text(yaml.safe_dump(raw))
    world = read_world(tmp_path / "world.yaml")
    extracted = extract(spark, world, world.days())
    assert extracted.refused is not None and extracted.refused.count() == 0
    request, phone = id_of("x/1"), id_of("phone")
    shown = _rows(extracted, "impressions", "request_id", "ad_id", "surface", "position", "value", "context_device")
    assert shown == [(request, 5, "search", 1, 1.5, phone), (request, 6, "search", 2, 2.5, phone)]
    acts = [(6, "buy", "2024-03-07"), (5, "cart", "2024-03-06")]
    assert _rows(extracted, "outcomes", "ad_id", "event_type", "ds") == sorted(
        [(6, "click", "2024-03-07"), *acts], key=repr
    )
    assert _rows(extracted, "events", "ad_id", "event_type", "ds") == sorted(acts, key=repr)
    assert _labels(world, extracted, world.days()) == [0.0, 1.0]
