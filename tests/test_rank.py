"What the chapter on rank does not test inline: refusals, scales, symmetry, degenerate samples, faces by linear programming."
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog

from kms_nb.bundle import bundle
from kms_nb.data import blob
from kms_nb.kernels import Gaussian, median_bandwidth, pooled_features
from kms_nb.mirror import Problem
from kms_nb.rank import algorithm_4, evaluate, exactness, optimal_face, rank_bound, reduce_rank, squares, unit


def random_problem(rng, n, m, d=3, weights=False):
    a, b = (rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(m))) if weights else (np.full(n, 1 / n), np.full(m, 1 / m))
    return Problem(rng.integers(-2, 3, (n, d)).astype(float), rng.integers(-2, 3, (m, d)).astype(float), a, b)


def test_refusals():
    problem = random_problem(np.random.default_rng(0), 4, 5)
    for bad, error in ((0, ValueError), (-3, ValueError), (2.0, ValueError), (True, ValueError)):
        with pytest.raises(error, match="`n`"):
            rank_bound(bad)
        with pytest.raises(error, match="`m`"):
            rank_bound(4, bad)
    assert rank_bound(np.int64(4)) == 2 and isinstance(rank_bound(np.int64(4)), int)
    for tol in (-1e-3, 1, np.nan):
        with pytest.raises(ValueError, match="`tol`"):
            reduce_rank(problem, np.eye(3), tol=tol)
    for W in (np.eye(4), np.ones(3), np.zeros((3, 2)), np.full((3, 2), np.nan)):
        for reduce in (algorithm_4, reduce_rank):
            with pytest.raises(ValueError, match="`W`"):
                reduce(problem, W)
    with pytest.raises(ValueError, match="`W` has rank 101"):
        squares(np.zeros((20_000, 101)))


@pytest.mark.parametrize("scale", [1e-12, 1e16])
def test_units_do_not_matter(scale):
    rng = np.random.default_rng(1)
    for n, m, weights in ((5, 5, False), (6, 4, True)):
        problem, W = random_problem(rng, n, m, weights=weights), rng.normal(size=(3, 3))
        scaled = Problem(problem.phi * scale, problem.psi * scale, problem.a, problem.b)
        for reduce in (algorithm_4, reduce_rank):
            plain, other = reduce(problem, W), reduce(scaled, W / scale)
            assert (plain.rank_after, plain.dimension) == (other.rank_after, other.dimension)
            assert_allclose(other.value_after, plain.value_after * scale**2, rtol=1e-8)


def test_order_and_exchange_of_samples():
    rng = np.random.default_rng(2)
    problem, W = random_problem(rng, 6, 4, weights=True), rng.normal(size=(3, 3))
    i, j = rng.permutation(6), rng.permutation(4)
    plain = reduce_rank(problem, W)
    for other in (Problem(problem.phi[i], problem.psi[j], problem.a[i], problem.b[j]), Problem(problem.psi, problem.phi, problem.b, problem.a)):
        res = reduce_rank(other, W)
        assert res.rank_after == plain.rank_after and res.dimension == plain.dimension
        assert_allclose(res.value_after, plain.value_after)


def test_equal_samples_and_single_points():
    rng, third = np.random.default_rng(3), np.full(3, 1 / 3)
    x = rng.normal(size=(3, 2))
    for problem in (Problem(x, x[::-1], third, third), Problem(np.zeros((3, 2)), np.zeros((1, 2)), third, np.ones(1))):
        res = reduce_rank(problem, np.eye(2))
        assert res.value_before == res.value_after == 0 and res.rank_after == 1
        assert exactness(problem, res.factor, 0.0).exact
    one = reduce_rank(Problem(np.array([[1.0, 2.0]]), np.array([[4.0, 6.0]]), np.ones(1), np.ones(1)), np.eye(2), tol=0)
    assert one.rank_after == 1 and one.value_after >= one.value_before
    assert_allclose(one.value_before, 12.5)


def test_repeated_points_and_zero_tolerance():
    rng = np.random.default_rng(4)
    for _ in range(10):
        small, W = random_problem(rng, 4, 3), rng.normal(size=(3, 3))
        twice = Problem(np.repeat(small.phi, 2, 0), np.repeat(small.psi, 2, 0), np.full(8, 1 / 8), np.full(6, 1 / 6))
        res = reduce_rank(twice, W, tol=0)
        assert res.value_after >= res.value_before * (1 - 1e-11)
        assert_allclose(evaluate(small, res.factor)[0], res.value_after)
        assert "rounding" not in res.message


def test_points_without_weight_do_not_count():
    rng = np.random.default_rng(5)
    problem, W = random_problem(rng, 5, 4), unit(rng.normal(size=(3, 3)))
    a, b = np.r_[problem.a, 0], np.r_[0, problem.b]
    wider = Problem(np.vstack([problem.phi, np.ones(3)]), np.vstack([np.ones(3), problem.psi]), a, b)
    for V in (W, unit(np.eye(3))):
        plain, face = (optimal_face(p.cost(V), p.a, p.b) for p in (problem, wider))
        assert face.dimension == plain.dimension and set(zip(face.rows, face.cols - 1)) == set(zip(plain.rows, plain.cols))
    assert_allclose(reduce_rank(wider, W).value_after, reduce_rank(problem, W).value_after)


def test_face_against_linear_programming():
    "A pair is in the face if its mass can be positive at the optimal cost; the dimension is the affine one of the couplings that show it."
    rng, seen = np.random.default_rng(6), set()
    for _ in range(20):
        n, m = rng.integers(2, 5, 2)
        a, b = rng.integers(1, 4, n).astype(float), rng.integers(1, 4, m).astype(float)
        a, b = a / a.sum(), b / b.sum()
        cost = rng.integers(0, 3, (n, m)).astype(float)
        marginals, rhs = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))]), np.r_[a, b]
        least = linprog(cost.ravel(), A_eq=marginals, b_eq=rhs).fun
        optimal = [linprog(-v, A_eq=marginals, b_eq=rhs, A_ub=cost.ravel()[None], b_ub=[least + 1e-10]).x
                   for v in [*np.eye(n * m), *rng.normal(size=(20, n * m))]]
        mass = np.max(optimal[: n * m], axis=0).reshape(n, m)
        face = optimal_face(cost, a, b)
        assert set(zip(face.rows, face.cols)) == set(zip(*np.nonzero(mass > 1e-6)))
        assert face.dimension == np.linalg.matrix_rank(np.array(optimal) - optimal[0], tol=1e-6)
        seen.add(face.dimension)
    assert len(seen) > 2


@pytest.mark.parametrize("d, h1, n", [(d, h1, n) for d in (2, 20) for h1 in (True, False) for n in (20, 50)])
def test_safe_reduction_keeps_the_value_of_the_default_solver(d, h1, n):
    x, y = blob(n, d, h1=h1, variance=4 if h1 and d > 2 else None, rng=0)
    F = pooled_features(Gaussian(median_bandwidth(x, y) / np.sqrt(2)), x, y)
    problem = Problem(F.phi, F.psi, np.full(n, 1 / n), np.full(n, 1 / n))
    W = bundle(problem, tol=1e-4).factor
    result = reduce_rank(problem, W, tol=1e-9)
    assert result.value_after >= evaluate(problem, W)[0] * (1 - 1e-9) and result.rank_after <= rank_bound(n)
    assert_allclose(evaluate(problem, result.factor)[0], result.value_after)
