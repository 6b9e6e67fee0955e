"""What must hold for every pair of samples, on examples that Hypothesis makes up: see strategies.py for what it draws and how results are checked.

`python -m pytest tests/test_properties.py` repeats the same examples every time; `--hypothesis-profile=fuzz --hypothesis-seed=N` looks for new ones."""
import io
import json
import pickle
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import ot
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from scipy.stats import ortho_group, wasserstein_distance

from kms_nb import Gaussian, Laplace, Linear, kms_distance, kms_test
from kms_nb.cli import main
from strategies import ANY, GRID, INVARIANT, KERNELS, ORDERS, SQRT_EPS, by_fractions, check, feature_distances, overlap, pairs, rbf, size, strict, wasserstein, weights

SEEDS = st.integers(0, 2**32 - 1)


def solve(x, y, **options):
    "`kms_distance` to one per cent, under the rules of `strict`."
    options = {"tol": 0.01, **options}
    with strict(x, y, options.get("x_weights"), options.get("y_weights")): return kms_distance(x, y, **options)


# --- certificates ---------------------------------------------------------------------------------------------------------

@given(pairs(), KERNELS, ORDERS, st.data())
def test_certificates(pair, kernel, p, data):
    x, y = pair
    a, b = data.draw(weights(len(x)), "x_weights"), data.draw(weights(len(y)), "y_weights")
    res = solve(x, y, kernel=kernel, p=p, x_weights=a, y_weights=b)
    check(res, x, y, kernel, a, b)


@given(pairs(), KERNELS, st.floats(2, 6))
def test_certificates_above_two(pair, kernel, p):
    check(solve(*pair, kernel=kernel, p=p), *pair, kernel)


@given(pairs(max_rows=6).flatmap(lambda pair: st.tuples(st.just(pair), weights(len(pair[0])))), KERNELS)
@example(((np.array([[0.12573022], [-0.13210486]]), np.array([[0.12573022]])), np.array([1.0, 0])), Gaussian(1.0))           # equal samples: values of rounding alone
@example(((np.zeros((1, 2)), np.full((1, 2), 2.0 ** -23)), None), Gaussian(1.0))                                               # coefficients of 6e6
def test_methods_agree(weighted, kernel):
    (x, y), a = weighted
    results = [solve(x, y, kernel=kernel, method=m, x_weights=a) for m in ("bundle", "mirror", "local", "cvxpy")]
    for res in results:
        check(res, x, y, kernel, a)
        for other in results: overlap(res, other, SQRT_EPS * size(kernel, x, y))


@given(pairs(max_rows=6), INVARIANT, st.integers(1, 5))
def test_nystroem_features_and_few_iterations_keep_the_bounds(pair, kernel, n):
    x, y = pair
    small, exact = SQRT_EPS * size(kernel, x, y), solve(x, y, kernel=kernel)
    for res in (solve(x, y, kernel=kernel, n_features=n, rng=0), solve(x, y, kernel=kernel, max_iter=n), solve(x, y, kernel=kernel, method="mirror", max_iter=n)):
        overlap(res, exact, small)
        assert_allclose(wasserstein(res.projector(x), res.projector(y), None, None, 2), res.lower, rtol=1e-6, atol=100 * small)


@given(pairs(), KERNELS, ORDERS)
@example((np.array([[1.0, -2], [-2, 2], [-2, -1], [2, 0]]), np.array([[1.0, -2], [-2, 2], [-2, -1], [2, -2]])), Gaussian(0.8452), 2)      # the first coupling moves one pair
@example((np.array([[2.0, 0, -1], [2, 1, -1], [2, 2, 1], [2, 0, 1], [2, 2, 1], [2, -2, 0]]), np.array([[2.0, 0, -1], [2, 1, -1]])), Gaussian(2.236), 1)
@example((np.array([[9.989, 8.894, 9.678], [9.989, 9.989, 9.989], [9.989, -9, 8.894]]), np.array([[9.989, 8.894, 9.989], [9.989, 9.989, 9.989], [9.989, -9, 10]])), rbf, 2)
def test_small_samples_are_solved(pair, kernel, p):
    res = solve(*pair, kernel=kernel, p=p)
    assert res.converged or res.message.startswith("the solver converged"), res           # the features may leave out more than the gap where the distance is tiny


