"""The world of the bench `wukong` needs fours of fields, its probe is of second degree, its arms sized as it says."""

import torch

from benchmarks import wukong


def test_a_probe_layer_is_of_second_degree_and_two_of_fourth() -> None:
    torch.manual_seed(0)
    sizes = {"tokens": 8, "dim": 4, "fm_tokens": 4, "linear_tokens": 4, "rank": 2, "hidden": ()}
    first, second = (wukong.PolynomialLayer(**sizes).double() for _ in range(2))
    x = torch.randn(1, 8, 4).double()

    def differences(layers: torch.nn.Module, order: int) -> float:
        values = torch.stack([layers(step * x) for step in range(-3, 4)])
        return values.diff(n=order, dim=0).abs().max().item()

    both = torch.nn.Sequential(first, second)
    assert differences(first, 3) < 1e-9 < differences(first, 2)
    assert differences(both, 5) < 1e-9 < differences(both, 4)


def test_pairs_know_little_of_the_planted_world_and_all_of_the_other() -> None:
    found = wukong.ceilings(seeds=1)
    assert 0.55 < found["pairs"] < 0.7 < 0.85 < found["truth"]
    ids = torch.randint(0, wukong.VALUES, (100_000, wukong.FIELDS))
    two, four = wukong.parts(ids)
    assert abs((two * four).mean().item()) < 0.05  # the cross is not in what pairs say


def test_the_control_has_no_less_compute_and_cost_is_linear_in_fields() -> None:
    sizes = wukong.sizes()
    assert sizes["order_one"]["flops"] >= sizes["order_two"]["flops"]
    assert sizes["as_used_one"]["flops"] >= sizes["as_used_two"]["flops"]
    assert sizes["removal_neither"]["flops"] >= sizes["removal_all"]["flops"]
    assert wukong.fm_flops_ratio() == 2.0
