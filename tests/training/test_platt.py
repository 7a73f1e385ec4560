"""Platt scaling against scikit-learn and a general minimiser, on planted curves, and where there is little to learn."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from training.areas import Floats
from training.platt import RIDGE, SLOPES, platt


def rows(n: int, slope: float, offset: float, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """Logits around -3, labels by a curve over them, weights of a log that kept every fourth negative."""
    rng = np.random.default_rng(seed)
    x = rng.normal(-3, 1.2, n)
    label = (rng.random(n) < expit(slope * x + offset)).astype(np.float64)
    kept = (label > 0) | (rng.random(n) < 0.25)
    return x[kept], label[kept], np.where(label > 0, 1.0, 4.0)[kept]


def test_without_ridge_it_is_weighted_logistic_regression() -> None:
    x, label, weight = rows(20_000, 0.7, -0.4)
    other = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(x[:, None], label, weight)
    found = platt(x, label, weight, ridge=0.0)
    np.testing.assert_allclose(found, (other.coef_[0, 0], other.intercept_[0]), rtol=1e-5)


@pytest.mark.parametrize("n", [30, 300, 30_000])
@pytest.mark.parametrize("ridge", [RIDGE, 30.0])
def test_the_ridge_pulls_level_and_slope_at_the_mean_logit(n: int, ridge: float) -> None:
    x, label, weight = rows(n, 1.3, 0.5)
    centre = np.average(x, weights=weight)

    def loss(given: Floats) -> float:
        level, slope = given
        logit = centre + level + slope * (x - centre)
        nll = weight @ np.where(label > 0, np.logaddexp(0, -logit), np.logaddexp(0, logit))
        return float(nll + ridge / 2 * (level**2 + (slope - 1) ** 2))

    level, slope = minimize(loss, np.array([0.0, 1.0]), method="L-BFGS-B", bounds=[(None, None), SLOPES], tol=1e-14).x
    np.testing.assert_allclose(platt(x, label, weight, ridge), (slope, centre + level - slope * centre), atol=2e-4)


@pytest.mark.parametrize(("slope", "offset"), [(0.6, 0.5), (1.0, 0.0), (1.8, 1.0)])
def test_a_planted_distortion_is_found_with_the_weights_of_a_sampled_log(slope: float, offset: float) -> None:
    x, label, weight = rows(400_000, slope, offset)
    np.testing.assert_allclose(platt(x, label, weight), (slope, offset), atol=0.05)
    unweighted = platt(x, label, np.ones_like(x))
    assert abs(unweighted[1] - offset) > 0.5, "without the weights the level is that of the sampled log"


def test_a_ranking_is_never_turned() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, 5000)
    against = (rng.random(5000) < expit(-2 * x + 1)).astype(np.float64)
    slope, offset = platt(x, against, np.ones_like(x))
    assert slope == SLOPES[0]
    # the level is the best one for that slope: as many positives are predicted as there are, but for the ridge
    assert expit(slope * x + offset).sum() == pytest.approx(against.sum(), rel=1e-3)
    steep, _ = platt(x, (x > 0).astype(np.float64), np.ones_like(x))
    assert steep == SLOPES[1]


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_one_class_and_equal_logits_stay_finite(label: float) -> None:
    x = np.full(50, -20.0)
    slope, offset = platt(x, np.full(50, label), np.full(50, 1e6))
    assert slope == 1.0 and np.isfinite(offset) and (offset > 0) == bool(label)


def test_few_labels_change_little() -> None:
    x, label, weight = rows(8, 0.3, 2.0)
    slope, offset = platt(x, label, weight, ridge=1e6)
    assert (slope, offset) == (pytest.approx(1.0, abs=1e-3), pytest.approx(0.0, abs=1e-3))