@given(pairs(max_rows=6), KERNELS)
def test_rank_reduction_keeps_the_bounds(pair, kernel):
    check(solve(*pair, kernel=kernel, reduce_rank=True), *pair, kernel)


# --- symmetries -----------------------------------------------------------------------------------------------------------

@given(pairs(), KERNELS, ORDERS, SEEDS)
def test_order_of_rows_and_of_samples(pair, kernel, p, seed):
    (x, y), rng = pair, np.random.default_rng(seed)
    res, small = solve(x, y, kernel=kernel, p=p), SQRT_EPS * size(kernel, x, y)
    i, j = rng.permutation(len(x)), rng.permutation(len(y))
    overlap(solve(x[i], y[j], kernel=kernel, p=p), res, small)
    overlap(solve(y, x, kernel=kernel, p=p), res, small)


@given(pairs(), KERNELS, ORDERS, st.integers(2, 3))
def test_repeated_rows_and_weights(pair, kernel, p, k):
    x, y = pair
    res, small = solve(x, y, kernel=kernel, p=p), SQRT_EPS * size(kernel, x, y)
    overlap(solve(np.repeat(x, k, axis=0), np.tile(y, (k, 1)), kernel=kernel, p=p), res, small)
    overlap(solve(x, y, kernel=kernel, p=p, x_weights=np.full(len(x), 7.0), y_weights=np.full(len(y), 1e-3)), res, small)


@given(pairs(min_rows=2), KERNELS, ORDERS, st.data())
def test_zero_weight_is_no_row(pair, kernel, p, data):
    x, y = pair
    a, i = data.draw(arrays(float, len(x), elements=st.sampled_from([0, 1e-9, 1, 2])), "x_weights"), data.draw(st.integers(0, len(x) - 1), "row")
    a[i], a[i - 1] = 0, a[i - 1] or 1
    overlap(solve(x, y, kernel=kernel, p=p, x_weights=a), solve(x[a > 0], y, kernel=kernel, p=p, x_weights=a[a > 0]), SQRT_EPS * size(kernel, x, y))


@dataclass(frozen=True)
class Scaled:
    "c^2 times a kernel."
    kernel: object
    c: float
    def __call__(self, x, y): return self.c * (self.c * self.kernel(x, y))


@given(pairs(), st.sampled_from([Gaussian(1.0), Laplace(0.7), Linear()]), ORDERS, st.floats(-12, 12))
def test_scale_of_the_kernel(pair, kernel, p, exponent):
    x, y = pair
    if isinstance(kernel, Linear): x, y = x - x.mean(0), y - x.mean(0)                   # a callable gets no centring
    assume(not 0 < np.abs(kernel(np.vstack([x, y]), np.vstack([x, y]))).max() < 1e-250)  # such a callable is refused
    c = 10.0 ** exponent
    res, scaled = solve(x, y, kernel=kernel, p=p), solve(x, y, kernel=Scaled(kernel, c), p=p)
    small = 10 * SQRT_EPS * max(1, size(kernel, x, y))
    assert res.lower <= scaled.upper / c * (1 + 1e-9) + small and scaled.lower / c <= res.upper * (1 + 1e-9) + small
    check(scaled, x, y, Scaled(kernel, c))


@given(pairs(), st.sampled_from([None, Gaussian, Laplace, Linear]), ORDERS, st.integers(-12, 12))
def test_units_of_the_data(pair, kind, p, exponent):
    (x, y), c = pair, 10.0 ** exponent
    assume(np.abs(np.vstack([x, y])).max() > 1e-3)
    kernel, scaled = {None: (None, None), Linear: (Linear(), Linear())}.get(kind) or (kind(1.0), kind(c))
    res, other = solve(x, y, kernel=kernel, p=p), solve(x * c, y * c, kernel=scaled, p=p)
    unit = c if kind is Linear else 1
    small = SQRT_EPS * size(res.projector.kernel, x, y)
    assert res.lower <= other.upper / unit * (1 + 1e-9) + small and other.lower / unit <= res.upper * (1 + 1e-9) + small
    check(other, x * c, y * c, other.projector.kernel)


