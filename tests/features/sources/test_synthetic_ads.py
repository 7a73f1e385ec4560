"""The generated world: the same rows however they are asked for, and a truth that the logged tables explain."""

import ast
import json
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from features.errors import WorldError
from features.home import Home
from features.sources.base import extract, source
from features.sources.canonical import TABLES, columns_of
from features.sources.synthetic_ads.delays import cumulative, within_window
from features.sources.synthetic_ads.parameters import VERSION, VERSIONS, Options, Plants, Setting, parameters_hash
from features.worlds import World, load_world
from tests.features.sources.synthetic_reference import DAY_US, click_probability

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[3]
FIRST, OPEN = "2025-01-01", ["2025-01-02", "2025-01-09", "2025-01-14"]
WINDOW_US = {"view": 60e6, "click": 3600e6, "cart": DAY_US, "purchase": 3 * DAY_US, "offsite": 7 * DAY_US}


def made(**options: Any) -> World:
    """A fortnight of the shipped world with a few thousand rows."""
    world = load_world("synthetic_ads")
    chosen = {"rows": 4_000, **options}
    adapter = world.source.model_copy(update={"options": chosen})
    return world.model_copy(update={"source": adapter, "last_day": "2025-01-14"})


def plain(frame: "DataFrame") -> list[dict[str, Any]]:
    """Rows in an order of their own."""
    return sorted((row.asDict() for row in frame.collect()), key=str)


@pytest.fixture(scope="module")
def log(spark: "SparkSession") -> dict[str, list[dict[str, Any]]]:
    """All tables of all days, stamps as `us`."""
    world = made()
    frames = extract(spark, world, world.days()).tables
    stamp = {"impressions": "request_ts", "outcomes": "event_ts", "events": "event_ts"}
    found = {}
    for table, frame in frames.items():
        column = stamp.get(table, "event_timestamp")
        found[table] = plain(frame.selectExpr("*", f"unix_micros({column}) as us"))
    return found


@pytest.fixture(scope="module")
def true(spark: "SparkSession") -> dict[tuple[int, str], dict[str, Any]]:
    """Truth of all days by (impression, task)."""
    from features.sources.synthetic_ads.truth import truth

    world = made()
    rows = plain(truth(spark, world, world.days()))
    return {(row["impression_id"], row["task"]): row for row in rows}


def test_a_range_gives_what_its_days_give_however_rows_are_split(spark: "SparkSession") -> None:
    world, days = made(), [FIRST, "2025-01-05"]
    together = {table: plain(frame) for table, frame in extract(spark, world, days).tables.items()}
    apart: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
    spark.conf.set("spark.sql.leafNodeDefaultParallelism", "5")
    try:
        for ds in days:
            for table, frame in extract(spark, world, [ds]).tables.items():
                apart[table] += plain(frame)
    finally:
        spark.conf.unset("spark.sql.leafNodeDefaultParallelism")
    for table in TABLES:
        assert together[table] and sorted(apart[table], key=str) == together[table], table


def test_another_seed_gives_another_log(spark: "SparkSession") -> None:
    shown = [plain(extract(spark, made(seed=seed), OPEN[:1]).tables["impressions"]) for seed in (7, 8)]
    assert len(shown[0]) == len(shown[1]) and shown[0] != shown[1]


def test_auctions(log: dict[str, list[dict[str, Any]]]) -> None:
    shown = log["impressions"]
    assert len(shown) == 4_000 and len({row["impression_id"] for row in shown}) == 4_000
    requests = defaultdict(list)
    for row in shown:
        requests[row["request_id"]].append(row)
    assert len(requests) == 1_000
    for rows in requests.values():
        assert sorted(row["position"] for row in rows) == [1, 2, 3, 4]
        assert len({row["ad_id"] for row in rows}) == 4
        assert len({(row["user_id"], row["us"], row["surface"], row["context_page"]) for row in rows}) == 1
    assert {row["surface"] for row in shown} == set(made().surface_names)
    assert all(row["value"] > 0 for row in shown)


def test_new_ids_keep_coming_and_are_described_before_they_are_seen(log: dict[str, list[dict[str, Any]]]) -> None:
    for table, key in (("users", "user_id"), ("ads", "ad_id")):
        known = {row[key]: row["ds"] for row in log[table]}
        assert len(known) == len(log[table])
        assert all(known[row[key]] < row["ds"] for row in log["impressions"])
        assert len({ds for ds in known.values() if ds > FIRST}) > 3
    early = {row["ad_id"] for row in log["impressions"] if row["ds"] <= OPEN[0]}
    assert {row["ad_id"] for row in log["impressions"] if row["ds"] > OPEN[1]} - early
    bags = [row["topics"] for row in log["ads"]]
    assert {len(bag) for bag in bags} == {1, 2, 3} and all(len(set(bag)) == len(bag) for bag in bags)
    assert all(len(row["content"]) == 8 for row in log["ads"])


