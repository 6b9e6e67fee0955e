"The default solver, re-checked by independent code: another transport solver, dense eigenvalues, the sorted distance in one dimension."
import numpy as np
import ot
import pytest
from numpy.testing import assert_allclose

from kms_nb import Gaussian, Laplace, Linear, kms_distance, median_bandwidth
from kms_nb.bundle import _Bundle, bundle
from kms_nb.data import blob
from kms_nb.local import ascend, polish
from kms_nb.kernels import pooled_features
from kms_nb.mirror import Problem
from kms_nb.transport import wasserstein_1d


def problem_of(x, y, kernel=None, a=None, b=None):
    F = pooled_features(kernel or Gaussian(median_bandwidth(x, y) / np.sqrt(2)), x, y)
    uniform = lambda n: np.full(n, 1 / n)
    return Problem(F.phi, F.psi, uniform(len(x)) if a is None else a, uniform(len(y)) if b is None else b)


@pytest.mark.parametrize("d, n, m, h1", [(2, 60, 60, True), (2, 60, 60, False), (20, 80, 80, False), (20, 70, 45, True)])
@pytest.mark.parametrize("max_iter", [1, 3, 300])
def test_intervals_hold_also_when_stopped_early(d, n, m, h1, max_iter):
    x, y = blob(n, d, h1=h1, rng=3)
    problem = problem_of(x, y[:m])
    res = bundle(problem, tol=1e-4, max_iter=max_iter)
    pi, W = res.coupling.toarray(), res.factor
    displaced = problem.phi[:, None] - problem.psi[None]
    V = np.einsum("ij,ijk,ijl->kl", pi, displaced, displaced, optimize=True)
    assert np.linalg.eigvalsh(V)[-1] <= res.upper * (1 + 1e-10)
    assert_allclose(pi.sum(1), problem.a, atol=1e-14); assert_allclose(pi.sum(0), problem.b, atol=1e-14); assert pi.min() >= 0
    assert_allclose(np.sum(W ** 2), 1)
    assert_allclose(ot.emd2(problem.a, problem.b, ((displaced @ W) ** 2).sum(-1)), res.value, rtol=1e-9)
    assert res.converged == (max_iter == 300) and len(res.history) <= max_iter


@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_one_dimension(p):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        u, v = rng.normal(size=(rng.integers(1, 40), 1)), rng.normal(size=(rng.integers(1, 40), 1)) + rng.choice([0, 1])
        a, b = rng.dirichlet(np.ones(len(u))), rng.dirichlet(np.ones(len(v)))
        res = kms_distance(u, v, kernel=Linear(), p=p, x_weights=a, y_weights=b)
        exact = ot.emd2_1d(u[:, 0], v[:, 0], a, b, metric="minkowski", p=p) ** (1 / p)
        assert_allclose(wasserstein_1d(u, v, a, b, p), exact, rtol=1e-9)
        assert res.lower <= exact * (1 + 1e-9) and exact <= res.upper * (1 + 1e-9)
        assert_allclose(res.lower, exact, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
def test_scale_of_features(scale):
    problem = problem_of(*blob(30, 2, rng=1))
    scaled = Problem(problem.phi * scale, problem.psi * scale, problem.a, problem.b)
    a, b = bundle(problem, tol=1e-4), bundle(scaled, tol=1e-4)
    assert b.converged and a.value <= b.upper / scale ** 2 * (1 + 1e-9) and b.value / scale ** 2 <= a.upper * (1 + 1e-9)


def test_two_hundred_small_instances():
    "Few couplings exist here, so the oracle soon repeats itself; repeated cuts once made the master run forever."
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n, m = rng.integers(1, 6, 2)
        x, y = rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) * rng.choice([.5, 1, 2]) + rng.choice([0, 2])
        if seed % 4 == 0: x, y = x.round(), y.round()
        kernel = (Gaussian(1.), Laplace(1.), Linear())[seed % 3]
        res, problem = kms_distance(x, y, kernel=kernel), problem_of(x, y, kernel)
        ends = sorted((ascend(problem, w) for w in rng.normal(size=(20, problem.phi.shape[1]))), key=lambda end: -end[0])
        best = max(polish(problem, w)[0] for _, w in ends[:3]) ** .5
        assert best <= res.upper * (1 + 1e-9) + 1e-12 and res.lower >= best * (1 - 1e-4), (seed, best, res)
        assert 0 <= res.lower <= res.relaxation <= res.upper


