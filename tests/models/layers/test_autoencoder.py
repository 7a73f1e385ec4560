"""Any prefix of a compressed activation is a coarser version of it, and nothing leaves [-1, 1]."""

import torch

from models.layers.autoencoder import MatryoshkaAutoencoder


def activations(rows: int = 512) -> torch.Tensor:
    """Twelve inputs of unequal scale that three numbers explain."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(rows, 3, generator=generator) * torch.tensor([3.0, 1.0, 0.3])
    mixing = torch.randn(3, 12, generator=generator)
    return hidden @ mixing * torch.logspace(-2, 2, 12)


def fitted() -> MatryoshkaAutoencoder:
    torch.manual_seed(1)
    model, sample = MatryoshkaAutoencoder(12, 4, (32,)), activations()
    model.fit_scale(sample)
    adam = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(400):
        adam.zero_grad()
        model.errors(sample).sum().backward()
        adam.step()
    return model.eval()


def test_longer_prefixes_are_never_worse_and_learning_helps() -> None:
    torch.manual_seed(1)
    untrained = MatryoshkaAutoencoder(12, 4, (32,))
    untrained.fit_scale(activations())
    trained = fitted()
    with torch.no_grad():
        before, errors = untrained.errors(activations()), trained.errors(activations())
    assert (errors[1:] <= errors[:-1] + 1e-6).all()
    assert errors[-1] < 0.2 < before[-1]


def test_numbers_stay_inside_one_also_for_what_was_never_seen() -> None:
    model = fitted()
    encoded = model.encode(activations() * 1e6)
    assert encoded.abs().max() <= 1.0
    assert torch.isfinite(encoded).all()


def test_an_input_that_never_varies_is_no_division_by_zero() -> None:
    model = MatryoshkaAutoencoder(12, 4)
    sample = activations()
    sample[:, 3] = 7.0
    model.fit_scale(sample)
    assert torch.isfinite(model.errors(sample)).all()