def test_the_truth_of_a_click_follows_from_what_was_logged_before_the_day(
    log: dict[str, list[dict[str, Any]]], true: dict[tuple[int, str], dict[str, Any]]
) -> None:
    users = {row["user_id"]: row for row in log["users"]}
    ads = {row["ad_id"]: row for row in log["ads"]}
    events = defaultdict(list)
    for row in sorted(log["events"], key=lambda row: row["us"]):
        events[row["user_id"]].append(row)
    first, inside = min(row["us"] for row in log["users"]) // DAY_US, cumulative("click", 3600.0)
    asked = [row for row in log["impressions"] if row["ds"] in OPEN]
    assert len(asked) > 800
    for row in asked:
        mine = events[row["user_id"]]
        wanted = click_probability(7, row | {"first": first}, users[row["user_id"]], ads[row["ad_id"]], mine)
        assert true[(row["impression_id"], "click")]["probability"] == pytest.approx(wanted * inside, rel=1e-9)


def test_a_wish_lies_hundreds_of_events_back(log: dict[str, list[dict[str, Any]]]) -> None:
    counts: dict[int, int] = defaultdict(int)
    last = max(row["us"] for row in log["events"])
    for row in log["events"]:
        counts[row["user_id"]] += row["us"] > last - 37 * DAY_US
    assert np.median([count for user, count in counts.items() if user <= 1_000_050]) > 200


@pytest.mark.parametrize(
    ("plant", "low", "high", "values"),
    [
        ("surfaces", -4.0, 4.0, None),
        ("crosses", -0.4, 0.4, {-0.4, 0.4}),
        ("long", -0.275, 0.825, {-0.275, 0.0, 0.825}),
        ("periodic", -1.125, 1.125, None),
        ("two_way", -0.675, 1.225, {-0.675, 0.0, 0.125, 0.425, 1.225}),
        ("hidden", -0.4, 0.4, {-0.4, 0.4}),
        ("drift", -0.35, 0.35, None),
        ("content", -4.0, 4.0, None),
    ],
)
def test_a_plant_switched_off_takes_its_own_term_away(
    spark: "SparkSession", plant: str, low: float, high: float, values: set[float] | None
) -> None:
    from features.sources.synthetic_ads.probabilities import with_probabilities
    from features.sources.synthetic_ads.requests import auctions

    scored = []
    for plants in ({}, {plant: False}):
        setting = Setting.of(made(plants=plants))
        frame = with_probabilities(setting, auctions(spark, setting, OPEN[1:2]))
        columns = ["impression_id", "click_score", "p_view", "p_cart", "p_purchase", "p_offsite", "p_install"]
        scored.append(frame.select(*columns).orderBy("impression_id").toPandas())
    on, off = scored
    term = (on["click_score"] - off["click_score"]).to_numpy()
    assert term.std() > 0.1 and term.min() >= low - 1e-9 and term.max() <= high + 1e-9
    if values is not None:
        assert set(np.round(term, 9) + 0.0) <= values and len(set(np.round(term, 9))) >= 2
    rest = [name for name in on.columns if name != "click_score"]
    assert on[rest].equals(off[rest])


def test_labels_made_from_the_tables_are_those_that_were_drawn_and_hold_the_truth(
    spark: "SparkSession", true: dict[tuple[int, str], dict[str, Any]]
) -> None:
    from features.labels import Log, labels_of
    from features.sources.synthetic_ads.truth import drawn_labels

    world = made()
    days = world.days()
    frames = extract(spark, world, days).tables
    frames = {table: frames[table].localCheckpoint() for table in ("impressions", "outcomes")}
    labelled = plain(labels_of(Log(world, frames["impressions"], frames["outcomes"]), days))
    made_up = {(row["impression_id"], row["task"]): row["label"] for row in plain(drawn_labels(spark, world, days))}
    assert len(labelled) > 6_000 and {row["task"] for row in labelled} == {task.name for task in world.tasks}
    for row in labelled:
        assert row["label"] == made_up[(row["impression_id"], row["task"])]
    for task in world.tasks:
        pairs = [key for key in made_up if key[1] == task.name]
        p = np.array([true[key]["probability"] for key in pairs])
        label = np.array([made_up[key] for key in pairs])
        for part in np.array_split(np.argsort(p), 10 if len(p) > 1_000 else 2):
            spread = np.sqrt((p[part] * (1 - p[part])).sum())
            assert abs(label[part].sum() - p[part].sum()) <= 4 * spread, task.name


def test_delays_obey_the_funnel_the_windows_and_the_lag(log: dict[str, list[dict[str, Any]]]) -> None:
    shown = {(row["request_id"], row["ad_id"]): row["us"] for row in log["impressions"]}
    came: dict[str, dict[tuple[int, int], int]] = defaultdict(dict)
    for row in log["outcomes"]:
        key = (row["request_id"], row["ad_id"])
        came[row["event_type"]][key] = row["us"] - shown[key]
    for task, before in (("click", "view"), ("cart", "click"), ("purchase", "cart"), ("offsite", "click")):
        assert came[task]
        for key, delay in came[task].items():
            # off-site reports arrive late, so what came before is there
            assert delay >= came[before][key] + 1_000_000
    assert any(delay > WINDOW_US[task] for task in ("cart", "purchase", "offsite") for delay in came[task].values())
    late = [row for row in log["outcomes"] if micros_of_day(row["ds"]) > row["us"]]
    assert late and {row["event_type"] for row in late} == {"offsite"}
    assert all(micros_of_day(row["ds"]) <= row["us"] + DAY_US for row in late)


