"Values worked out independently, the certificate, memory, and the faults that users of such libraries report."
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import ot
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist

from kms_nb import Gaussian, Laplace, Linear, kms_distance, kms_test, median_bandwidth
from kms_nb.bundle import bundle
from kms_nb.data import blob
from kms_nb.distance import _left_out, _scaled_problem, _upper
from kms_nb.kernels import pooled_features
from kms_nb.transport import wasserstein_1d
from strategies import by_fractions

ROOT = Path(__file__).resolve().parents[1]
X, Y = blob(12, 2, rng=5)

# (d, n, squared median distance, squared value of the relaxation), blob with seed 0, variance 4 for d = 20; by an independent implementation
REFERENCE = [(2, 10, 1.182651, 0.0578802), (2, 20, 1.003848, 0.3156319), (2, 50, 0.759884, 0.0285762),
             (20, 20, 16.576421, 0.5180388), (20, 30, 17.813288, 0.2201563), (20, 50, 18.870241, 0.1288766)]


def paper_kernel(x, y):
    return Gaussian(median_bandwidth(x, y) / np.sqrt(2))


@pytest.mark.parametrize("d, n, squared_median, value", REFERENCE)
def test_reference_values(d, n, squared_median, value):
    x, y = blob(n, d, variance=4 if d > 2 else None, rng=0)
    assert_allclose(median_bandwidth(x, y) ** 2, squared_median, rtol=1e-6)
    res = kms_distance(x, y, kernel=paper_kernel(x, y))
    assert res.relaxation ** 2 <= value * (1 + 1e-6) and value <= res.upper ** 2 * (1 + 1e-6)
    assert_allclose([res.relaxation ** 2, res.upper ** 2], value, rtol=.02)


@pytest.mark.parametrize("d, n, m", [(2, 10, 10), (20, 12, 12), (2, 14, 9), (20, 20, 20)])
def test_interior_point_lies_inside(d, n, m):
    x, y = blob(n, d, variance=4 if d > 2 else None, rng=1)
    y = y[:m]
    ours, reference = kms_distance(x, y), kms_distance(x, y, method="cvxpy")
    assert ours.relaxation <= reference.upper * (1 + 1e-9) and reference.relaxation <= ours.upper * (1 + 1e-9)
    assert reference.gap < 1e-5 and reference.converged


def test_memory_stays_below_two_gigabytes():
    code = ("import resource, kms_nb; from kms_nb.data import blob\n"
            "x, y = blob(1000, 20, variance=4, rng=0); r = kms_nb.kms_distance(x, y, max_iter=2); assert 0 < r.lower <= r.upper\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)")
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(out.stdout) < 2e6, f"{int(out.stdout) / 1e6:.2f} GB"


@pytest.mark.parametrize("scale", [1e-150, 1e-12, 1e16, 1e150])
def test_units_do_not_matter(scale):
    a, b = kms_distance(X, Y, kernel=Linear()), kms_distance(X * scale, Y * scale, kernel=Linear())
    assert_allclose([b.lower / scale, b.upper / scale], [a.lower, a.upper], rtol=1e-6)
    c, d = kms_distance(X, Y), kms_distance(X * scale, Y * scale)
    assert_allclose([d.lower, d.upper], [c.lower, c.upper], rtol=1e-6)


@pytest.mark.parametrize("kernel", [None, Laplace(.4), Linear()])
def test_order_of_rows_and_samples(kernel):
    a = kms_distance(X, Y, kernel=kernel)
    for b in (kms_distance(Y, X, kernel=kernel), kms_distance(X[::-1], Y[::-1], kernel=kernel)):
        assert a.lower <= b.upper and b.lower <= a.upper
        assert_allclose(b.lower, a.lower, rtol=1e-3)


@pytest.mark.parametrize("dtype, rtol", [(np.float32, 1e-5), (np.float16, 1e-2), (np.longdouble, 1e-12)])
def test_types_of_numbers(dtype, rtol):
    a, b = kms_distance(X, Y, kernel=Gaussian(.5)), kms_distance(X.astype(dtype), Y.astype(dtype), kernel=Gaussian(.5))
    assert_allclose([b.lower, b.upper], [a.lower, a.upper], rtol=max(rtol, 2e-3))