@given(pairs(numbers=(ANY, st.one_of(ANY, GRID))), st.sampled_from(["gaussian", "laplace", "linear"]), ORDERS, st.integers(-1074, 1000))
def test_numbers_of_any_size(pair, kernel, p, exponent):
    x, y = pair
    try: res = solve(x, y, kernel=kernel, p=p)
    except ValueError as error: assert kernel == "linear" and "1e302" in str(error); return
    assert 0 <= res.lower <= res.relaxation <= res.upper < np.inf and np.isfinite(res.projector(x)).all()
    if kernel != "linear": assert res.upper <= np.sqrt(2) + SQRT_EPS
    # a power of two rounds nothing, unless numbers leave the range of floats
    numbers = np.vstack([x, y])
    numbers = np.abs(numbers[numbers != 0])
    exponent = int(np.clip(exponent, -950 - np.log2(numbers.min()), 1000 - np.log2(numbers.max()))) if len(numbers) else 0
    if len(numbers) and not 1e-290 < numbers.min() <= numbers.max() < 1e300: return                 # the least bandwidth is 1e-300
    assume(not len(numbers) or np.log2(numbers.min()) + exponent > -951)
    other, unit = solve(np.ldexp(x, exponent), np.ldexp(y, exponent), kernel=kernel, p=p), 2.0 ** (exponent if kernel == "linear" else 0)
    small = SQRT_EPS * (1 if kernel != "linear" else max(numbers, default=0))
    assert res.lower <= other.upper / unit * (1 + 1e-9) + small and other.lower / unit <= res.upper * (1 + 1e-9) + small


@given(pairs(), INVARIANT, ORDERS, st.floats(-1000, 1000), SEEDS)
def test_translations_and_rotations(pair, kernel, p, shift, seed):
    x, y = pair
    Q = ortho_group.rvs(x.shape[1], random_state=np.random.default_rng(seed)) if x.shape[1] > 1 else -np.eye(1)
    res, small = solve(x, y, kernel=kernel, p=p), 10 * SQRT_EPS * size(kernel, x, y)
    moved = x + shift, y + shift
    overlap(solve(*moved, kernel=kernel, p=p), solve(*(z - shift for z in moved), kernel=kernel, p=p), small)  # of what adding has left of the numbers
    overlap(solve(x @ Q, y @ Q, kernel=kernel, p=p), res, small)


# --- known values ---------------------------------------------------------------------------------------------------------

LIGHT = st.sampled_from([1, 0.3, 1e-6, 1e-12, 3e-15, 1e-16, 1e-18])                        # partial sums lose the last ones


@given(pairs(max_columns=1, max_rows=12), st.one_of(ORDERS, st.sampled_from([3, 10])), st.data())
def test_one_feature_is_the_distance_on_the_line(pair, p, data):
    x, y = pair
    a, b = (data.draw(st.one_of(weights(len(z)), arrays(float, len(z), elements=LIGHT)), name) for z, name in ((x, "x_weights"), (y, "y_weights")))
    res, largest = solve(x, y, kernel=Linear(), p=p, x_weights=a, y_weights=b), np.abs(np.vstack([x, y])).max()
    expected, small, rounded = by_fractions(x[:, 0], y[:, 0], np.ones(len(x)) if a is None else a, np.ones(len(y)) if b is None else b, p), 1e-13 * largest, 1e-14 ** (1 / p) * largest
    assert res.lower - small <= expected * (1 + 1e-9) and expected <= res.upper * (1 + 1e-9) + small
    assert_allclose(res.lower, expected, rtol=1e-6, atol=small if p == 1 or a is None and b is None else 4 * rounded)                 # masses are rounded, and p-th roots taken of them
    if p <= 2: assert_allclose(res.upper, expected, rtol=1e-6 if p == 2 else 0.011, atol=max(small, 2 * rounded))
    if p == 1: assert_allclose(res.lower, wasserstein_distance(x[:, 0], y[:, 0], a, b), rtol=1e-6, atol=small)


@given(pairs(max_rows=10), SEEDS)
def test_sliced_distances_stay_below(pair, seed):
    x, y = pair
    unit = np.abs(np.vstack([x, y])).max() or 1.0                                         # POT's squares of small numbers vanish
    res, small = solve(x, y, kernel=Linear()), 1e-13 * unit
    for sliced in (ot.max_sliced_wasserstein_distance, ot.sliced_wasserstein_distance):
        value = unit * sliced(x / unit, y / unit, n_projections=50, seed=seed % 1000)
        assert value <= res.upper * (1 + 1e-9) + small
        if x.shape[1] == 1: assert_allclose(value, res.lower, rtol=1e-6, atol=small)


