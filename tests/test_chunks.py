"Dask arrays: what chunks, schedulers, types and interrupts must not change, and bounds against exact solvers."
import subprocess
import sys
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import rbf_kernel

from kms_nb import Gaussian, KMSProjector, Laplace, Linear, chunks, kernels, kms_distance, kms_test
from kms_nb.cells import couple_trees, halve
from kms_nb.data import blob
from kms_nb.transport import wasserstein_1d

ROOT = Path(__file__).resolve().parents[1]
X, Y = blob(300, 2, rng=5)
Y = Y[:250]


def cut(z, rows=64):
    return da.from_array(z, chunks=(rows, -1))


def bounds(r):
    return [r.lower, r.upper]


@pytest.fixture
def small_sample(monkeypatch):
    monkeypatch.setattr(chunks, "SAMPLE", 120)
    monkeypatch.setattr(chunks, "STEP", 50)


# ---------------------------------------------------------------- what must not change the result


@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_chunks_do_not_matter(small_sample, p):
    forms = [(cut(X, 300), cut(Y, 250)), (cut(X, 31), cut(Y, 9)), (da.from_array(X, chunks=((1, 0, 149, 150), (1, 1))), cut(Y, 99)), (cut(X, 50), Y), (X, cut(Y))]
    results = [kms_distance(*form, p=p, kernel=Gaussian(.5), n_features=30) for form in forms]
    for r in results: assert_allclose(bounds(r), bounds(results[0]), rtol=1e-9)
    assert_allclose(wasserstein_1d(results[0].projector(X), results[0].projector(Y), p=p), results[0].lower, rtol=1e-9)


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_schedulers_do_not_matter(scheduler):
    reference = kms_distance(cut(X), cut(Y), n_features=20, max_iter=2)
    with dask.config.set(scheduler=scheduler, num_workers=2): assert_allclose(bounds(kms_distance(cut(X, 150), cut(Y, 250), n_features=20, max_iter=2)), bounds(reference), rtol=1e-9)


def test_same_seed_same_result(small_sample):
    a, b, c = (kms_distance(cut(X), cut(Y), n_features=20, rng=seed) for seed in (3, np.random.default_rng(3), 4))
    assert bounds(a) == bounds(b) != bounds(c)


def test_types_of_numbers():
    for convert in (np.float32, lambda z: (z * 4).astype(np.int8), lambda z: z > .5, np.asfortranarray):
        x, y = convert(X), convert(Y)
        as_float = kms_distance(cut(x.astype(float)), cut(y.astype(float)), n_features=20)
        assert_allclose(bounds(kms_distance(cut(x), cut(y), n_features=20)), bounds(as_float), rtol=1e-9)
    assert bounds(kms_distance(cut(X), cut(Y), kernel="gaussian", n_features=20)) == bounds(kms_distance(cut(X), cut(Y), n_features=20))
    frame = pd.DataFrame(Y)
    assert bounds(kms_distance(cut(X), frame, n_features=20)) == bounds(kms_distance(cut(X), frame.values.tolist(), n_features=20))


@pytest.mark.parametrize("scale", [1e-100, 1e-12, 1e16, 1e100])
def test_units_do_not_matter(scale):
    for kernel in (Linear(), None):
        unit = 1 if kernel is None else scale
        a, b = (kms_distance(cut(X * s), cut(Y * s), kernel=kernel, n_features=20) for s in (1, scale))
        assert_allclose(np.divide(bounds(b), unit), bounds(a), rtol=1e-4)


def test_order_of_rows_and_samples():
    a = kms_distance(cut(X), cut(Y), n_features=40)
    for b in (kms_distance(cut(Y), cut(X), n_features=40), kms_distance(cut(X[::-1]), cut(Y[::-1]), n_features=40)):
        assert_allclose(b.lower, a.lower, rtol=1e-2)
        assert a.lower <= b.upper and b.lower <= a.upper


# ---------------------------------------------------------------- the interval