def test_integers_booleans_lists_and_frames():
    x, y = np.array([[1, 0], [2, 5], [3, 3]]), np.array([[4, 1], [0, 0]])
    a = kms_distance(x.astype(float), y.astype(float)).lower
    assert a == kms_distance(x, y).lower == kms_distance(x.tolist(), y.tolist()).lower == kms_distance(pd.DataFrame(x), pd.DataFrame(y)).lower
    assert kms_distance(x > 2, y > 2).lower == kms_distance((x > 2).astype(float), (y > 2).astype(float)).lower


def test_inputs_are_not_changed():
    x, y, w = X.copy(), Y.copy(), np.arange(1., 13)
    for a in (x, y, w): a.setflags(write=False)
    kms_distance(x, y, x_weights=w)
    kms_distance(np.asfortranarray(x)[::-1], y[:, ::-1][:, ::-1])
    kms_test(x, y, rng=0)
    assert (x == X).all() and (w == np.arange(1., 13)).all()


@pytest.mark.parametrize("x, y", [
    (np.repeat([[0., 0.], [1., 1.]], [7, 1], axis=0), np.repeat([[0., 0.], [2., 1.]], [5, 1], axis=0)),     # most points equal
    (np.c_[X, np.ones(12)], np.c_[Y, np.ones(12)]),                                                         # a constant feature
    (np.array([[1., 2.]]), np.array([[3., 2.]])),                                                           # one point each
    (np.arange(8.)[:, None], np.arange(4., 12)[:, None]),                                                   # a grid, shared rows
    (np.vstack([X, X[:5]]), np.vstack([Y, X[:3]])),                                                         # repeats within and across
])
def test_degenerate_samples(x, y):
    for kernel in (None, Laplace(.7), Linear()):
        res = kms_distance(x, y, kernel=kernel)
        assert 0 <= res.lower <= res.relaxation <= res.upper < np.inf
        assert_allclose(wasserstein_1d(res.projector(x), res.projector(y)), res.lower, rtol=1e-6, atol=1e-12)
        assert_allclose(res.coupling.sum(1), 1 / len(x)); assert_allclose(res.coupling.sum(0), 1 / len(y))


def test_equal_samples():
    for kernel in (None, Laplace(.7), Linear()):
        for method in ("bundle", "mirror", "local", "cvxpy"):
            res = kms_distance(X, X[::-1], kernel=kernel, method=method)
            assert 0 <= res.lower <= res.upper < 1e-4 and (method == "cvxpy" or res.upper == 0)
        assert kms_test(X, X[::-1], kernel=kernel, rng=0).pvalue == 1


BAD = [(np.nan, ValueError), (np.inf, ValueError), ("a", TypeError), (None, (TypeError, ValueError))]


@pytest.mark.parametrize("f", [kms_distance, kms_test])
@pytest.mark.parametrize("name", ["x", "y"])
def test_bad_samples_are_named(f, name):
    def call(bad): return f(bad, Y) if name == "x" else f(X, bad)
    for value, kind in BAD:
        cells = X.astype(object); cells[3, 1] = value
        with pytest.raises(kind, match=f"`{name}`"): call(cells)
    for bad in ([], np.empty((0, 2)), X[:, 0], X[None], np.array("text"), [[1, 2], [3]], 1j * X):
        with pytest.raises((ValueError, TypeError), match=f"`{name}`"): call(bad)
    with pytest.raises(ValueError, match="`y` has"): call(X[:, :1])


@pytest.mark.parametrize("w", [[1.] * 11, [-1.] + [1.] * 11, [0.] * 12, [np.nan] * 12, [[1.]] * 12, "w", [None] * 12])
def test_bad_weights_are_named(w):
    for name in ("x_weights", "y_weights"):
        with pytest.raises((ValueError, TypeError), match=f"`{name}`"): kms_distance(X, Y, **{name: w})


