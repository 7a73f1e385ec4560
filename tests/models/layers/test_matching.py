"""Matching against a double loop over examples and events."""

import torch

from models.layers.decay import DecayedSums
from models.layers.matching import Matching, pairs


def test_pairs_are_every_example_with_every_event_of_its_history() -> None:
    example, event = pairs(torch.tensor([2, 0, 3]), torch.tensor([2, 0, 1, 2]))
    got = list(zip(example.tolist(), event.tolist(), strict=True))
    assert got == [(0, 2), (0, 3), (0, 4), (1, 0), (1, 1), (3, 2), (3, 3), (3, 4)]


def test_equals_a_loop() -> None:
    torch.manual_seed(1)
    lengths, row = torch.tensor([7, 0, 12]), torch.tensor([2, 2, 0, 1, 0, 2])
    events = int(lengths.sum())
    history = {"ad": torch.randint(0, 3, (events,)), "brand": torch.randint(0, 3, (events,))}
    candidate = {"ad": torch.randint(0, 3, (6,)), "brand": torch.randint(0, 3, (6,))}
    ages, types = torch.rand(events) * 50, torch.randint(0, 2, (events,))
    span = torch.tensor([50.0, 0.0, 60.0])
    module = Matching(["ad", "brand"], (1.0, 30.0), 2)
    got = module(candidate, history, row, lengths, ages, types, span)
    assert got.shape == (6, module.width)
    starts = [0, 7, 7]
    for b in range(6):
        r, parts = int(row[b]), []
        for field in ("ad", "brand"):
            own = range(starts[r], starts[r] + int(lengths[r]))
            hits = [t for t in own if history[field][t] == candidate[field][b] != 0]
            sums = module.sums[field]
            assert isinstance(sums, DecayedSums)
            parts.append(sums(torch.zeros(len(hits), dtype=torch.long), ages[hits], types[hits], span[[r]])[0])
        torch.testing.assert_close(got[b], torch.cat(parts))
    assert got.any()


def test_missing_matches_nothing_and_no_fields_give_no_columns() -> None:
    one, zero = torch.ones(1), torch.zeros(1, dtype=torch.long)
    common = (zero, torch.tensor([1]), one, zero, one)
    assert not Matching(["ad"], (1.0,), 1)({"ad": zero}, {"ad": zero}, *common).any()
    assert Matching([], (1.0,), 1)({}, {}, *common).shape == (1, 0)