@pytest.mark.parametrize("n_features", [2, 20])
@pytest.mark.parametrize("p, kernel", [(2, Gaussian(.4)), (2, Laplace(.4)), (2, Linear()), (2, rbf_kernel), (1, Gaussian(.4)), (1.5, Laplace(1.))])
def test_interval_against_exact_features_and_transport(small_sample, n_features, p, kernel):
    for x, y in (blob(100, 2, rng=1), blob(100, 2, h1=False, rng=2)):
        exact = kms_distance(x, y[:90], p=p, kernel=kernel, tol=.01)
        ours = kms_distance(cut(x), cut(y[:90]), p=p, kernel=kernel, n_features=n_features)
        assert exact.lower <= ours.upper * (1 + 1e-12) and ours.lower <= exact.upper and ours.lower <= ours.upper
        assert_allclose(ours.projector.norm, 1, rtol=1e-6)
        for bound in ours.history: assert bound.relaxation <= ours.lower and bound.upper >= ours.upper


@pytest.mark.parametrize("kernel", [Gaussian(1.), Linear()])
def test_values_close_to_exact_ones(kernel):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 2)), rng.normal(size=(250, 2)) + [1, 0]
    exact, ours = kms_distance(x, y, kernel=kernel), kms_distance(cut(x), cut(y), kernel=kernel, n_features=80)
    assert_allclose(ours.lower, exact.lower, rtol=1e-2)
    assert exact.lower <= ours.upper < 1.2 * exact.upper


def test_rounding_of_the_features_is_added_to_the_bound(small_sample, monkeypatch):
    "The length by which rounding can move a feature vector, twice; and the part of itself, for every row."
    features, bound, seen = chunks.sample_features, chunks.cell_bound, []
    def with_rounding(rounding, moved):
        def spied(*args):
            seen.append(bound(*args))
            return seen[-1]
        monkeypatch.setattr(chunks, "cell_bound", spied)
        monkeypatch.setattr(chunks, "sample_features", lambda *args: (features(*args)[0], rounding, moved))
        return kms_distance(cut(X), cut(Y), kernel=Gaussian(.5), n_features=20, max_iter=1).upper
    uppers = [with_rounding(*r) for r in ((0., 0.), (1e-4, 0.), (0., 1e-3))]
    for upper, (top, left), rounding in zip(uppers, seen, (0, 1e-4, 0)): assert_allclose(upper, np.sqrt(top + left) + 2 * np.sqrt(rounding), rtol=1e-9)
    assert_allclose(seen[2][1] - seen[0][1], 8e-3, rtol=1e-6)                         # 2 for the pair, 2 for the square, of both samples
    near = np.array([[1, 0, 0], [1, 0, 3e-6], [0, 1, 6.]])
    found, rounding, moved = features(lambda u, v: np.asarray(u) @ np.asarray(v).T, near[:2], near[1:], 6., 2, np.random.default_rng(1))
    assert moved > 0 and rounding > moved ** 2                                        # the landmarks are nearly equal


def test_near_duplicate_landmarks_keep_the_bound():
    "Landmarks whose Gram matrix is nearly singular: features that rounding makes too long must not lower `upper`."
    dot = lambda u, v: np.asarray(u) @ np.asarray(v).T
    for eps in (3e-6, 1e-4):
        near = np.array([[1, 0, 0], [1, 0, eps]])
        x, y = np.vstack([[0, 1, 6.], near]), np.vstack([[0, -1, 6.], near])
        for seed in range(4): assert kms_distance(cut(x, 2), cut(y, 2), kernel=dot, n_features=2, rng=seed).upper >= np.sqrt(4 / 3) * (1 - 1e-9)


@pytest.mark.parametrize("options", [dict(max_iter=np.int64(7)), dict(n_features=np.uint8(30)), dict(max_iter=np.int8(2), n_features=np.int16(9)), dict(tol=np.float32(.01)), dict(p=np.float32(1.5))])
def test_numbers_of_other_types_as_options(small_sample, options):
    plain = {name: value if name == "tol" else float(value) if name == "p" else int(value) for name, value in options.items()}
    assert bounds(kms_distance(cut(X), cut(Y), kernel=Gaussian(.5), **options)) == bounds(kms_distance(cut(X), cut(Y), kernel=Gaussian(.5), **plain))


