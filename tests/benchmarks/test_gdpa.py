"""The ways that the bench `gdpa` compares do the same work, and the bench runs."""

import torch

from benchmarks import gdpa


def test_all_ways_give_the_same_outputs_and_gradients() -> None:
    data = gdpa.rows(8, seed=3)
    lengths = data.layout.sum_by_row(data.layout.mask.sum(1))
    there = torch.arange(data.padded.shape[1]) < lengths[:, None]
    assert int(lengths.max()) <= gdpa.LONGEST and int(lengths.min()) == 0
    results = {
        "gdpa": data.layout.unpack(gdpa.as_gdpa(data)),
        "written_out": data.layout.unpack(gdpa.written_out(data)),
        "written_out_padded": gdpa.written_out_padded(data)[there],
    }
    wanted = torch.randn_like(results["gdpa"])
    gradients = {name: torch.autograd.grad(out, [data.keys, data.context], wanted) for name, out in results.items()}
    for name, out in results.items():
        torch.testing.assert_close(out, results["gdpa"], rtol=1e-5, atol=1e-5)
        for one, other in zip(gradients[name], gradients["gdpa"], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert gdpa.difference(data) < 1e-5