@given(pairs(), KERNELS, ORDERS, SEEDS)
def test_equal_samples(pair, kernel, p, seed):
    x, _ = pair
    i = np.random.default_rng(seed).permutation(len(x))
    res = solve(x, x[i], kernel=kernel, p=p)
    assert res.lower == 0 and res.upper <= 3 * SQRT_EPS * size(kernel, x, x)           # a kernel that is not known to be positive definite is trusted less
    apart = feature_distances(kernel, x, x)[(x[:, None] != x).any(2)]
    if not len(apart) or apart.min() > 1e-5 * size(kernel, x, x): assert res.upper == res.gap == 0 and res.converged      # else rows that the kernel cannot tell apart are exchanged


@given(pairs(max_rows=5), pairs(max_rows=5), INVARIANT, ORDERS)
def test_triangle_inequality(first, second, kernel, p):
    (x, y), z = first, second[0]
    assume(z.shape[1] == x.shape[1])
    small = 3 * SQRT_EPS * max(size(kernel, x, y), size(kernel, x, z), size(kernel, y, z))
    assert solve(x, z, kernel=kernel, p=p).lower <= solve(x, y, kernel=kernel, p=p).upper + solve(y, z, kernel=kernel, p=p).upper + small


@given(pairs(), KERNELS, ORDERS, ORDERS)
def test_the_distance_grows_with_its_order(pair, kernel, p, q):
    p, q = sorted((p, q))
    assert solve(*pair, kernel=kernel, p=p).lower <= solve(*pair, kernel=kernel, p=q).upper * (1 + 1e-9) + SQRT_EPS * size(kernel, *pair)


# --- results --------------------------------------------------------------------------------------------------------------

@given(pairs(), st.sampled_from([None, Gaussian(0.3), Laplace(0.7), Linear()]), ORDERS)
def test_results_repeat_themselves_and_can_be_stored(pair, kernel, p):
    res, again = solve(*pair, kernel=kernel, p=p), solve(*pair, kernel=kernel, p=p)
    assert json.loads(json.dumps(res.to_dict(), allow_nan=False)) == res.to_dict()
    stored = pickle.loads(pickle.dumps(res))
    for other in (again, stored):
        assert repr(other) == repr(res) and other.message == res.message and other.history == res.history
        for name in ("lower", "upper", "relaxation", "gap"): assert getattr(other, name) == getattr(res, name)
        assert (other.factor == res.factor).all() and (other.coupling != res.coupling).nnz == 0
        assert (other.projector(pair[0]) == res.projector(pair[0])).all()


@given(pairs(), st.sampled_from([np.float32, np.int64, bool]))
def test_types_of_numbers(pair, dtype):
    x, y = (v.astype(dtype) for v in pair)
    a, b = solve(x, y), solve(x.astype(float), y.astype(float))
    assert (a.lower, a.upper) == (b.lower, b.upper)


# --- the test -------------------------------------------------------------------------------------------------------------

METHODS = st.sampled_from(["panel", "split"])


@given(pairs(min_rows=2, max_rows=12), METHODS, st.sampled_from([None, Gaussian(0.3), Linear()]), st.sampled_from([1, 1.5, 2, 3]), SEEDS, st.integers(1, 60), st.floats(0.001, 0.999))
def test_the_test(pair, method, kernel, p, seed, n_resamples, alpha):
    (x, y), options = pair, dict(method=method, kernel=kernel, p=p, n_resamples=n_resamples, alpha=alpha, rng=seed)
    assume(not (kernel and 0 < np.ptp(np.vstack([x, y]), axis=0).max() < 1e-140))           # refused, see below
    with strict(x, y): t = kms_test(x, y, **options)
    assert 1 / (1 + n_resamples) <= t.pvalue <= 1 and 0 <= t.statistic < np.inf and t.null_distribution.shape == (n_resamples,)
    assert np.isfinite(t.null_distribution).all() and (t.null_distribution >= 0).all()
    assert t.pvalue == (1 + (t.null_distribution >= t.statistic * (1 - 1e-9)).sum()) / (1 + n_resamples)
    assert t.reject == (t.pvalue <= alpha) == bool(t.threshold < t.statistic * (1 - 1e-9))
    if method == "split": assert_allclose(wasserstein(t.projected_x, t.projected_y, None, None, p), t.statistic, rtol=1e-6, atol=1e-12 * np.abs(np.append(t.projected_x, t.projected_y)).max())
    rng = np.random.default_rng(seed)
    again = kms_test(x, y, **options)
    swapped = kms_test(y, x, **options)
    shuffled = kms_test(x[rng.permutation(len(x))], y[rng.permutation(len(y))], **options)
    for other in (again, swapped, shuffled, pickle.loads(pickle.dumps(t))):
        assert (other.pvalue, other.reject) == (t.pvalue, t.reject)
        assert_allclose(other.statistic, t.statistic, rtol=1e-9)


