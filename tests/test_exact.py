"Branch and bound: against independent ways to the global maximum, and as the truth that the other solvers must enclose."
import time
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kms_nb import Gaussian, Laplace, Linear, kms_distance
from kms_nb.bundle import bundle
from kms_nb.data import blob
from kms_nb.exact import branch_and_bound, cone_bound, cone_master, sweep
from kms_nb.kernels import median_bandwidth, pooled_features
from kms_nb.local import best_direction, direction
from kms_nb.mirror import Problem, mirror_ascent
from kms_nb.transport import wasserstein_1d

ROUND = 1 + 1e-9


def problem_of(x, y, kernel=None):
    F = pooled_features(kernel or Gaussian(median_bandwidth(x, y) / np.sqrt(2)), x, y)
    return Problem(F.phi, F.psi, np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y)))


def random_problem(seed, r=2, most=8):
    "Random features of unequal sizes; every other one with random weights, every fifth with repeated and shared rows."
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, most + 1, 2)
    phi, psi = rng.normal(size=(n, r)), rng.normal(size=(m, r)) * rng.choice([.5, 1, 2])
    if seed % 5 == 0: phi, psi = phi.round(), psi.round(); psi[0] = phi[0]
    weights = lambda k: rng.dirichlet(np.ones(k)) if seed % 2 else np.full(k, 1 / k)
    return Problem(phi, psi, weights(n), weights(m))


def test_two_features_against_the_sweep():
    for seed in range(1000, 1040):
        problem = random_problem(seed)
        truth, res = sweep(problem)[0], branch_and_bound(problem)
        assert res.converged and res.lower <= truth * ROUND and truth <= res.upper * ROUND, seed


def test_the_sweep_against_a_fine_grid():
    angles = np.linspace(0, np.pi, 4001)
    for seed in range(10):
        problem = random_problem(seed)
        grid = max(direction(problem, np.array([np.cos(t), np.sin(t)]))[0] for t in angles)
        assert grid <= sweep(problem)[0] * ROUND and sweep(problem)[0] <= grid * 1.01 + 1e-12


def test_sweep_needs_two_features():
    with pytest.raises(ValueError, match="`problem`"): sweep(random_problem(1, r=3))


@pytest.mark.parametrize("part", range(5))
def test_other_solvers_enclose_the_truth(part):
    "lower <= exact <= upper for the bundle, mirror and local solvers on fifty small instances."
    for seed in range(part, 50, 5):
        problem = random_problem(seed, r=int(2 + seed % 4), most=7)
        res = branch_and_bound(problem)
        assert res.converged, (seed, res)
        for other in (bundle(problem), bundle(problem, exact=False, max_iter=20), mirror_ascent(problem, max_iter=50)):
            assert res.lower <= other.upper * ROUND, seed                   # a direction against a bound of the relaxation
        found = best_direction(problem, other.factor, None, np.random.default_rng(0))[0]
        assert found <= res.upper * ROUND and found >= res.lower * (1 - 2e-3), seed


@pytest.mark.parametrize("d, n, h1, seed, squared", [(2, 10, True, 0, 0.054415), (2, 20, False, 2, 0.021430), (20, 10, True, 0, 0.318258)])
def test_values_worked_out_by_another_implementation(d, n, h1, seed, squared):
    res = branch_and_bound(problem_of(*blob(n, d, h1=h1, variance=4 if d > 2 else None, rng=seed)))
    assert res.converged and abs(res.lower / squared - 1) < 1e-4 and squared * (1 - 1e-4) <= res.upper <= squared * 1.0012


def test_random_points_do_not_exceed_the_bound():
    rng = np.random.default_rng(0)
    for seed in range(12):
        problem = random_problem(seed, r=4)
        res = branch_and_bound(problem)
        values = [direction(problem, w / np.linalg.norm(w))[0] for w in rng.normal(size=(300, 4))]
        assert max(values) <= res.upper * ROUND
        assert_allclose(direction(problem, res.omega)[0], res.lower, rtol=1e-12, atol=1e-15)


def test_bound_of_a_cone_holds_at_its_points():
    rng = np.random.default_rng(1)
    for seed in range(20):
        problem, A = random_problem(seed, r=3), rng.normal(size=(3, 3))
        N = rng.exponential(size=(3, 3)); N = (N + N.T) * (1 - np.eye(3))
        V = problem.moment(problem.coupling(rng.normal(size=(3, 2))))
        w = np.linalg.solve(A, rng.exponential(size=(3, 200))).T                       # Aw >= 0
        bound = cone_bound(V, A, N)[0]
        assert max(direction(problem, v / np.linalg.norm(v))[0] for v in w) <= bound * ROUND