def test_weights_are_normalised():
    w = np.arange(1, 13)
    results = [kms_distance(X, Y, x_weights=v).lower for v in (w, w * 7., (w / w.sum()).astype(np.float32))]
    assert_allclose(results, results[0], rtol=1e-5)
    zero = kms_distance(np.vstack([X, [[99., 99.]]]), Y, kernel=Gaussian(.5), x_weights=[1.] * 12 + [0.])
    assert_allclose(zero.lower, kms_distance(X, Y, kernel=Gaussian(.5)).lower, rtol=2e-3)


def test_nothing_is_printed_or_warned(recwarn, capfd):
    kms_distance(X, Y); kms_distance(X, Y, method="cvxpy"); kms_distance(X, Y[:5], method="local"); kms_test(X, Y, rng=0)
    assert not list(recwarn) and capfd.readouterr() == ("", "")


def test_random_numbers():
    state = np.random.get_state()[1].tolist()
    a, b = (kms_distance(X, Y, n_features=8, rng=3) for _ in range(2))
    assert a.lower == b.lower and a.upper == b.upper
    assert kms_test(X, Y, rng=3).pvalue == kms_test(X, Y, rng=3, n_jobs=4).pvalue
    assert kms_test(X, Y, rng=np.random.default_rng(3)).pvalue == kms_test(X, Y, rng=np.random.default_rng(3), n_jobs=4).pvalue
    assert np.random.get_state()[1].tolist() == state


@pytest.mark.parametrize("p, weighted", [(2, False), (2, True), (1.5, False), (1, True)])
def test_bounds_by_cells(p, weighted):
    "For samples on which sorting proves little: above what exact transport attains, and close to it for p = 2."
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(600, 2)), rng.normal(size=(500, 2)) + [1, 0]
    options = dict(p=p, kernel=Gaussian(1.5), x_weights=rng.integers(1, 4, 600) if weighted else None)
    for n_features in (None, 25):
        local, exact = (kms_distance(x, y, method=method, n_features=n_features, **options) for method in ("local", "bundle"))
        assert exact.lower <= local.upper and local.lower <= exact.upper
        assert "cells" in local.message or local.converged
        if p == 2:
            assert local.upper < 1.05 * exact.upper


def test_squares_are_added_for_nystroem_features():
    "The interval speaks of the exact kernel, and what the features leave out is not simply added."
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(150, 4)), rng.normal(size=(150, 4)) + [1, 0, 0, 0]
    exact, few = (kms_distance(x, y, kernel=Gaussian(2.), n_features=k, rng=0) for k in (None, 30))
    root = float(few.message.split("would be ")[1].split(";")[0])
    assert exact.lower <= few.upper
    features = pooled_features(Gaussian(2.), x, y, n_features=30, rng=np.random.default_rng(0))
    left = np.sqrt(2 * ((features.residual_x ** 2).mean() + (features.residual_y ** 2).mean()))
    assert_allclose(few.upper, np.hypot(root, left), rtol=0.01)
    assert few.history[-1].upper == few.upper


def test_near_duplicate_landmarks_keep_the_bound():
    "Landmarks whose Gram matrix is nearly singular: features that rounding makes too long must not lower `upper`. The truth is sqrt(4/3)."
    dot = lambda u, v: np.asarray(u) @ np.asarray(v).T
    near = np.array([[1, 0, 0], [1, 0, 3e-6]])
    x, y = np.vstack([[0, 1, 6.], near]), np.vstack([[0, -1, 6.], near])
    assert kms_distance(x, y, kernel=dot, method="local", n_features=2, rng=0).upper >= np.sqrt(4 / 3) * (1 - 1e-9)


def test_spread_far_below_the_offset():
    "One column of ones, another of 1e-224: what the features leave out is rounding of the first, and its square must not overflow."
    r = kms_distance(np.array([[1, 1e-224]]), np.array([[1, 1e-224], [1, 0]]), kernel=Linear())
    assert 0 <= r.lower <= 1e-224 <= r.upper < 1e-14