@given(pairs(min_rows=2, numbers=(ANY, st.one_of(ANY, GRID))), METHODS, st.sampled_from([None, "laplace", "linear"]), SEEDS)
def test_the_test_of_numbers_of_any_size(pair, method, kernel, seed):
    (x, y), options = pair, dict(method=method, kernel=kernel, n_resamples=19, rng=seed)
    try:
        with strict(x, y): t = kms_test(x, y, **options)
    except ValueError as error: assert kernel == "linear" and ("1e150" in str(error) or "1e302" in str(error)); return
    assert 0.05 <= t.pvalue <= 1 and np.isfinite(t.statistic) and np.isfinite(t.null_distribution).all()
    assert kms_test(y, x, **options).pvalue == t.pvalue
    json.dumps(t.to_dict(), allow_nan=False)


@given(pairs(min_rows=2, max_rows=12), METHODS, SEEDS)
def test_the_test_of_equal_samples(pair, method, seed):
    x, _ = pair
    i = np.random.default_rng(seed).permutation(len(x))
    assert kms_test(x, x[i], method=method, n_resamples=19, rng=seed).pvalue == 1


# --- the command line -----------------------------------------------------------------------------------------------------

FIELDS = st.one_of(st.integers(-3, 3).map(str), st.floats(-10, 10).map(repr), ANY.map(repr), st.sampled_from(["", "NA", "nan", "inf", "-", "a", "b", "1,5", "1e400", "2024-01-31", "0x10", "True", "$1", "\x1b[31m", "\u202e", " 1", "1 000"]))


@st.composite
def table_text(draw, columns):
    "A table as text: numbers, or now and then anything; mostly with a header; fields quoted where they need it."
    fields = st.floats(-10, 10).map(repr) if draw(st.booleans()) else FIELDS
    rows = draw(st.lists(st.lists(fields, min_size=columns, max_size=columns), min_size=0, max_size=6))
    header = [[f"c{i}" for i in range(columns)]] if draw(st.integers(0, 3)) else []
    quoted = lambda f: f'"{f}"' if "," in f else f
    return draw(st.sampled_from(["\n", "\r\n"])).join(",".join(map(quoted, row)) for row in header + rows)


@given(st.integers(1, 3).flatmap(lambda d: st.tuples(table_text(d), table_text(d))), st.sampled_from(["test", "distance"]), st.lists(st.sampled_from(["--raw", "--omit-missing", "--header=yes", "--header=no", "--kernel=linear", "--kernel=laplace"]), max_size=3))
def test_any_tables_on_the_command_line(texts, command, options):
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder, f"{name}.csv")) for name in "ab"]
        for name, text in zip(files, texts): Path(name).write_bytes(text.encode())
        out, err = io.StringIO(), io.StringIO()
        with strict(), redirect_stdout(out), redirect_stderr(err): status = main([command, *files, "--json", *(["--n-resamples", "19"] if command == "test" else []), *options])
        assert sorted(p.name for p in Path(folder).iterdir()) == ["a.csv", "b.csv"]
    out, err = out.getvalue(), err.getvalue()
    if status == 0:
        found = json.loads(out)
        assert err == "" and out[:-1].isprintable()
        for sample, text in zip(found["samples"], texts): assert sample["rows"] <= len(text.splitlines())
        if command == "test": assert 0.05 <= found["pvalue"] <= 1
        else: assert 0 <= found["lower"] <= found["upper"]
    else: assert status == 2 and out == "" and err.startswith("kms: error: ") and err.count("\n") == 1 and err[:-1].isprintable()
