"""The planted task of the bench `interformer` needs both sides; arms differ in flows, not in compute."""

import torch

from benchmarks import interformer


def test_the_label_follows_the_kind_that_is_wished_and_the_attribute_that_is_asked() -> None:
    (ids, events, lengths), logit = interformer.draw(torch.Generator().manual_seed(1), 400, planted=True)
    right = 0
    for row, (held, own) in enumerate(zip(ids, events.split(lengths.tolist()), strict=True)):
        values = own[own[:, 0] == held[0], 1].float()
        subject = int(own[:, 2].mode().values)
        usual = 0.0 if not len(values) else 2.0 * round(float(values.mean())) - 1.0
        guess = 2.0 * usual + 2.0 * (2.0 * float(held[1 + subject]) - 1.0)
        right += abs(guess - float(logit[row])) < 0.1
    assert right > 250  # what a reader of both sides finds in most rows


def test_without_the_plant_neither_side_asks_the_other() -> None:
    (ids, _, _), logit = interformer.draw(torch.Generator().manual_seed(1), 2000, planted=False)
    bit = 2.0 * (2.0 * ids[:, 1].float() - 1.0)
    assert set((logit - bit).tolist()) == {-2.0, 2.0}


def test_a_cut_arm_has_no_less_compute() -> None:
    sizes = interformer.sizes()
    assert all(sizes[flow]["flops"] >= sizes["both"]["flops"] for flow in interformer.FLOWS)
    assert all(sizes[flow]["parameters"] >= sizes["both"]["parameters"] for flow in interformer.FLOWS)
    assert all(own["flops"] < 1.1 * sizes["both"]["flops"] for own in sizes.values())
