"""World files: the shipped ones load, and every fault of a written one is one sentence that names the field."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from features.errors import WorldError
from features.schema_of import schema_of
from features.worlds import load_world, world_names
from features.worlds.load import SHIPPED, add_world, read_world
from training.lines import gem_line, vertical_line

VERTICAL = {"name": "v", "surfaces": ["feed"], "tasks": ["click"]}


def written(folder: Path, **changes: Any) -> Path:
    raw = yaml.safe_load((SHIPPED / "tiny.yaml").read_text())
    raw.update(changes)
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(raw))
    return path


@pytest.mark.parametrize("name", ["complete_journey", "synthetic_ads", "tiny"])
def test_shipped_worlds_load(name: str) -> None:
    world = load_world(name)
    assert world.name == name
    assert world.primary_tasks
    assert world.days()[0] == world.first_day


def test_ttl_outlasts_a_long_day() -> None:
    for name in ("complete_journey", "synthetic_ads", "tiny"):
        world = load_world(name)
        assert world.stats_ttl.total_seconds() >= 25 * 3600 + world.statistics.lag.total_seconds()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"timezon": "UTC"}, "timezon: unknown key"),
        ({"timezone": "Middle/Earth"}, "timezone: 'Middle/Earth' is no IANA time zone"),
        ({"first_day": "07.03.2024"}, "first_day"),
        ({"tables": {"user": 4}}, "embedding table 'ad' is not in `tables`"),
        ({"context": []}, r"categorical: unknown columns \['context_device'\]"),
        ({"last_day": None}, "a replay world needs last_day"),
        ({"event_types": ["buy"]}, "task click: event 'click' is not in event_types"),
        ({"verticals": [{"name": "v", "surfaces": ["moon"], "tasks": ["click"]}]}, "vertical v: unknown surface"),
        ({"context_text": ["devise"]}, r"context_text: \['devise'\] not in `context`"),
        ({"verticals": [{**VERTICAL, "exclude": ["colour"]}]}, r"vertical v: exclude \['colour'\] are no categorical"),
        ({"verticals": [{**VERTICAL, "exclude": ["brand"]}]}, r"exclude \['brand'\] are candidates of history fields"),
        ({"users": {"attributes": ["country", "age_band", "tags"]}}, r"attributes \['tags'\] belong to users and ads"),
        ({"embeddings": [{"name": "look", "width": 3}]}, r"embeddings: \['look'\] must be attributes of users or ads"),
        ({"embeddings": [{"name": "brand", "width": 3}]}, r"embeddings: \['brand'\] are categorical features too"),
        ({"embeddings": [{"name": "brand", "width": 0}]}, "embeddings.0.width"),
    ],
)
def test_a_fault_is_one_sentence(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(WorldError, match=sentence) as caught:
        read_world(written(tmp_path, **changes))
    assert str(tmp_path / "mine.yaml") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("hour", r"categorical: multi-valued \['hour'\] must be attributes"),
        ("brand", "history field brand: candidate 'brand' is multi-valued"),
    ],
)
def test_only_attributes_that_no_history_is_matched_with_are_multi_valued(
    tmp_path: Path, name: str, sentence: str
) -> None:
    features = yaml.safe_load((SHIPPED / "tiny.yaml").read_text())["categorical"]
    many = [feature | {"multi": True} if feature["name"] == name else feature for feature in features]
    with pytest.raises(WorldError, match=sentence):
        read_world(written(tmp_path, categorical=many))


def test_format_is_asked_of_a_request_unless_it_is_an_attribute(tmp_path: Path) -> None:
    raw = yaml.safe_load((SHIPPED / "tiny.yaml").read_text())
    features = [feature for feature in raw["categorical"] if feature["name"] not in ("objective", "format")]
    features.append({"name": "format", "table": "topic"})
    ads = {"attributes": [name for name in raw["ads"]["attributes"] if name not in ("objective", "format")]}
    assert read_world(written(tmp_path, categorical=features, ads=ads)).impression_texts == ("format",)
    with pytest.raises(WorldError, match=r"context: \['format'\] are features of their own"):
        read_world(written(tmp_path, categorical=features, ads=ads, context=["device", "format"]))
    ads["attributes"].append("format")
    assert read_world(written(tmp_path, categorical=features, ads=ads)).impression_texts == ()


def tasks_of_tiny(**of_buy: Any) -> list[dict[str, Any]]:
    click, buy = yaml.safe_load((SHIPPED / "tiny.yaml").read_text())["tasks"]
    return [click, buy | of_buy]


def test_shorter_windows_are_heads_of_their_own(tmp_path: Path) -> None:
    world = read_world(written(tmp_path, tasks=tasks_of_tiny(shorter=["PT90S", "PT45M", "PT2H"])))
    names = ["click", "buy", "buy_within_90s", "buy_within_45m", "buy_within_2h"]
    assert [head.name for head in world.heads] == names
    assert schema_of(world).task_names == tuple(names)
    heads = {head.name: head for head in world.heads}
    assert heads["buy_within_2h"].window == timedelta(hours=2)
    assert heads["buy_within_2h"].parent == "click" and heads["buy_within_2h"].credit == "last"
    # the longest decides, whatever the name of a vertical's task
    assert [head.name for head in world.heads if head.primary] == ["click"]
    assert world.served("buy_within_2h") == world.served("buy") == world.tasks[1]
    assert gem_line(world).tasks == tuple(names) and gem_line(world).judged == ("click",)
    assert vertical_line(world, "story_click").tasks == ("click", "buy")


@pytest.mark.parametrize(
    ("tasks", "sentence"),
    [
        (tasks_of_tiny(shorter=["PT2H", "PT1H"]), "task buy: list `shorter` windows from the shortest on"),
        (tasks_of_tiny(shorter=["PT12H"]), "task buy: list `shorter` windows from the shortest on"),
        (tasks_of_tiny(shorter=["PT0S"]), "task buy: list `shorter` windows from the shortest on"),
        (tasks_of_tiny(shorter=["PT0.5S"]), "task buy: `shorter` windows are whole seconds"),
        (tasks_of_tiny(shorter=["PT1H"], window=None, window_column="window_end"), "task buy: `shorter` windows need"),
        (tasks_of_tiny(shorter=["PT1H"], name="click"), r"tasks: \['click'\] named more than once"),
        (
            [*tasks_of_tiny(shorter=["PT1H"]), tasks_of_tiny(name="buy_within_1h")[1]],
            r"tasks: \['buy_within_1h'\] named more than once, shorter windows included",
        ),
        (tasks_of_tiny(parent="buy"), r"task buy: its parents form a ring \(buy -> buy\)"),
    ],
)
def test_a_fault_of_a_task_is_one_sentence(tmp_path: Path, tasks: list[dict[str, Any]], sentence: str) -> None:
    with pytest.raises(WorldError, match=sentence):
        read_world(written(tmp_path, tasks=tasks))


def test_what_decides_about_sampling_cannot_be_asked_before_it_is_known(tmp_path: Path) -> None:
    click, buy = tasks_of_tiny()
    early = [click | {"shorter": ["PT5M"]}, buy]
    with pytest.raises(WorldError, match=r"task click: it decides which rows of \['feed'\] are kept"):
        read_world(written(tmp_path, tasks=early))
    assert read_world(written(tmp_path, tasks=[early[0] | {"surfaces": ["story"]}, buy])).heads[1].name == (
        "click_within_5m"
    )


def test_a_vertical_predicts_every_factor_of_what_it_serves(tmp_path: Path) -> None:
    alone = [{"name": "v", "surfaces": ["feed", "story"], "tasks": ["buy"]}]
    with pytest.raises(WorldError, match=r"vertical v: task buy follows \['click'\]; list that task, too"):
        read_world(written(tmp_path, verticals=alone))
    click, buy = tasks_of_tiny()
    # where there is no click, a purchase is direct
    direct = [click | {"surfaces": ["feed"]}, buy | {"surfaces": ["story"]}]
    world = read_world(written(tmp_path, verticals=alone, tasks=direct))
    assert world.parent_on("buy", "story") is None and world.parent_on("buy", "feed") == "click"


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="No such file"):
        read_world(tmp_path / "absent.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [1\nb")
    with pytest.raises(WorldError, match="is not valid YAML"):
        read_world(broken)
    with pytest.raises(WorldError, match="no world 'atlantis'; known: complete_journey, synthetic_ads, tiny"):
        load_world("atlantis")


def test_an_added_world_finds_its_log_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMLINE_HOME", str(tmp_path / "home"))
    raw = yaml.safe_load((SHIPPED / "tiny.yaml").read_text())
    raw["name"] = "mine"
    raw["source"]["options"]["path"] = "logs"
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(raw))
    add_world(path)
    assert "mine" in world_names()
    assert load_world("mine").source.options["path"] == str(tmp_path / "logs")


def test_a_shipped_name_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMLINE_HOME", str(tmp_path / "home"))
    with pytest.raises(WorldError, match="belongs to a shipped world"):
        add_world(written(tmp_path))