@pytest.mark.parametrize("x, y, options", [
    ([[1, -2], [-2, 2], [-2, -1], [2, 0]], [[1, -2], [-2, 2], [-2, -1], [2, -2]], dict(kernel=Gaussian(1 / np.sqrt(1.4)), tol=1e-3)),
    ([[2, 0, -1], [2, 1, -1], [2, 2, 1], [2, 0, 1], [2, 2, 1], [2, -2, 0]], [[2, 0, -1], [2, 1, -1]], dict(p=1, tol=1e-2)),
])
def test_rows_in_common_do_not_stall(x, y, options):
    "The first coupling moves few pairs, so that the leading eigenvectors of its moment miss the directions that matter."
    res = kms_distance(np.array(x, float), np.array(y, float), **options)
    assert res.converged and res.n_iter <= 30


def test_small_hostile_problems_converge():
    "Rows in common, rounded features, unequal sizes and weights: the interval closes on all of them."
    for seed in range(120):
        rng = np.random.default_rng(seed)
        (n, m), d = rng.integers(2, 9, 2), rng.integers(1, 7)
        phi, psi = rng.normal(size=(n, d)), rng.normal(size=(m, d)) * rng.choice([0.5, 1, 2])
        common = rng.integers(0, min(n, m) + 1)
        psi[:common] = phi[:common]
        if rng.random() < 0.5: phi, psi = np.round(phi), np.round(psi)
        res = bundle(Problem(phi, psi, rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(m))), p=rng.choice([1, 1.5, 2]), max_iter=150)
        assert res.converged and 0 <= res.value <= res.upper * (1 + 1e-14), seed            # the value is rounded too


def test_a_widened_basis_is_orthonormal():
    "A column that lies in the span of the others leaves a QR factorisation with one that may lie anywhere, and those after it may no longer be orthogonal to the basis."
    rng = np.random.default_rng(0)
    for r in (6, 9, 30):
        for trial in range(20):
            state, basis = _Bundle.__new__(_Bundle), np.linalg.qr(rng.normal(size=(r, 4)))[0]
            state.E, state.e, state.S, state.model = basis, np.array([4.0, 3, 2, 1]), np.eye(4) / 4, 1
            new = np.column_stack([basis @ rng.normal(size=4) + 1e-12 * rng.normal(size=r), basis[:, 0], rng.normal(size=(r, 2)), basis @ rng.normal(size=4)])
            state.widen(new[:, rng.permutation(5)])
            assert state.E.shape == (r, 6) and len(state.e) == len(state.S) == 6 and state.model is None
            assert_allclose(state.E.T @ state.E, np.eye(6), atol=1e-12)
            assert_allclose(np.trace(state.S), 1)


def test_a_basis_of_all_directions_does_not_stall():
    x = np.array([[-2.9416321533704473, -8.411674279503618, -2.9416321533704473], [-2.9416321533704473, -2.711572966322912, 0], [-2.9416321533704473, -8.298166385581176, 2.220446049250313e-16],
                  [-9.265052265042065, -2.9416321533704473, 1], [3.497705164198777, 3.772936723395082, 0], [0, 0, -2.9416321533704473], [-2.9416321533704473, -8.411674279503618, -2.9416321533704473]])
    for tol in (.01, 1e-3, 1e-4):
        res = kms_distance(x, x[:6], p=1.7607543508502899, kernel=Gaussian(1.0), tol=tol)
        assert res.converged and res.lower <= .3264 and res.upper >= .326346


def test_a_basis_that_lacks_what_the_cuts_see_does_not_stall():
    "The leading eigenvectors of the mixture may all lie in the basis while other cuts have their largest moments outside of it: tangents of order one where features do not move."
    x, y = np.array([[-1.0], [-2]]), np.array([[1.0], [-1], [2], [-2]])
    for p in (1, 1.01, 1.2):
        for tol in (.01, 1e-3, 1e-5):
            res = kms_distance(x, y, p=p, kernel=Gaussian(.3), tol=tol)
            assert res.converged
            if p == 1: assert_allclose([res.lower, res.upper], .500966, rtol=1e-4 + tol)
