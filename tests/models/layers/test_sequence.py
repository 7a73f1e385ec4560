"""The sequence block: rows do not see each other, and padding leaves no trace in the gradient."""

import torch

from models.layers.sequence import EventTokens, SequenceBlock, age_features


def block() -> SequenceBlock:
    return SequenceBlock(dim=8, heads=2, block=4, seeds=4, tokens=2, terms=2)


def test_a_jagged_batch_equals_row_by_row() -> None:
    module, lengths = block(), torch.tensor([6, 0, 1, 4])
    x, context = torch.randn(11, 8), torch.randn(4, 3, 8)
    out = module(x, lengths, context)
    assert out.shape == (4, 2, 8)
    starts = [0, 6, 6, 7, 11]
    for row in range(4):
        alone = module(x[starts[row] : starts[row + 1]], lengths[row : row + 1], context[row : row + 1])
        torch.testing.assert_close(alone[0], out[row], rtol=1e-4, atol=1e-5)


def test_gradients_reach_every_event_of_a_row_and_of_no_other() -> None:
    x, lengths = torch.randn(11, 8, requires_grad=True), torch.tensor([6, 0, 1, 4])
    block()(x, lengths, torch.randn(4, 3, 8))[3].square().sum().backward()
    assert x.grad is not None
    assert not x.grad[:7].any() and (x.grad[7:].abs().sum(1) > 0).all()


def test_event_tokens_add_what_is_known_of_an_event() -> None:
    module, ages = EventTokens(8, 3), torch.tensor([0.0, 400.0])
    field, types = torch.randn(2, 8), torch.tensor([0, 2])
    torch.testing.assert_close(module([field, field], types, ages) - module([], types, ages), 2 * field)
    features = age_features(ages)
    assert features.shape == (2, 6) and features.min() >= 0 and features.max() <= 1.01
