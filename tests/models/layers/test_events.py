"""Event tokens: what is known of an event adds up, each type through a projection of its own."""

import torch

from models.layers.events import EventTokens, age_features


def test_event_tokens_add_what_is_known_of_an_event() -> None:
    module, ages = EventTokens(8, 3), torch.tensor([0.0, 400.0])
    field, types = torch.randn(2, 8), torch.tensor([0, 2])
    torch.testing.assert_close(module([field, field], types, ages) - module([], types, ages), 2 * field)
    features = age_features(ages)
    assert features.shape == (2, 6) and features.min() >= 0 and features.max() <= 1.01


def test_projections_start_as_the_identity_and_belong_to_one_type_each() -> None:
    torch.manual_seed(0)
    plain, own = EventTokens(4, 3), EventTokens(4, 3, projected=True)
    own.load_state_dict(plain.state_dict(), strict=False)
    field, types, ages = torch.randn(7, 4, requires_grad=True), torch.tensor([0, 2, 1, 2, 2, 0, 2]), torch.rand(7)
    torch.testing.assert_close(own([field], types, ages), plain([field], types, ages))
    assert own.projections is not None
    torch.nn.init.normal_(own.projections)
    got = own([field], types, ages) - own([], types, ages)
    expected = torch.stack([row @ own.projections[kind] for row, kind in zip(field, types, strict=True)])
    torch.testing.assert_close(got, expected)
    weight = torch.randn_like(got)
    leaves = [field, own.projections]
    by_type = torch.autograd.grad((got * weight).sum(), leaves)
    by_row = torch.autograd.grad((expected * weight).sum(), leaves)
    for one, two in zip(by_type, by_row, strict=True):
        torch.testing.assert_close(one, two)


def test_no_events_are_no_tokens() -> None:
    none = torch.zeros(0, dtype=torch.long)
    assert EventTokens(4, 2, projected=True)([torch.zeros(0, 4)], none, torch.zeros(0)).shape == (0, 4)
