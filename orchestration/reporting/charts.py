"""Small inline SVG charts, readable without colour and without a script: a line over days, and a reliability plot."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH, HEIGHT = 340.0, 170.0
LINE, BAND, SOFT, VOID = "#1f5fa8", "#cfe0f3", "#566070", "#a86d00"
"""Colours, in the drawing itself: not every reader of a page applies the page's style to it."""
_RULE = Markup('stroke="#d9dee5"')
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 12.0, 10.0, 24.0


@dataclass(frozen=True)
class Mark:
    """One place on the x axis.

    Attributes:
        x: position, for example a day's ordinal; the line breaks where two differ by more than one.
        label: of the position, for people.
        value: None when undefined: the line breaks, and a cross on the axis says why.
        low: lower end of the interval, None without one.
        high: upper end of the interval, None without one.
        note: why there is no value or interval, or further words about the mark.
    """

    x: int
    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends around a value, or None."""
        if self.value is None or self.low is None or self.high is None:
            return None
        return self.low, self.high


def line_chart(marks: Sequence[Mark], title: str, baseline: float | None = None) -> Markup:
    """Draw marks as a line with a band.

    Args:
        marks: in order of x; none, one, or many of them, defined or not.
        title: what is drawn; it is the accessible name and is escaped.
        baseline: a value worth a dashed line, for example 1 for calibration.
    """
    shown = [number for mark in marks for number in (mark.value, mark.low, mark.high) if number is not None]
    defined = sum(mark.value is not None for mark in marks)
    name = escape(f"{title}: {defined} of {len(marks)} days have a value")
    head = Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>').format(
        _text(WIDTH), _text(HEIGHT), name, name
    )
    if not shown:
        return head + _words("middle", WIDTH / 2, HEIGHT / 2, "no value on any day") + Markup("</svg>")
    scale = _Scale.of(marks, shown if baseline is None else [*shown, baseline])
    behind = [*_grid(scale, marks), *_bands(scale, marks), *_baseline(scale, baseline)]
    return head + Markup("").join([*behind, *_lines(scale, marks), *_points(scale, marks)]) + Markup("</svg>")


@dataclass(frozen=True)
class Dot:
    """One bin of a reliability plot.

    Attributes:
        predicted: mean prediction, above 0.
        observed: share of positives.
        note: further words.
    """

    predicted: float
    observed: float
    note: str = ""


def reliability_chart(dots: Sequence[Dot], title: str) -> Markup:
    """Observed over predicted on equal logarithmic axes: what is calibrated lies on the dashed diagonal.

    Args:
        dots: bins; a cross at the foot marks one without a positive.
        title: what is drawn; it is the accessible name and is escaped.
    """
    name = escape(f"{title}: {len(dots)} bins")
    head = Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>').format(
        _text(WIDTH), _text(HEIGHT), name, name
    )
    numbers = [number for dot in dots for number in (dot.predicted, dot.observed) if number > 0]
    if not numbers:
        return head + _words("middle", WIDTH / 2, HEIGHT / 2, "nothing was predicted") + Markup("</svg>")
    low, high = math.floor(math.log10(min(numbers))), math.ceil(math.log10(max(numbers)) + 1e-9)

    def place(predicted: float, observed: float) -> tuple[float, float]:
        x, y = ((math.log10(number) - low) / (high - low) for number in (predicted, observed))
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * x, HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * y

    parts = []
    for power in range(low, high + 1):
        x, y = place(10.0**power, 10.0**power)
        parts += [_level("grid", y, _RULE), _words("end", _LEFT - 6, y + 3.5, f"{10.0**power:g}")]
        parts.append(_words("middle", x, HEIGHT - 5, f"{10.0**power:g}"))
    dashed = Markup('<polyline class="base" fill="none" stroke="{}" stroke-dasharray="4 3" points="{}"/>')
    parts.append(dashed.format(SOFT, _path([place(10.0**low, 10.0**low), place(10.0**high, 10.0**high)])))
    for dot in dots:
        words = f"predicted {dot.predicted:.5f}, observed {dot.observed:.5f}, {dot.note}"
        x, y = place(max(dot.predicted, 10.0**low), max(dot.observed, 10.0**low))
        parts.append(_dot(x, y, words) if dot.observed > 0 else _cross(x, words))
    return head + Markup("").join(parts) + Markup("</svg>")


@dataclass(frozen=True)
class _Scale:
    """Data to picture."""

    first: int
    last: int
    low: float
    high: float
    ticks: tuple[float, ...]

    @classmethod
    def of(cls, marks: Sequence[Mark], numbers: Sequence[float]) -> "_Scale":
        low, high = min(numbers), max(numbers)
        spread = high - low or abs(high) * 0.1 or 1.0
        low, high = low - spread * 0.06, high + spread * 0.06
        # the largest round step that fits twice, so that there are at least two ticks and at most six
        unit = 10.0 ** math.floor(math.log10((high - low) / 2))
        step = max(unit * factor for factor in (1, 2, 5) if factor == 1 or unit * factor <= (high - low) / 2)
        ticks = tuple(step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1))
        return cls(marks[0].x, marks[-1].x, low, high, ticks)

    def x(self, x: int) -> float:
        if self.first == self.last:
            return (_LEFT + WIDTH - _RIGHT) / 2
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (x - self.first) / (self.last - self.first)

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * (value - self.low) / (self.high - self.low)


def _grid(scale: _Scale, marks: Sequence[Mark]) -> Iterator[Markup]:
    for tick in scale.ticks:
        yield _level("grid", scale.y(tick), _RULE)
        yield _words("end", _LEFT - 6, scale.y(tick) + 3.5, f"{tick:.4g}")
    if scale.first == scale.last:
        yield _words("middle", scale.x(scale.first), HEIGHT - 5, marks[0].label)
        return
    yield _words("start", _LEFT, HEIGHT - 5, marks[0].label)
    yield _words("end", WIDTH - _RIGHT, HEIGHT - 5, marks[-1].label)


def _baseline(scale: _Scale, value: float | None) -> Iterator[Markup]:
    if value is not None:
        yield _level("base", scale.y(value), Markup('stroke="{}" stroke-dasharray="4 3"').format(SOFT))


def _bands(scale: _Scale, marks: Sequence[Mark]) -> Iterator[Markup]:
    """A band over each run of days with intervals; an upright bar where such a day has no neighbour."""
    for run in _runs(marks, lambda mark: mark.interval is not None):
        ends = [(scale.x(mark.x), mark.interval) for mark in run]
        lower = [(x, scale.y(found[0])) for x, found in ends if found]
        upper = [(x, scale.y(found[1])) for x, found in ends if found]
        if len(run) > 1:
            yield Markup('<polygon class="band" fill="{}" points="{}"/>').format(BAND, _path([*lower, *upper[::-1]]))
        else:
            yield _stroke("bar", [*lower, *upper], 1.2)


def _lines(scale: _Scale, marks: Sequence[Mark]) -> Iterator[Markup]:
    for run in _runs(marks, lambda mark: mark.value is not None):
        if len(run) > 1:
            yield _stroke(
                "line", [(scale.x(mark.x), scale.y(mark.value)) for mark in run if mark.value is not None], 1.7
            )


def _points(scale: _Scale, marks: Sequence[Mark]) -> Iterator[Markup]:
    for mark in marks:
        x = scale.x(mark.x)
        if mark.value is None:
            yield _cross(x, f"{mark.label}: {mark.note or 'undefined'}")
            continue
        words = f"{mark.label}: {mark.value:.4f}"
        words += f" [{mark.interval[0]:.4f}, {mark.interval[1]:.4f}]" if mark.interval else ""
        yield _dot(x, scale.y(mark.value), words + (f", {mark.note}" if mark.note else ""))


def _cross(x: float, words: str) -> Markup:
    """On the axis."""
    path = f"M{_text(x - 3)} {_text(HEIGHT - _BOTTOM - 7)}l6 6m0 -6l-6 6"
    drawn = Markup('<path class="cross" stroke="{}" fill="none" d="{}"><title>{}</title></path>')
    return drawn.format(VOID, path, words)


def _dot(x: float, y: float, words: str) -> Markup:
    drawn = Markup('<circle class="dot" fill="{}" cx="{}" cy="{}" r="2.4"><title>{}</title></circle>')
    return drawn.format(LINE, _text(x), _text(y), words)


def _runs(marks: Sequence[Mark], usable: Callable[[Mark], bool]) -> Iterator[list[Mark]]:
    """Usable marks, cut wherever one is not or a day is absent."""
    run: list[Mark] = []
    for mark in marks:
        if run and (not usable(mark) or mark.x - run[-1].x > 1):
            yield run
            run = []
        if usable(mark):
            run.append(mark)
    if run:
        yield run


def _stroke(name: str, places: Sequence[tuple[float, float]], width: float) -> Markup:
    return Markup('<polyline class="{}" fill="none" stroke="{}" stroke-width="{}" points="{}"/>').format(
        name, LINE, width, _path(places)
    )


def _level(name: str, y: float, stroke: Markup) -> Markup:
    return Markup('<line class="{}" {} x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
        name, stroke, _text(_LEFT), _text(WIDTH - _RIGHT), _text(y), _text(y)
    )


def _words(anchor: str, x: float, y: float, text: str) -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}" fill="{}" font-size="10.5">{}</text>').format(
        _text(x), _text(y), anchor, SOFT, text
    )


def _path(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_text(x)},{_text(y)}" for x, y in places)


def _text(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