def test_one_dimension_closes():
    u, v = np.random.default_rng(0).normal(size=(3000, 1)), 2 * np.random.default_rng(1).normal(size=(2000, 1)) + 1
    for p in (1, 1.5, 2):
        r = kms_distance(cut(u, 900), cut(v, 900), p=p, kernel=Linear())
        assert_allclose(r.lower, wasserstein_1d(u, v, p=p), rtol=1e-9)
        assert_allclose(r.upper, wasserstein_1d(u, v), rtol=1e-2)


def test_shift_far_from_the_origin():
    x = np.random.default_rng(0).normal(size=(500, 3))
    for offset in (0, 1e9):
        r = kms_distance(cut(x + offset), cut(x + offset + [3, -4, 0]), kernel=Linear())
        assert_allclose(r.lower, 5, rtol=1e-4); assert 5 * (1 - 1e-6) <= r.upper < 5.5


@pytest.mark.parametrize("x, y", [
    (np.array([[1., 2.]]), np.array([[3., 2.]])), (np.zeros((1, 1)), np.ones((5, 1))), (np.ones((7, 2)), np.ones((4, 2))),
    (np.arange(8.)[:, None], np.arange(4., 12)[:, None]), (np.repeat([[0., 0.], [1., 1.]], [70, 1], axis=0), np.repeat([[0., 0.], [2., 1.]], [50, 3], axis=0)),
    (np.c_[X[:90], np.ones(90)], np.c_[Y[:80], np.ones(80)]), (X[:90], X[:90][::-1]), (X > .5, Y > .5),
])
def test_degenerate_samples(x, y):
    for kernel in (None, Laplace(.7), Linear()):
        for p in (1, 2):
            r, exact = kms_distance(cut(x, 3), cut(y, 50), p=p, kernel=kernel), kms_distance(x, y, p=p, kernel=kernel, method="local", max_iter=5)
            assert 0 <= r.lower <= r.upper < np.inf and exact.lower <= r.upper * (1 + 1e-9) + 1e-12
            assert_allclose(r.lower, exact.lower, rtol=3e-2, atol=1e-6)          # local maxima of one problem


def test_single_points_are_exact():
    r = kms_distance(cut(np.array([[0.]])), [[1.]], kernel=Gaussian(1.))
    assert_allclose(bounds(r), np.sqrt(2 - 2 * np.exp(-.5)), rtol=1e-5); assert r.converged


# ---------------------------------------------------------------- memory, time, interrupts


def test_no_table_of_features(monkeypatch):
    monkeypatch.setattr(chunks, "SAMPLE", 500)
    monkeypatch.setattr(chunks, "STEP", 100)
    seen = []
    def kernel(a, b):
        seen.append((len(a), len(b)))
        return Gaussian(.5)(a, b)
    big_x, big_y = blob(5000, 2, rng=0)
    r = kms_distance(cut(big_x, 2500), cut(big_y, 2500), kernel=kernel, n_features=40, max_iter=2)
    assert max(a * b for a, b in seen) <= 200 * 200 and r.lower < r.upper


def test_driver_memory_is_refused_before_it_is_used(monkeypatch):
    monkeypatch.setattr(kernels, "MEMORY_LIMIT", 1e5)
    with pytest.raises(ValueError, match=r"`x\[::10\]`"): kms_distance(cut(X), cut(Y), n_features=20)


def test_dask_is_not_imported_for_arrays():
    code = "import sys, numpy as np, kms_nb; kms_nb.kms_distance(np.eye(3), np.ones((2, 3))); print('dask' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout == "False\n"


