"""Options of the world, the constants of its equations, and one hash over both and the code that uses them.

`VERSIONS` (versions.json) holds the hash of every version that was used; a test fails when the generator changes and
the version does not, so no figure is ever compared with one of another world under the same name.
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path

from pydantic import Field

from features.days import day_range
from features.errors import WorldError
from features.sources.base import parse_options
from features.worlds.schema import Strict, World

VERSION = 1
HERE = Path(__file__).parent
VERSIONS = HERE / "versions.json"
GENERATOR = ("ads", "behaviour", "draws", "outcomes", "parameters", "people", "probabilities", "requests")
"""Modules of which a changed byte makes another world."""

SURFACES = ("feed", "stories", "reels", "search", "apps")
SURFACE_SHARES = (0.40, 0.26, 0.20, 0.10, 0.04)
FORMATS = ("image", "video", "carousel", "collection")
OBJECTIVES = ("awareness", "traffic", "sales", "app")
DEVICES = ("phone", "tablet", "desktop")
DEVICE_SHARES = (0.6, 0.15, 0.25)
MEASUREMENTS = ("pixel", "server", "modelled")
MEASUREMENT_SHARES = (0.5, 0.3, 0.2)
REPORTED = (1.0, 0.85, 0.5)
"""Share of off-site conversions that each measurement signal reports."""
PAGES, AGES, INCOMES, COUNTRIES, TOPICS, PRICES = 24, 4, 3, 6, 12, 5
CATEGORIES, AISLE = 12, 3
"""Categories, and how many make an aisle."""
AISLES = CATEGORIES // AISLE
BRANDS_A_CATEGORY, ITEMS_A_CATEGORY = 8, 64
RANK, WIDTH = 4, 8
"""Hidden factors of a preference; numbers of a content embedding."""

HISTORY_DAYS = 60
TYPES = ("browse", "look_up", "save", "compare")
SPELLS = (4, 6, 8, 10)
"""Days for which a user's interest of each type stays."""
REGIME_DAYS, PLACES = 9, 3
ERA_DAYS, WISH_DAYS, WISH_LAG = 20, 4, 2
"""A wish is uttered in the first days of an era and acts two eras later."""
PERIODS = (11, 17)
"""Shortest and longest cycle of restocking, days."""
NOISE = 6
"""Most organic events of a day that mean nothing but taste."""

USERS_PER_ROW, FEWEST_USERS, JOINING = 1 / 200, 50, 10
"""One user in `JOINING` joins during the log."""
ADS_PER_ROW, FEWEST_ADS = 1 / 500, 64
AD_LIVES = (10, 40)

DAY_S = 86_400.0
HORIZON_DAYS = 10
"""No outcome comes later than this."""


class Plants(Strict):
    """What can be learned, each to be switched off; the equations are in `probabilities`."""

    surfaces: bool = Field(default=True, description="preferences that surfaces share, and some that conflict")
    crosses: bool = Field(default=True, description="a product of four fields whose parts say nothing alone")
    long: bool = Field(default=True, description="a wish uttered 37 to 59 days ago, hundreds of events back")
    periodic: bool = Field(default=True, description="restocking in cycles of 11 to 17 days")
    two_way: bool = Field(default=True, description="profile chooses among past events, history among attributes")
    hidden: bool = Field(default=True, description="the page, which verticals are not given")
    drift: bool = Field(default=True, description="categories come and go over 56 days")
    content: bool = Field(default=True, description="what the content embedding and the topics say of an ad")


class Options(Strict):
    """`source.options` of a world of this adapter."""

    rows: int = Field(default=100_000, ge=1_000, le=10_000_000, description="impressions of the whole log")
    seed: int = Field(default=7, description="of every draw")
    candidates: int = Field(default=4, ge=2, le=8, description="ads of one auction, all of them shown")
    plants: Plants = Plants()


@dataclass(frozen=True)
class Setting:
    """Options in a world's time.

    Attributes:
        world: days, surfaces and keep rates.
        options: sizes, seed and plants.
    """

    world: World
    options: Options

    @classmethod
    def of(cls, world: World) -> "Setting":
        """The setting of a world.

        Raises:
            WorldError: an option, zone or surface that does not fit.
        """
        setting = cls(world, parse_options(Options, world))
        if world.timezone != "UTC":
            raise WorldError(f"world {world.name}: synthetic days last 24 hours; set timezone: UTC")
        if world.first_day not in world.closed_days:
            raise WorldError(f"world {world.name}: the first day brings the history; list it under closed_days")
        if unknown := sorted(set(world.surface_names) ^ set(SURFACES)):
            raise WorldError(f"world {world.name}: surfaces {unknown}: the log has just {', '.join(SURFACES)}")
        return setting

    @property
    def first(self) -> int:
        """Days since 1970 of the first day."""
        return number_of(self.world.first_day)

    @property
    def last(self) -> int:
        """Days since 1970 of the last day."""
        return number_of(self.world.last_day or self.world.first_day)

    @property
    def start(self) -> int:
        """Days since 1970 of the first day with behaviour."""
        return self.first - HISTORY_DAYS

    @cached_property
    def open_days(self) -> list[str]:
        """Days with requests."""
        last = self.world.last_day or self.world.first_day
        return [ds for ds in day_range(self.world.first_day, last) if not self.world.is_closed(ds)]

    def requests(self, ds: str) -> int:
        """Requests of a day; over all days they add up to rows / candidates."""
        if ds not in self.open_days:
            return 0
        place, days = self.open_days.index(ds), len(self.open_days)
        total = self.options.rows // self.options.candidates
        return total * (place + 1) // days - total * place // days

    @property
    def users(self) -> int:
        """Users that are there from the start."""
        return max(FEWEST_USERS, int(self.options.rows * USERS_PER_ROW))

    @property
    def slots(self) -> int:
        """Ads that run at any one time: a multiple of `candidates`."""
        wanted = max(FEWEST_ADS, int(self.options.rows * ADS_PER_ROW))
        return -(-wanted // self.options.candidates) * self.options.candidates


def number_of(ds: str) -> int:
    """Days since 1970 of a local day of a UTC world."""
    return (date.fromisoformat(ds) - date(1970, 1, 1)).days


def parameters_hash(options: Options) -> str:
    """Hash of the options, the constants and the code: equal hashes are equal worlds."""
    parts = [json.dumps(options.model_dump(mode="json"), sort_keys=True).encode()]
    parts += [(HERE / f"{name}.py").read_bytes() for name in GENERATOR]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
