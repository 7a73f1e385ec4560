"""The planted log of several types: what it says of itself, and that arms of one seed see the same rows."""

import pytest
import torch

from benchmarks.oneseq import CANDIDATES, CART, EQUAL, PURCHASE, REQUESTS, SCHEMA, TOWERS, arms, is_open, sample
from models.gem.config import GemConfig
from models.gem.model import Gem
from training.flops import count


def of(seed: int) -> "torch.Generator":
    return torch.Generator().manual_seed(seed)


def test_a_cart_is_open_until_a_purchase_follows() -> None:
    assert is_open(torch.tensor([1, CART, 1]))
    assert not is_open(torch.tensor([1, CART, 1, PURCHASE]))
    assert is_open(torch.tensor([PURCHASE, CART]))
    assert not is_open(torch.tensor([1, 2])) and not is_open(torch.tensor([], dtype=torch.int64))


def test_ages_fall_and_ads_belong_to_their_category() -> None:
    batch = sample(of(3), 90)
    assert len(batch) == REQUESTS * CANDIDATES and set(batch.history_type.tolist()) == {1, 2, 3, 4, 5}
    for age, span in zip(batch.history_age.split(batch.history_lengths.tolist()), batch.history_span, strict=True):
        assert (age.diff() < 0).all() and age[0] == span and age[-1] > 0
    for ad, category in zip(batch.history["ad_id"], batch.history["category"], strict=True):
        assert (ad - 1) // 20 == category - 1


def test_labels_follow_interest_and_open_carts() -> None:
    whole = [sample(of(seed), 60) for seed in range(30)]
    label = torch.cat([batch.label[:, 0] for batch in whole])
    cart = torch.cat(
        [
            torch.tensor([float(is_open(kind)) for kind in batch.history_type.split(batch.history_lengths.tolist())])[
                batch.rows_of_history
            ]
            for batch in whole
        ]
    )
    assert label[cart == 1].mean() > 1.5 * label[cart == 0].mean()


def test_one_seed_gives_one_log() -> None:
    one, two, other = sample(of(5), 40), sample(of(5), 40), sample(of(6), 40)
    assert torch.equal(one.label, two.label) and torch.equal(one.history_age, two.history_age)
    assert not torch.equal(one.label, other.label)


def test_a_merged_sequence_can_be_as_dear_as_towers() -> None:
    recipes = arms()
    batch = sample(of(7), recipes[TOWERS].model.history_length)
    flops = {}
    for name in (TOWERS, EQUAL):
        config = recipes[name].model
        assert isinstance(config, GemConfig)
        flops[name] = count(Gem(SCHEMA, config), batch)
    assert flops[EQUAL] == pytest.approx(flops[TOWERS], rel=0.05)
