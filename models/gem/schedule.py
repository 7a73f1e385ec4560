"""CompSkip: which parts of the sequence side run in which layer, fixed by the layer's parity.

Odd layers (counted from 1) run self-attention and reuse the history summary of the layer before; even ones run the
per-example feed-forward and make a fresh summary. The last layer of an even number of layers therefore summarises
what all before it did. The first layer has nothing to reuse, so it summarises too. Source: Kunlun, arXiv 2602.10016
(summaries): alternation by parity, static, not by input.
"""

from typing import NamedTuple


class Runs(NamedTuple):
    """What a layer computes of the sequence side; the interaction side runs in every layer."""

    attention: bool
    feedforward: bool
    summary: bool


EVERYTHING = Runs(attention=True, feedforward=True, summary=True)


def schedule(layers: int, *, compskip: bool) -> tuple[Runs, ...]:
    """What each layer runs.

    Raises:
        ValueError: CompSkip over an odd number of layers, whose last self-attention nothing would read.
    """
    if not compskip:
        return (EVERYTHING,) * layers
    if layers % 2:
        raise ValueError(f"CompSkip alternates over pairs of layers, {layers} is odd; take {layers + 1}")
    first, odd, even = Runs(True, False, True), Runs(True, False, False), Runs(False, True, True)
    return tuple(first if not layer else even if layer % 2 else odd for layer in range(layers))