@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_marginals_that_are_off_raise_the_bound(p):
    "What a coupling of a little too much mass proves, plus the missing or surplus mass times the largest distance."
    F = pooled_features(Gaussian(.5), X, Y[:9])
    problem, scale = _scaled_problem(F, np.full(12, 1 / 12), np.full(9, 1 / 9), p)
    relaxed = bundle(problem, p=p, tol=.01)
    exact, off = (_upper(replace(relaxed, coupling=c * relaxed.coupling), F, problem, scale, p) for c in (1, 1.001))
    assert_allclose(exact[1] ** p, relaxed.upper, rtol=1e-9)
    largest = cdist(problem.phi, problem.psi).max()
    assert off[1] ** p >= relaxed.upper + 2 * .002 * largest ** p * (1 - 1e-9) and off[0](off[1]) > exact[0](exact[1])


@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_what_few_features_leave_out_for_rows_in_common(p):
    "One coupling that moves few rows proves less to be left out for p = 2 only: for other orders the bound comes from a mixture of tangents."
    kernel, n_features = lambda x, y: Gaussian(.3)(x, y), 3              # a function: for `Gaussian` itself the diameter is a bound too
    x, y = np.vstack([X, Y[:6]]), np.vstack([X, Y[6:]])
    F = pooled_features(kernel, x, y, n_features=n_features, rng=np.random.default_rng(0))
    problem, scale = _scaled_problem(F, np.full(18, 1 / 18), np.full(18, 1 / 18), p)
    everywhere = np.sqrt(2 * ((F.residual_x ** 2).mean() + (F.residual_y ** 2).mean()))
    pi = bundle(problem, p=2, tol=.01).coupling
    assert_allclose(scale * _left_out(F, problem, scale, pi, False), everywhere, rtol=1e-9)
    assert_allclose(scale * _left_out(F, problem, scale, None, True), everywhere, rtol=1e-9)
    assert scale * _left_out(F, problem, scale, pi, True) < .95 * everywhere
    exact, few = (kms_distance(x, y, p=p, kernel=kernel, n_features=k, rng=0) for k in (None, n_features))
    assert exact.lower <= few.upper
    root = float(few.message.split("would be ")[1].split(";")[0])
    if p < 2: assert_allclose(few.upper, min(root + everywhere, np.hypot(root, everywhere) + 2 * F.rounding), rtol=1e-4)
    else: assert few.upper < np.hypot(root, everywhere) * .99


@pytest.mark.parametrize("kernel", [None, Laplace(.4), Linear()])
@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_converged_means_that_the_interval_is_as_narrow_as_the_tolerance(kernel, p):
    "Whatever the solver said of its own bound, and whatever the features leave out."
    for options in (dict(tol=.3), dict(tol=1e-3), dict(tol=1e-12, max_iter=3), dict(n_features=5), dict(n_features=5, tol=.9), dict(method="local"), dict(method="local", tol=.9)):
        res, tol = kms_distance(X, Y, p=p, kernel=kernel, **options), options.get("tol", 1e-3)
        assert res.converged == ((res.upper ** p - res.relaxation ** p) / res.upper ** p <= tol) == (res.gap <= tol) == (res.message.split(";")[0] == "converged")


