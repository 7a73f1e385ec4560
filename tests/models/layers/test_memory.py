"""Reading a memory equals a loop over examples; nobody sees another's memory; an empty one is zeros."""

import torch

from models.layers.memory import DAY_SECONDS, MemoryReader


def made(seed: int = 0) -> tuple[MemoryReader, dict[str, torch.Tensor]]:
    torch.manual_seed(seed)
    lengths, row = torch.tensor([3, 0, 1, 5]), torch.tensor([3, 0, 0, 1, 2, 3, 1])
    total = int(lengths.sum())
    reader = MemoryReader(6, 4)
    reader.decay.data.fill_(0.7)
    inputs = {
        "query": torch.randn(len(row), 6),
        "lengths": lengths,
        "memory": torch.randn(total, 4).tanh(),
        "age": torch.rand(total) * 40 * DAY_SECONDS + 1,
        "row": row,
    }
    return reader, inputs


def test_it_equals_a_loop() -> None:
    reader, inputs = made()
    got = reader(**inputs)
    starts = torch.cumsum(inputs["lengths"], 0) - inputs["lengths"]
    for example, row in enumerate(inputs["row"].tolist()):
        begin, count = int(starts[row]), int(inputs["lengths"][row])
        vectors, age = inputs["memory"][begin : begin + count], inputs["age"][begin : begin + count]
        if not count:
            assert not got[example].any()
            continue
        scores = vectors @ reader.ask(inputs["query"][example]) * 4**-0.5 - 0.7 * torch.log1p(age / DAY_SECONDS)
        attended = scores.softmax(0) @ vectors
        expected = torch.cat([attended, vectors.mean(0), torch.tensor([float(count)]).log1p(), torch.ones(1)])
        assert torch.allclose(got[example], expected, atol=1e-6)


def test_one_memory_reaches_only_its_examples() -> None:
    reader, inputs = made()
    inputs["memory"].requires_grad_(True)
    reader(**inputs)[inputs["row"] == 0].sum().backward()
    moved = inputs["memory"].grad.abs().sum(1) > 0
    assert moved.tolist() == [True] * 3 + [False] * 6


def test_large_scores_stay_finite() -> None:
    reader, inputs = made()
    inputs["query"] = inputs["query"] * 1e6
    assert torch.isfinite(reader(**inputs)).all()