def test_limits_leave_a_valid_interval():
    problem, exact = problem_of(*blob(50, 2, rng=0)), 0.025852
    for limits in (dict(max_seconds=1e-6), dict(max_seconds=1.0), dict(max_cones=0), dict(max_cones=5)):
        start = time.process_time()
        res = branch_and_bound(problem, **limits)
        assert not res.converged and "stopped" in res.message and time.process_time() - start < 10
        assert res.lower <= exact * 1.001 and exact * .9999 <= res.upper and len(res.history) == res.n_cones + 1
        assert all(a.upper >= b.upper and a.relaxation <= b.relaxation for a, b in zip(res.history, res.history[1:]))


@pytest.mark.parametrize("kernel", [Gaussian(1.), Laplace(1.), Linear()])
def test_equal_constant_and_single_samples(kernel):
    x = np.random.default_rng(0).normal(size=(6, 2))
    for a, b in ((x, x[::-1]), (np.ones((3, 2)), np.ones((2, 2))), (x[:1], x[:1])):
        res = branch_and_bound(problem_of(a, b, kernel))
        assert 0 <= res.lower <= res.upper < 1e-14 and res.gap <= 1
    one = branch_and_bound(problem_of(x[:1], x[1:2], kernel))
    K = kernel(x[:2], x[:2])
    assert_allclose([one.lower, one.upper], K[0, 0] + K[1, 1] - 2 * K[0, 1], rtol=1e-3)


def test_kms_distance_exact():
    x, y = blob(20, 2, h1=False, rng=2)
    kernel, weights = Gaussian(.5), np.arange(1., 21)
    for kw in ({}, dict(x_weights=weights), dict(n_features=12)):
        exact, loose = (kms_distance(x, y[:15], kernel=kernel, method=m, **kw) for m in ("exact", "bundle"))
        assert exact.method == "exact" and exact.rank == 1 and exact.relaxation == exact.lower
        assert exact.lower <= loose.upper * ROUND and loose.lower <= exact.upper * ROUND
        if not kw.get("n_features"): assert exact.converged and exact.gap <= 1e-3 and exact.upper <= loose.upper * ROUND
        assert_allclose(wasserstein_1d(exact.projector(x), exact.projector(y[:15]), a=kw.get("x_weights")), exact.lower, rtol=1e-9)
        assert_allclose(exact.projector.norm, 1, rtol=1e-9)


def test_kms_distance_exact_stops_and_says_so():
    x, y = blob(50, 2, rng=0)
    kernel = Gaussian(median_bandwidth(x, y) / np.sqrt(2))
    for limit, word in ((dict(max_seconds=1e-3), "second"), (dict(max_iter=2), "2 cones")):
        res = kms_distance(x, y, kernel=kernel, method="exact", **limit)
        assert not res.converged and word in res.message and res.lower ** 2 < .02588 and res.upper ** 2 > .025851
    with pytest.raises(ValueError, match="`method`='exact' is for `p`=2"): kms_distance(x, y, method="exact", p=1)
    for bad in (0, -1, "1", True, np.nan):
        with pytest.raises(ValueError, match="`max_seconds`"): kms_distance(x, y, method="exact", max_seconds=bad)


@pytest.mark.parametrize("scale", [1e-150, 1e-12, 1e16, 1e150])
def test_units_do_not_matter(scale):
    x, y = blob(10, 2, rng=0)
    a, b = kms_distance(x, y, kernel=Linear(), method="exact"), kms_distance(x * scale, y * scale, kernel=Linear(), method="exact")
    assert a.converged and b.converged and a.lower * scale <= b.upper * ROUND and b.lower <= a.upper * scale * ROUND


def test_small_programs_end_in_silence():
    "Repeated matrices make the Newton system singular at the end; what is returned is feasible all the same."
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for t in range(400):
            q, K, J = rng.integers(1, 6), rng.integers(1, 5), rng.integers(0, 5)
            B, C = rng.normal(size=(K, q, q)), rng.normal(size=(J, q, q))
            V, C = B @ B.transpose(0, 2, 1), C + C.transpose(0, 2, 1)
            if t % 3 == 1: V[:] = V[0]
            if t % 3 == 2: V, C = np.concatenate([V, V]), np.concatenate([C, C])
            w, nu, S = cone_master(V, C, tol=10.0 ** -rng.integers(4, 15))
            assert abs(w.sum() - 1) < 1e-12 and (w >= 0).all() and (nu >= 0).all() and abs(np.trace(S) - 1) < 1e-12
            bound = np.linalg.eigvalsh(np.tensordot(w, V, 1) + np.tensordot(nu, C, 1))[-1]
            if (C * S).sum((1, 2)).min(initial=0) > -1e-9: assert bound > (V * S).sum((1, 2)).min() * (1 - 1e-9)  # weak duality
