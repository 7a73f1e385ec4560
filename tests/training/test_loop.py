"""One step: what it changes, what stops it, and rows that are hard to train on."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from features.transform.histories import HistoryCut
from training.compute import Compute
from training.finite import NonFinite, require_finite
from training.loop import Trainee, build, score, train_on, train_step
from training.plan import Plan
from training.reader import Reader, Share

CPU = Compute(torch.device("cpu"))


@pytest.fixture
def reader(plan: Plan) -> Reader:
    return Reader(plan)


@pytest.fixture
def trainee(plan: Plan) -> Trainee:
    return build(plan.schema, plan.recipe, plan.seed, CPU)


def copies(trainee: Trainee) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainee.tensors().items()}


def test_training_lowers_the_loss_on_the_rows_it_saw(plan: Plan, reader: Reader, trainee: Trainee) -> None:
    rows = reader.labelled(plan.walk[1])
    passes = [float(np.mean(list(train_on(trainee, reader, rows, "walk")))) for _ in range(12)]
    assert passes[-1] < 0.7 * passes[0]


def test_a_step_moves_every_part_and_counts_touched_rows(plan: Plan, reader: Reader, trainee: Trainee) -> None:
    before = copies(trainee)
    rows = reader.labelled(plan.walk[1])
    for _ in range(3):
        list(train_on(trainee, reader, rows, "walk"))
    still = [name for name, tensor in trainee.tensors().items() if torch.equal(tensor, before[name])]
    assert still == []
    touched = trainee.touches()["touches.user"] > 0
    moved = trainee.tensors()["model.embeddings.collection.embeddings.user.weight"].abs().sum(1) > 0
    assert 5 < int(moved.sum()) < len(moved)
    # a row that moved was counted: what has count 0 still is the default
    assert bool((touched | ~moved).all())


def test_scoring_changes_nothing(plan: Plan, reader: Reader, trainee: Trainee) -> None:
    list(train_on(trainee, reader, reader.labelled(plan.walk[0]), "walk"))
    before, counts = copies(trainee), trainee.touches()
    first = score(trainee, reader, reader.examples(plan.walk[1]))
    np.testing.assert_array_equal(first, score(trainee, reader, reader.examples(plan.walk[1])))
    assert all(torch.equal(tensor, before[name]) for name, tensor in trainee.tensors().items())
    assert all(torch.equal(count, counts[name]) for name, count in trainee.touches().items())
    assert ((first > 0) & (first < 1)).all()


def test_scores_do_not_depend_on_batches(plan: Plan, reader: Reader, trainee: Trainee) -> None:
    rows = reader.examples(plan.walk[2])
    whole = score(trainee, reader, rows)
    trainee.recipe = replace(trainee.recipe, score_batch_size=7)
    np.testing.assert_allclose(score(trainee, reader, rows), whole, atol=1e-6)


def test_an_empty_batch_trains_on_nothing(plan: Plan, reader: Reader, trainee: Trainee) -> None:
    rows = reader.labelled(plan.walk[1])
    _, batch = next(reader.batches(rows, plan.schema, 32, Share(), HistoryCut(10)))
    before = copies(trainee)
    assert train_step(trainee, batch.rows(slice(0, 0)), "here") == 0.0
    tables = [name for name in before if "collection" in name]
    assert all(torch.equal(trainee.tensors()[name], before[name]) for name in tables)
    assert score(trainee, reader, rows.take(np.arange(0))).shape == (0, 2)


def test_the_first_loss_that_is_not_finite_stops_the_run(plan: Plan, reader: Reader, trainee: Trainee) -> None:
    rows = reader.labelled(plan.walk[1])
    parts = list(reader.batches(rows, plan.schema, 32, Share(), HistoryCut(10)))
    _, batch = parts[2]
    with torch.no_grad(), trainee.dense.training():
        trainee.gem.linear_own.weight[0, 0] = float("nan")
    before = copies(trainee)
    with pytest.raises(NonFinite, match=r"walk 2024-05-02, step 2: the loss is nan .*nothing is committed"):
        train_step(trainee, batch, "walk 2024-05-02, step 2")
    for name, tensor in trainee.tensors().items():
        assert torch.equal(tensor.nan_to_num(7.0), before[name].nan_to_num(7.0)), name


def test_a_gradient_that_is_not_finite_stops_the_run(plan: Plan, reader: Reader, trainee: Trainee) -> None:
    _, batch = next(reader.batches(reader.labelled(plan.walk[1]), plan.schema, 32, Share(), HistoryCut(10)))
    trainee.gem.linear_numbers.weight.register_hook(lambda gradient: gradient * float("inf"))
    with pytest.raises(NonFinite, match="norm of the dense gradient"):
        train_step(trainee, batch, "here")


def test_weights_that_are_not_finite_are_not_published() -> None:
    require_finite({"a": torch.ones(2), "steps": torch.tensor(3)})
    with pytest.raises(NonFinite, match=r"model\.b holds values"):
        require_finite({"a": torch.ones(2), "model.b": torch.tensor([1.0, float("inf")])})


def test_extreme_and_missing_numbers_train_without_a_nan(plan: Plan) -> None:
    """Case B15: seven odd values among good rows, one pass."""
    day = plan.walk[1]
    path = plan.examples[day].paths[0]
    table = pq.read_table(path)
    odd = [-3.0, -1.0, 0.0, None, float("nan"), float("inf"), 1e38]
    values = pa.array([*odd, *table.column("ad_clicks_7d").to_pylist()[len(odd) :]], pa.float64())
    at = table.column_names.index("ad_clicks_7d")
    pq.write_table(table.set_column(at, "ad_clicks_7d", values), path)
    reader, trainee = Reader(plan), build(plan.schema, plan.recipe, plan.seed, CPU)
    losses = list(train_on(trainee, reader, reader.labelled(day), "walk"))
    assert np.isfinite(losses).all()
    assert np.isfinite(score(trainee, reader, reader.examples(day))).all()
    require_finite(trainee.tensors())


def test_weights_depend_on_the_seed_alone(plan: Plan, trainee: Trainee) -> None:
    same, other = (build(plan.schema, plan.recipe, seed, CPU).tensors() for seed in (plan.seed, plan.seed + 1))
    assert all(torch.equal(tensor, same[name]) for name, tensor in trainee.tensors().items())
    assert any(not torch.equal(tensor, other[name]) for name, tensor in trainee.tensors().items())


def test_a_batch_of_one_surface_moves_nothing_of_another(plan: Plan, reader: Reader, trainee: Trainee) -> None:
    """Weights at rest and trained, moments and averages, to the last bit; what is shared moves."""
    _, batch = next(reader.batches(reader.labelled(plan.walk[1]), plan.schema, 64, Share(), HistoryCut(10)))
    train_step(trainee, batch, "both")
    before = copies(trainee)
    for _ in range(3):
        train_step(trainee, batch.rows((batch.surface == 0).nonzero().squeeze(1)), "one")
    owned = [name for name in before if any(own in name for own in trainee.gem.surface_rows)]
    assert len(owned) == 4 * len(trainee.gem.surface_rows)
    for name in owned:
        assert torch.equal(trainee.tensors()[name][1], before[name][1]), name
        assert not torch.equal(trainee.tensors()[name][0], before[name][0]), name
    assert trainee.dense.surfaces.steps.tolist() == [4, 1]


def test_a_surface_answers_from_shared_experts_until_it_was_trained_on(
    plan: Plan, reader: Reader, trainee: Trainee
) -> None:
    _, batch = next(reader.batches(reader.labelled(plan.walk[1]), plan.schema, 64, Share(), HistoryCut(10)))
    experts = trainee.gem.trunk.experts
    assert experts is not None
    train_step(trainee, batch.rows((batch.surface == 0).nonzero().squeeze(1)), "one")
    assert experts.seen.tolist() == [True, False]
    trainee.model.eval()
    with torch.no_grad():
        before = trainee.model(batch)
        experts.own_bias.add_(10.0)
        assert torch.equal((trainee.model(batch) != before).any(1), batch.surface == 0)
    train_step(trainee, batch, "both")
    assert experts.seen.tolist() == [True, True]