@pytest.mark.parametrize("p", [2.5, 3, 10])
def test_high_orders_on_the_line(p):
    rng = np.random.default_rng(0)
    for m in (20, 13):
        u, v = rng.normal(size=20), rng.gamma(2., size=m)
        expected = ot.wasserstein_1d(u, v, p=p) ** (1 / p)
        if m == 20: assert_allclose(expected, np.mean(np.abs(np.sort(u) - np.sort(v)) ** p) ** (1 / p))
        res = kms_distance(u[:, None], v[:, None], p=p, kernel=Linear())
        assert_allclose(res.lower, expected, rtol=1e-9)
        assert res.lower <= res.upper <= np.abs(u[:, None] - v).max() * (1 + 1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("p", [50, 150, 500])
def test_very_high_orders_neither_vanish_nor_overflow(p):
    rng = np.random.default_rng(1)
    for u, v in ((rng.normal(size=30), rng.normal(size=30) + 1), (np.arange(8.), np.arange(8.) + 3e-7), (1e100 * rng.normal(size=9), 1e100 * rng.normal(size=9))):
        gap = np.abs(np.sort(u) - np.sort(v))
        expected = gap.max() * np.mean((gap / gap.max()) ** p) ** (1 / p)
        res = kms_distance(u[:, None], v[:, None], p=p, kernel="linear")
        assert_allclose(res.lower, expected, rtol=1e-6)
        assert res.lower <= res.upper < np.inf


@pytest.mark.parametrize("options", [dict(max_iter=np.int64(7)), dict(n_features=np.uint8(30)), dict(max_iter=np.int8(3), n_features=np.int16(9)), dict(tol=np.float32(.01)), dict(p=Fraction(3, 2)), dict(p=np.float32(1.5)), dict(p=np.int8(2)), dict(max_seconds=np.float32(60)), dict(max_seconds=Fraction(60))])
@pytest.mark.parametrize("method", ["auto", "local"])
def test_numbers_of_other_types_as_options(options, method):
    x, y = blob(100, 2, rng=0)                                                       # 30 features of 200 rows: products beyond 255
    plain = {name: value if name == "tol" else float(value) if name in ("p", "max_seconds") else int(value) for name, value in options.items()}
    a, b = kms_distance(x, y, method=method, kernel=Gaussian(.5), **options), kms_distance(x, y, method=method, kernel=Gaussian(.5), **plain)
    assert (a.lower, a.upper, a.n_iter, a.converged) == (b.lower, b.upper, b.n_iter, b.converged) and type(a.p) is float


@pytest.mark.parametrize("method", ["mirror", "cvxpy", "exact"])
@pytest.mark.parametrize("p", [Fraction(3, 2), 1.5, np.float32(1.5), 3])
def test_methods_for_the_second_order_only(method, p):
    with pytest.raises(ValueError, match=f"`method`='{method}' is for `p`=2; for p={float(p):g} use 'bundle'"): kms_distance(X, Y, p=p, method=method)


def test_a_kernel_in_single_precision_keeps_a_useful_interval():
    "Rounding of 1e-7 leaves fewer features, and is allowed for at both ends."
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 1
    exact = kms_distance(x, y, kernel=Gaussian(1.0))
    res = kms_distance(x, y, kernel=lambda a, b: Gaussian(1.0)(a, b).astype(np.float32), n_features=30)
    assert exact.lower - 0.01 < res.lower <= exact.upper <= res.upper < 0.7 and "float32" in res.message
    z, c = res.projector.points, res.projector.coef
    assert c @ Gaussian(1.0)(z, z) @ c <= 1 + 1e-12                                      # of the kernel itself, not of its rounded values
    assert "float" not in kms_distance(x, y, kernel=Gaussian(1.0), n_features=30).message


@pytest.mark.parametrize("p", [1, 2, 4, 10, 50, 300])
def test_weights_of_any_size_on_the_line(p):
    rng = np.random.default_rng(int(p))
    for k in range(24):
        n, m = rng.integers(1, 7, 2)
        u, v = rng.normal(size=n), rng.normal(size=m)
        a, b = ((rng.integers(1, 20, s).astype(float), 10.0 ** rng.integers(-30, 31, s), rng.random(s) + 1e-9)[k % 3] for s in (n, m))
        truth, res = by_fractions(u, v, a, b, p), kms_distance(u[:, None], v[:, None], kernel=Linear(), p=p, x_weights=a, y_weights=b, max_iter=5)
        assert res.lower <= truth * (1 + 1e-9) + 1e-13 and truth <= res.upper * (1 + 1e-9) + 1e-13


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("tiny", [1.4587539e-305, 1e-250, 1e-200, 1e-120])
@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_features_far_below_their_rounding(tiny, p):
    "The last column sets the rounding, the second one all of the difference."
    x, y = np.array([[0, tiny, 1.0]]), np.array([[0, tiny, 1.0], [0, 0, 1.0]])
    r = kms_distance(x, y, kernel=Linear(), p=p)
    assert 0 <= r.lower <= tiny * (1 + 1e-9) and tiny / 2 ** (1 / p) <= r.upper < 1e-14


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e-290, 1e-170, 3.6e168, 1e300])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_one_row_against_itself(size, p):
    "No features at all, and a rounding of any size."
    x = np.array([[0, size]])
    r = kms_distance(x, x, kernel=Linear(), p=p)
    assert r.lower == 0 and r.upper <= 1e-13 * size


