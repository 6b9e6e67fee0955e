"What the chapter on approximate oracles does not test inline: rectangular and tiny costs, shifted costs, proofs that fail, mirror ascent with weights."
import numpy as np
import pytest
from numpy.testing import assert_allclose

from kms_nb.mirror import Problem, algorithm_1, top_eigenvalue
from kms_nb.oracles import dual_gap, inexact_algorithm_1, sinkhorn, sinkhorn_plan, stochastic, stochastic_plan
from kms_nb.transport import optimal_coupling


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (2, 2), (3, 9), (9, 3)])
@pytest.mark.parametrize("solve", [sinkhorn_plan, lambda *args: stochastic_plan(*args, rng=0)])
def test_plans_are_couplings_of_proved_accuracy(shape, solve):
    rng = np.random.default_rng(0)
    cost, a, b = rng.normal(size=shape), rng.dirichlet(np.ones(shape[0])), rng.dirichlet(np.ones(shape[1]))
    value = (optimal_coupling(cost, a, b) * cost).sum()
    for shift in (0, 1e6):
        plan = solve(cost + shift, a, b, 0.05)
        assert_allclose(plan.coupling.sum(1), a, atol=1e-12)
        assert_allclose(plan.coupling.sum(0), b, atol=1e-12)
        assert (plan.coupling * cost).sum() - value <= plan.gap + 1e-9 * max(shift, 1) <= 0.05 + 2e-9 * max(shift, 1)


def test_single_masses():
    cost = np.arange(12.0).reshape(3, 4)
    a, b = np.array([0, 1.0, 0]), np.array([0, 0, 1.0, 0])
    for oracle in (sinkhorn(0.1), stochastic(0.1, rng=0)):
        assert_allclose(oracle(cost, a, b), np.outer(a, b), atol=1e-12)


def test_failures_name_epsilon():
    cost, w = np.random.default_rng(1).random((20, 20)), np.full(20, 0.05)
    with pytest.raises(RuntimeError, match="`epsilon`"):
        sinkhorn_plan(cost, w, w, 1e-4, max_iter=11)
    with pytest.raises(RuntimeError, match="`epsilon`"):
        stochastic_plan(cost, w, w, 0.01, factor=0.05, rng=0)
    for bad in (0, -1, None, np.inf):
        with pytest.raises(ValueError, match="`epsilon`"):
            stochastic_plan(cost, w, w, bad)
        with pytest.raises(ValueError, match="`epsilon`"):
            sinkhorn_plan(cost, w, w, bad)


def test_gap_of_exact_potentials_is_zero_for_sparse_and_dense():
    cost = np.array([[0.0, 1.0], [1.0, 0.0]])
    w = np.full(2, 0.5)
    pi = optimal_coupling(cost, w, w)
    assert dual_gap(cost, w, w, pi, np.zeros(2)) == dual_gap(cost, w, w, pi.toarray(), np.zeros(2)) == 0


def test_mirror_ascent_with_weights():
    rng = np.random.default_rng(2)
    problem = Problem(rng.normal(size=(7, 3)), rng.normal(size=(5, 3)) + 0.5, rng.dirichlet(np.ones(7)), rng.dirichlet(np.ones(5)))
    S, V = algorithm_1(problem, 30, 0.2)
    for oracle in (optimal_coupling, sinkhorn(0.1), stochastic(0.1, rng=0)):
        S_, V_ = inexact_algorithm_1(problem, 30, 0.2, oracle)
        assert_allclose([np.trace(S_), np.trace(S)], 1)
        assert top_eigenvalue(V_) >= (S * V).sum() - 0.1
        if oracle is optimal_coupling:
            assert_allclose(S_, S)
            assert_allclose(V_, V)


def test_algorithm_2_on_a_hundred_instances():
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n, epsilon = int(rng.integers(5, 101)), (.2, .1, .05)[seed % 3]
        x, y, a = rng.normal(size=(n, 3)), rng.normal(size=(n, 3)), np.full(n, 1 / n)
        cost = ((x[:, None] - y) ** 2).sum(-1)
        cost /= cost.max()
        pi = stochastic(epsilon, rng=rng)(cost, a, a)
        pi = pi.toarray() if hasattr(pi, "toarray") else pi
        assert 0 <= (pi * cost).sum() - (optimal_coupling(cost, a, a) * cost).sum() + 1e-12 <= epsilon
        assert_allclose(pi.sum(1), a, atol=1e-12); assert_allclose(pi.sum(0), a, atol=1e-12)