def test_interrupt_and_limits(monkeypatch, small_sample):
    evaluate, calls = chunks.evaluate, []
    def interrupted(*args):
        calls.append(1)
        if len(calls) == stop: raise KeyboardInterrupt
        return evaluate(*args)
    monkeypatch.setattr(chunks, "evaluate", interrupted)
    stop = 2
    r = kms_distance(cut(X), cut(Y), n_features=30, tol=1e-9)
    assert r.message.startswith("interrupted") and not r.converged and r.n_iter == 1 and 0 < r.lower <= r.upper
    calls.clear(); stop = 1
    with pytest.raises(KeyboardInterrupt): kms_distance(cut(X), cut(Y), n_features=30)
    stop = 0
    late = kms_distance(cut(X), cut(Y), n_features=30, tol=1e-9, max_seconds=1e-9)
    assert late.n_iter == 1 and late.message.startswith("stopped after 1e-09 seconds") and 0 < late.lower <= late.upper
    few = kms_distance(cut(X), cut(Y), n_features=30, tol=1e-9, max_iter=1)
    assert few.n_iter == 1 and few.message.startswith("stopped after 1 direction;") and bounds(few) == bounds(r)


def test_nothing_is_printed_unless_asked(capfd):
    kms_distance(cut(X), cut(Y), n_features=10, max_iter=1)
    assert capfd.readouterr() == ("", "")
    kms_distance(cut(X), cut(Y), n_features=10, max_iter=1, progress=True)
    assert "/3 [" in capfd.readouterr().err


# ---------------------------------------------------------------- errors


def test_bad_arrays_are_named():
    masked, text = np.ma.masked_array(X, X > 1), X.astype(object)
    bad = {"two dimensions": cut(X)[:, 0], "unknown size": cut(X)[cut(X)[:, 0] > 0], "numeric": cut(X + 0j), "plain numpy": da.from_array(masked, chunks=50, asarray=False),
           "got dtype object": da.from_array(text, chunks=50), "is empty": cut(X)[:0], "csr_array": cut(X).map_blocks(sparse.csr_array, dtype=float, meta=sparse.csr_array((1, 1))),
           "between rows 64 and 127": cut(np.where(np.arange(300)[:, None] == 100, np.nan, X)), "infinite": cut(np.where(X > 1, np.inf, X))}
    for words, array in bad.items():
        for name, pair in (("x", (array, cut(X))), ("y", (cut(X), array))):
            with pytest.raises((TypeError, ValueError), match=f"`{name}`.*{words}"): kms_distance(*pair)
    with pytest.raises(ValueError, match="`y` has 1 columns, but `x` has 2"): kms_distance(cut(X), cut(Y)[:, :1])
    hidden = da.from_delayed(dask.delayed(lambda: np.ma.masked_greater(X, 1.0))(), shape=X.shape, dtype=float)  # masked without a word in its meta
    with pytest.raises(ValueError, match="`y` has .* masked"): kms_distance(X, hidden)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("s", [1e-290, 1e-160, 1e150, 1e300])
def test_units_do_not_matter(s, p):
    usual, other = kms_distance(cut(X), cut(Y), kernel=Linear(), p=p), kms_distance(cut(X * s), cut(Y * s), kernel=Linear(), p=p)
    assert_allclose(np.divide(bounds(other), s), bounds(usual), rtol=1e-12)
    assert other.converged == usual.converged and abs(other.projector.norm - 1) < 1e-12
    assert_allclose(wasserstein_1d(other.projector(X * s) / s, other.projector(Y * s) / s, p=p), usual.lower)


@pytest.mark.parametrize("c", [1e-299, 1e-250, 1e250, 1e299])
def test_kernels_may_be_of_any_size(c):
    usual, other = (kms_distance(cut(X), cut(Y), kernel=k, n_features=50) for k in (Gaussian(1.0), lambda a, b=None: c * Gaussian(1.0)(a, b)))
    assert_allclose(np.divide(bounds(other), np.sqrt(c)), bounds(usual), rtol=1e-4)
    assert abs(other.projector.norm - 1) < 1e-6


@pytest.mark.parametrize("c", [0.1, 4, 100, 1e30, 1e-30])
def test_kernels_in_single_precision_may_be_of_any_size(c):
    usual, other = (kms_distance(cut(X), cut(Y), kernel=lambda a, b=None, f=f: (f * Gaussian(1.0)(a, b)).astype(np.float32), n_features=50) for f in (1, c))
    assert_allclose(other.lower / np.sqrt(c), usual.lower, rtol=1e-3)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kernel, words", [(lambda a, b=None: -Gaussian(1.0)(a, b), "negative diagonal"), (lambda a, b=None: 1e-320 * Gaussian(1.0)(a, b), "scale it by a constant")])
