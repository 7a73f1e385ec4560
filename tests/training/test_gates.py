"""The monitor of domain experts' gates: means by hand, a report starts anew, a collapse is named."""

import pytest
import torch

from models.layers.domain_experts import DomainExperts
from training.compute import Compute
from training.gates import GateMonitor, collapsed

CPU = Compute(torch.device("cpu"))


def test_a_report_holds_what_was_trained_on_since_the_last_one() -> None:
    torch.manual_seed(0)
    experts = DomainExperts(4, 3, 3)
    torch.nn.init.normal_(experts.gate, std=5.0)
    monitor = GateMonitor(experts, ("feed", "search", "unused"), CPU)
    x, surface = torch.randn(50, 4), torch.randint(0, 2, (50,))
    with torch.no_grad():
        weights = experts.mixture(x[:20], surface[:20])[1], experts.mixture(x[20:], surface[20:])[1]
        experts.eval()(x, surface)
    report = monitor.report()
    assert list(report) == ["feed", "search"]
    for place, name in enumerate(report):
        rows = torch.cat(weights)[surface == place]
        assert report[name]["rows"] == len(rows)
        assert report[name]["mean"] == pytest.approx(rows.mean(0).tolist(), abs=1e-4)
        assert report[name]["max"] == pytest.approx(float(rows.mean(0).max()), abs=1e-4)
        assert report[name]["entropy"] == pytest.approx(float(-(rows * rows.log()).sum(1).mean()), abs=1e-4)
    assert monitor.report() == {}


def test_a_collapse_is_named() -> None:
    def gate(*mean: float) -> dict[str, object]:
        return {"rows": 9, "mean": list(mean), "max": max(mean), "entropy": 0.0}

    assert collapsed({"feed": gate(0.4, 0.6), "alone": gate(1.0)}) == ""
    line = collapsed({"feed": gate(0.4, 0.6), "search": gate(0.99, 0.01)})
    assert line.startswith("warning: the gates of search give") and "expert_temperature" in line


def test_without_experts_nothing_is_reported() -> None:
    assert GateMonitor(None, ("feed",), CPU).report() == {}