@pytest.mark.parametrize("method", ["bundle", "cvxpy"])
def test_threads_keep_the_warnings_of_the_program(method):
    "`warnings.catch_warnings` in two threads at once can leave everything silent for good."
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 2)), rng.normal(size=(15, 2)) + .5
    kms_distance(x, y, kernel=Gaussian(.5), method=method)
    before = list(warnings.filters)
    with ThreadPoolExecutor(4) as pool: found = list(pool.map(lambda _: kms_distance(x, y, kernel=Gaussian(.5), method=method, tol=1e-4).upper, range(8)))
    assert warnings.filters == before and len(set(found)) == 1


def test_no_bound_beyond_the_diameter():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(350, 5)), rng.normal(size=(380, 5)) + .3
    for kernel in (Gaussian(.3), Laplace(.1)):
        for p in (1, 2, 5):
            res = kms_distance(x, y, p=p, kernel=kernel, n_features=40, max_iter=2)
            assert res.lower <= res.upper <= np.sqrt(2) * (1 + 1e-15)


def test_no_rank_from_the_relaxation_of_order_two_for_higher_orders():
    x, y = blob(12, 2, rng=3)
    for p in (2.5, 3, 8):
        res = kms_distance(x, y, p=p, kernel=Gaussian(.5))
        assert res.rank == 1 and res.relaxation == res.lower and res.factor.shape[1] == 1
    assert kms_distance(x, y, kernel=Gaussian(.5)).rank > 1


@pytest.mark.parametrize("p", [1, 1.5, 2, 3, 10, 30, 100])
@pytest.mark.parametrize("light", [1e-6, 1e-12, 3e-15, 1e-16, 1e-17])
@pytest.mark.parametrize("where", ["end", "start", "middle"])
def test_light_rows_leave_the_lower_bound_valid(p, light, where):
    "One row of weight `light` lies at 1 from where all other mass of both samples lies: W_p^p is its share of the weight. Partial sums know such weights to 1e-16 only, which is not little after a p-th root."
    place = {"end": [0, 0, 1], "start": [1, 0, 0], "middle": [0, .5, 0]}[where]
    x, y, gap = np.array(place)[:, None], np.zeros((2, 1)), max(place)
    weights = np.array([light if v else w for v, w in zip(place, (1, .3, 2))])
    truth = gap * (light / weights.sum()) ** (1 / p)
    for y, b in ((y, [.3, .4]), (y, [1, 1]), (np.array([[-1e6], [0], [0], [1e6]]), [0, 1, 1, 0])):           # rows of weight zero do not exist
        res = kms_distance(x, y, p=p, kernel="linear", x_weights=weights, y_weights=b)
        assert res.lower <= truth * (1 + 1e-12) and truth <= res.upper * (1 + 1e-12)
        back = kms_distance(y, x, p=p, kernel="linear", x_weights=b, y_weights=weights)
        assert back.lower <= truth * (1 + 1e-12) and truth <= back.upper * (1 + 1e-12) and (light < 1e-11 or back.lower > .99 * truth)


@pytest.mark.parametrize("p", [1, 2, 3, 20])
def test_rows_of_weight_zero_take_no_mass(p):
    "Partial sums that differ by rounding are made equal; those of a row without weight must not be, or it would get the mass of a light row."
    for light in (1e-13, 1e-15, 1e-17):
        u, a, v, b = np.array([[0.], [1.]]), [light, 1], np.array([[-1e6], [1.], [1.], [3e7]]), [0, 1, 1, 0]
        exact = wasserstein_1d(u, v[1:3], np.array(a), None, p)
        assert wasserstein_1d(u, v, np.array(a), np.array(b), p) == pytest.approx(exact, rel=1e-12)
        res, without = kms_distance(u, v, p=p, kernel=Gaussian(1.), x_weights=a, y_weights=b), kms_distance(u, v[1:3], p=p, kernel=Gaussian(1.), x_weights=a)
        assert res.lower <= without.upper * (1 + 1e-9) and without.lower <= res.upper * (1 + 1e-9) and res.lower == pytest.approx(without.lower, rel=1e-6, abs=1e-12)