def micros_of_day(ds: str) -> int:
    """First microsecond of a day."""
    return round(datetime.fromisoformat(ds).replace(tzinfo=UTC).timestamp() * 1e6)


def test_windows_cut_what_their_distributions_say() -> None:
    inside = within_window(made())
    assert inside["cart"] == pytest.approx(1 - np.exp(-3.0))
    assert inside["offsite"] == pytest.approx(0.9382, abs=1e-3)
    rng = np.random.default_rng(0)
    delays = 3 * 3600 * np.exp(1.5 * rng.standard_normal(200_000))
    assert inside["install"] == pytest.approx((delays <= 3 * 86_400).mean(), abs=3e-3)


def test_rates_and_the_funnel(true: dict[tuple[int, str], dict[str, Any]]) -> None:
    by_task = defaultdict(list)
    for (impression, task), row in true.items():
        assert 0 < row["probability"] < 1
        by_task[task].append(row["probability"])
        if task not in ("view", "click"):
            assert row["marginal"] <= true[(impression, "click")]["marginal"]
    assert 0.01 <= np.mean(by_task["click"]) <= 0.05
    installs = {row["surface"] for (_, task), row in true.items() if task == "install"}
    assert installs == {"reels", "apps"}


def test_keep_rates_leave_every_click(spark: "SparkSession", log: dict[str, list[dict[str, Any]]]) -> None:
    world = made()
    thinned = tuple(surface.model_copy(update={"keep_rate": 0.2}) for surface in world.surfaces)
    kept = plain(extract(spark, world.model_copy(update={"surfaces": thinned}), OPEN).tables["impressions"])
    full = [row for row in log["impressions"] if row["ds"] in OPEN]
    clicked = {(row["request_id"], row["ad_id"]) for row in log["outcomes"] if row["event_type"] == "click"}
    assert {(r["request_id"], r["ad_id"]) for r in full} & clicked <= {(r["request_id"], r["ad_id"]) for r in kept}
    assert 0.15 < len(kept) / len(full) < 0.32 and {row["keep_rate"] for row in kept} == {0.2}


def test_the_truth_is_stored_beside_the_tables_and_read_again(spark: "SparkSession", tmp_path: Path) -> None:
    from features.sources.synthetic_ads.truth import stored_truth, truth, truth_folder

    world, home = made(), Home(tmp_path)
    wanted = plain(truth(spark, world, OPEN[:2]))
    assert plain(stored_truth(spark, world, OPEN[:2], home).select(*wanted[0])) == wanted
    folder = truth_folder(home, world)
    files = {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}
    assert plain(stored_truth(spark, world, OPEN[:2], home).select(*wanted[0])) == wanted
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")} == files
    assert not folder.is_relative_to(home.tables) and folder != truth_folder(home, made(seed=8))


def test_nothing_of_the_graph_reads_the_truth() -> None:
    readers = set()
    for package in ("features", "orchestration", "training", "serving", "models", "benchmarks"):
        for path in (ROOT / package).rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
            modules += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
            if any("synthetic_ads.truth" in name or "synthetic_ads.probabilities" in name for name in modules):
                readers.add(path.relative_to(ROOT).parts[0] if package == "benchmarks" else str(path.relative_to(ROOT)))
    own = "features/sources/synthetic_ads/"
    assert readers == {"benchmarks", f"{own}truth.py", f"{own}outcomes.py"}
    for table in TABLES:
        assert not [name for name in columns_of(table, made()) if name.startswith(("p_", "q_")) or "prob" in name]


def test_the_generator_is_the_committed_version() -> None:
    """A changed constant, equation or default is another world: bump VERSION and add its hash to versions.json."""
    versions = json.loads(VERSIONS.read_text(encoding="utf-8"))
    options = Setting.of(load_world("synthetic_ads")).options
    assert versions[str(VERSION)] == parameters_hash(options)
    assert len(set(versions.values())) == len(versions)
    for changed in ({"rows": 2_000}, {"seed": 8}, {"plants": Plants(drift=False)}):
        assert parameters_hash(options.model_copy(update=changed)) != parameters_hash(options)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"timezone": "Europe/Berlin"}, "set timezone: UTC"),
        ({"closed_days": ()}, "list it under closed_days"),
        ({"surfaces": ()}, "surfaces"),
        ({"tasks": ()}, "tasks .* are not in the file"),
    ],
)
def test_a_world_that_does_not_fit_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(WorldError, match=sentence):
        source(made()).check(made().model_copy(update=changes))


def test_options_have_bounds() -> None:
    for options in ({"rows": 10}, {"candidates": 1}, {"plants": {"magic": True}}):
        with pytest.raises(WorldError, match=r"source\.options"):
            source(made()).check(made(**options))
    assert Options().plants == Plants()