def test_kernels_out_of_range_are_refused_in_silence(kernel, words):
    with pytest.raises(ValueError, match=f"`kernel` .*{words}"): kms_distance(cut(X), cut(Y), kernel=kernel)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "longdouble"])
def test_whole_numbers_never_merge(dtype):
    b, steps = 1_700_000_000_000_000_000, np.arange(40)[:, None]
    if dtype == "longdouble" and np.finfo(dtype).eps == np.finfo(float).eps: pytest.skip("a long double is a double here")
    x, y = (b + steps).astype(dtype), (b + 60 + steps).astype(dtype)
    with pytest.raises(ValueError, match="`x` has numbers that double precision"): kms_distance(cut(x, 7), cut(y, 7))
    with pytest.raises(ValueError, match="`y` has numbers that double precision"): kms_distance(steps * 1.0, cut(y, 1))
    r = kms_distance(cut(b * (steps % 2).astype(dtype), 1), cut(b * (steps % 3).astype(dtype), 1))  # each chunk one value, the column all of the range
    assert 0 < r.lower < r.upper < 1


def test_dask_data_frame_is_told_the_way():
    dd = pytest.importorskip("dask.dataframe")
    with pytest.raises(TypeError, match=r"`y`.*`y.to_dask_array\(lengths=True\)`"): kms_distance(X, dd.from_pandas(pd.DataFrame(Y), npartitions=2))
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=2)
    assert kms_distance(frame.to_dask_array(lengths=True), Y, n_features=10, max_iter=1).lower > 0


@pytest.mark.parametrize("options", [dict(p=3), dict(method="bundle"), dict(x_weights=[1.]), dict(y_weights=[1.]), dict(nan_policy="omit"), dict(reduce_rank=True), dict(kernel=Gaussian), dict(rng="seed"), dict(n_features=0)])
def test_options_that_chunks_do_not_have(options):
    with pytest.raises((TypeError, ValueError), match=f"`{next(iter(options))}`"): kms_distance(cut(X), cut(Y), **options)


def test_faulty_kernels(small_sample):
    faults = {"positive semidefinite|negative diagonal": lambda a, b: Gaussian(1.)(a, b) - 2 * (cdist(a, b) == 0) * (a[:, :1] > .9 * X[:, 0].max()),      # on few rows, which need not be landmarks
              "asymmetric": lambda a, b: a @ b.T + np.arange(len(b)), "finite": lambda a, b: np.full((len(a), len(b)), np.nan), "shape": lambda a, b: np.zeros(3)}
    for words, kernel in faults.items():
        with pytest.raises(ValueError, match=f"`kernel`.*({words})"): kms_distance(cut(X), cut(Y), kernel=kernel, n_features=10)


# ---------------------------------------------------------------- pieces


def test_coupling_of_trees_has_its_marginals():
    rng = np.random.default_rng(0)
    for Q in (1, 2, 8, 64):
        a, b = (w * (rng.random(Q) < .7) + np.eye(1, Q)[0] for w in rng.random((2, Q)))
        P = couple_trees(a / a.sum(), b / b.sum())
        assert_allclose(P.sum(1), a / a.sum(), atol=1e-15); assert_allclose(P.sum(0), b / b.sum(), atol=1e-15); assert P.data.min() > 0
    P = couple_trees(a / a.sum(), a / a.sum())
    assert_allclose(P.toarray(), np.diag(a / a.sum()), atol=1e-15)


def test_halves_of_tied_values():
    u = np.repeat([0., 1., 2.], [5, 1, 4])
    cells = np.array([0] * 6 + [1] * 4)
    t = halve(u, cells, 3)
    assert t.shape == (3,) and (u[:5] < t[0]).all() and (u[6:] < t[1]).all()


def test_other_functions_name_the_way_out():
    for call in (kms_test, lambda x, y: KMSProjector().fit(x, np.r_[np.zeros(2), np.ones(len(x) - 2)])):
        with pytest.raises(TypeError, match=r"dask array.*\[::100\]\.compute\(\)"):
            call(cut(X), Y)
