"""The distillation loss teaches (B20): towards the teacher, never the teacher, and only where it may."""

import torch

from training.distill import distillation_loss


def logit(probability: float) -> float:
    return float(torch.tensor(probability).logit())


def test_a_student_follows_a_fixed_teacher() -> None:
    teacher = torch.tensor([[logit(0.9)], [logit(0.1)]])
    student = torch.nn.Parameter(torch.zeros(2, 1))
    adam = torch.optim.Adam([student], lr=0.05)
    for _ in range(200):
        adam.zero_grad()
        distillation_loss(student, teacher, torch.ones(2, 1), torch.ones(2)).backward()
        adam.step()
    assert student[0].sigmoid() > 0.8
    assert student[1].sigmoid() < 0.2


def test_the_minimum_is_the_teacher_itself_whatever_the_rate() -> None:
    teacher = torch.tensor([[logit(0.001)], [logit(0.3)], [2.0]])
    for rate in (1.0, 0.005):
        student = teacher.clone().requires_grad_(True)
        keep = torch.full((3,), rate)
        distillation_loss(student, teacher, torch.ones(3, 1), keep).backward()
        assert student.grad.abs().max() < 1e-6
        at = distillation_loss(teacher, teacher, torch.ones(3, 1), keep)
        for shift in (-0.5, 0.5):
            assert distillation_loss(teacher + shift, teacher, torch.ones(3, 1), keep) > at


def test_the_teacher_gets_no_gradient_and_masked_rows_give_none() -> None:
    teacher = torch.zeros(2, 1, requires_grad=True)
    student = torch.ones(2, 1, requires_grad=True)
    mask = torch.tensor([[1.0], [0.0]])
    distillation_loss(student, teacher, mask, torch.ones(2)).backward()
    assert teacher.grad is None
    assert student.grad[0] != 0
    assert student.grad[1] == 0


def test_without_a_teacher_there_is_nothing_to_learn() -> None:
    student = torch.ones(2, 1, requires_grad=True)
    nothing = torch.full((2, 1), float("nan"))
    loss = distillation_loss(student, nothing, torch.zeros(2, 1), torch.ones(2))
    loss.backward()
    assert loss == 0
    assert not student.grad.any()
