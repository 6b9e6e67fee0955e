"What the chapter on hardness does not test inline: independent solvers, refusals, rational vectors, near-optimal decoding."
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog

from kms_nb.hardness import (additive_residual, certified_optimum, costs_from_fair_pca, fair_pca_from_costs,
                             fair_pca_from_partition, fair_pca_optimum, max_min_value, norm_minimum, partition_from_omega,
                             partition_gap)


def test_inner_value_against_the_linear_programme():
    rng, n = np.random.default_rng(0), 5
    M, omega = rng.standard_normal((n, n, 3)), rng.standard_normal(3)
    rows, cols = np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))
    lp = linprog(((M @ omega) ** 2).ravel(), A_eq=np.vstack([rows, cols]), b_eq=np.full(2 * n, 1 / n))
    assert_allclose(max_min_value(M, omega), lp.fun)
    assert_allclose(max_min_value(-M, 2 * omega), 4 * lp.fun)


def test_reduction_with_rational_vectors():
    a = np.array([4, 3, 2, 1, 2])
    R = np.vstack([np.eye(5), a])
    rational = (R @ np.linalg.inv(R.T @ R)).T
    assert_allclose(norm_minimum(rational)[0], 5)
    assert_allclose(norm_minimum(1e-9 * rational)[0], 5e18)


def test_near_optimal_directions_decode():
    a, rng, found = np.array([3, 1, 2, 2, 4]), np.random.default_rng(0), 0
    A = fair_pca_from_partition(a)
    M, omega = costs_from_fair_pca(A), fair_pca_optimum(A)[1]
    for _ in range(300):
        w = omega + 0.02 * rng.standard_normal(5)
        w /= np.linalg.norm(w)
        if max_min_value(M, w) > 1 / (5 + partition_gap(5, 4)):
            found += 1
            assert partition_from_omega(w, a) @ a == 0
    assert found > 10


def test_bracket_of_a_two_sample_problem():
    rng = np.random.default_rng(3)
    phi, psi = rng.standard_normal((2, 6, 2))
    M = phi[:, None] - psi[None]
    lower, upper, omega = certified_optimum(M)
    by_sorting = max(np.mean((np.sort(phi @ w) - np.sort(psi @ w)) ** 2)
                     for w in ([np.cos(t), np.sin(t)] for t in np.linspace(0, np.pi, 5001)))
    assert lower == max_min_value(M, omega) and lower <= upper <= lower / (1 - 1e-3)
    assert by_sorting <= upper and by_sorting >= lower * (1 - 1e-3)
    assert additive_residual(M) < 1e-14


def test_bracket_stays_valid_when_stopped_early():
    M = np.random.default_rng(4).standard_normal((3, 3, 3))
    lower, upper, _ = certified_optimum(M, max_cells=10)
    sharp = certified_optimum(M)
    assert lower <= sharp[0] and sharp[1] <= upper


@pytest.mark.parametrize("a, error", [([], ValueError), ([1, 0], ValueError), ([[1, 2]], ValueError), ([1.5, 2], TypeError), ([True], TypeError)])
def test_partition_instances_are_checked(a, error):
    with pytest.raises(error, match="`a`"): fair_pca_from_partition(a)


def test_other_refusals():
    with pytest.raises(ValueError, match="`M`"): max_min_value(np.zeros((2, 3, 1)), [1.0])
    with pytest.raises(ValueError, match="`omega`"): max_min_value(np.zeros((2, 2, 1)), [1.0, 2.0])
    with pytest.raises(ValueError, match="`omega`"): partition_from_omega([1.0], [1, 2])
    with pytest.raises(ValueError, match="circulant"): fair_pca_from_costs(np.arange(8.0).reshape(2, 2, 2))
    with pytest.raises(ValueError, match="zero row"): norm_minimum([[0.0, 0.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="20 rows"): norm_minimum(np.ones((21, 1)))
    with pytest.raises(ValueError, match="finite"): costs_from_fair_pca([[np.nan]])
    with pytest.raises(ValueError, match="`largest`"): partition_gap(3, 0)
