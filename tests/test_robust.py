"""Hostile input and failing parts: the right value, or an error that names the argument. See test_distance.py for ordinary bad input and test_cli.py for the command line."""
import decimal
import enum
import fractions
import gzip
import json
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from kms_nb import Gaussian, Laplace, Linear, Precomputed, RandomFourier, bundle, distance, exact, kernels, kms_distance, kms_test, local, median_bandwidth, mirror, panel, rank, samples, testing, transport
from kms_nb.baselines import baseline_test
from kms_nb.cli import main
from kms_nb.data import blob, read_table
from kms_nb.groups import compare_groups, detect_change
from kms_nb.panel import witness_panel
from kms_nb.projector import KMSProjector

ROOT = Path(__file__).resolve().parents[1]
X, Y = blob(12, 2, rng=5)
pytestmark = pytest.mark.filterwarnings("error")


def quick(method): return lambda *args, **options: kms_test(*args, method=method, rng=0, n_resamples=19, **options)


EACH = pytest.mark.parametrize("f", [kms_distance, quick("panel"), quick("split")], ids=["distance", "panel", "split"])


def number(res):
    "What to compare: the interval of a distance, statistic and p-value of a test."
    return (res.lower, res.upper) if hasattr(res, "upper") else (res.statistic, res.pvalue)


# --- tables that are accepted ---------------------------------------------------------------------------------------------

WHOLE = np.array([[1, 0], [2, 5], [3, 3], [0, 1]])
ACCEPTED = {
    "lists": WHOLE.tolist(), "list of arrays": list(WHOLE), "tuple": tuple(map(tuple, WHOLE)), "int8": WHOLE.astype(np.int8), "uint64": WHOLE.astype(np.uint64),
    "float16": WHOLE.astype(np.float16), "longdouble": WHOLE.astype(np.longdouble), "big endian": WHOLE.astype(">f8"), "fortran": np.asfortranarray(WHOLE.astype(float)),
    "view": np.repeat(WHOLE, 2, axis=1)[:, ::2], "negative strides": WHOLE[::-1, ::-1].copy()[::-1, ::-1], "matrix": np.asmatrix(WHOLE), "masked, nothing hidden": np.ma.array(WHOLE),
    "objects": WHOLE.astype(object), "fractions": [[fractions.Fraction(int(v)) for v in r] for r in WHOLE], "decimals": [[decimal.Decimal(int(v)) for v in r] for r in WHOLE],
    "frame": pd.DataFrame(WHOLE), "mixed numbers": pd.DataFrame(WHOLE).astype({0: "int8", 1: "float32"}), "nullable": pd.DataFrame(WHOLE).astype({0: "Int64", 1: "Float32"}),
    "arrow": pd.DataFrame(WHOLE).astype({0: "int64[pyarrow]", 1: "double[pyarrow]"}), "arrow table": pa.table({"a": WHOLE[:, 0], "b": WHOLE[:, 1]}),
    "sparse columns": pd.DataFrame(WHOLE).astype(pd.SparseDtype("int64")), "two levels of names": pd.DataFrame(WHOLE, columns=pd.MultiIndex.from_product([["a"], ["b", "c"]])),
    "equal names": pd.DataFrame(WHOLE, columns=["a", "a"]), "nameless": pd.DataFrame(WHOLE, columns=["a", np.nan]), "odd index": pd.DataFrame(WHOLE, index=[7, 7, None, "x"]),
}


@EACH
@pytest.mark.parametrize("kind", ACCEPTED)
def test_tables_that_are_accepted(f, kind):
    table = ACCEPTED[kind]
    assert number(f(table, WHOLE[:3] + 1.0)) == number(f(WHOLE.astype(float), WHOLE[:3] + 1.0))
    assert number(f(table, table))[1] == (0 if f is kms_distance else 1)


@pytest.mark.parametrize("types", [{0: bool, 1: bool}, {0: "boolean", 1: "bool[pyarrow]"}])
def test_truth_values_are_zero_and_one(types):
    x = pd.DataFrame(WHOLE > 1)
    assert number(kms_distance(x.astype(types), x[:1].astype(types))) == number(kms_distance(x.to_numpy(float), x[:1].to_numpy(float)))


def test_memory_mapped_and_read_only_arrays(tmp_path):
    np.save(tmp_path / "x.npy", X)
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert number(kms_distance(x, Y)) == number(kms_distance(X, Y)) and number(kms_test(x, Y, rng=0)) == number(kms_test(X, Y, rng=0))


def views(z):
    "Tables that show z, through which a result could change with it: read-only views, and frames of pandas, whose values are such views."
    shown = z.view(); shown.flags.writeable = False
    return {"array": z, "read-only view": shown, "transposed": shown.T.T, "frame": pd.DataFrame(z, copy=False), "one column": pd.DataFrame(z[:, :1], copy=False)}


@pytest.mark.parametrize("kind", views(X))
def test_results_do_not_change_with_the_data(kind):
    x, y = X.copy(), Y.copy()
    a, b = views(x)[kind], views(y)[kind]
    res, test, groups, gram = kms_distance(a, b), kms_test(a, b, rng=0, n_resamples=99), compare_groups({"a": a}, b, rng=0, n_resamples=99), Gaussian(1.)(X)
    known = Precomputed(views(gram)[kind if kind != "one column" else "frame"])
    by_number = kms_distance([[0], [1]], [[2], [3]], kernel=known).projector
    single = np.ones((1, 1)); one = Precomputed(pd.DataFrame(single, copy=False))
    def state(): return [res.projector(X[:, :a.shape[1]]), test.x, test.y, test.distance().lower, test.projector(X[:, :a.shape[1]]), groups.tests[0].x, groups.tests[0].y, groups.tests[0].distance().lower, known(np.arange(5)[:, None]), by_number([[0], [4]]), one([[0]])]
    before = [np.copy(v) for v in state()]
    x[:] = 7; y[:] = -7; gram[:] = 7; single[:] = 7
    for old, new in zip(before, state()): assert_array_equal(old, new)
    with pytest.raises(ValueError): test.x[0] = 0
    x, view = X.copy(), None
    view = x[:]; x.flags.writeable = False                                          # its owner can still write
    test = kms_test(x, Y, rng=0, n_resamples=9); view[:] = 7
    assert_array_equal(test.x, X)


# --- tables that are refused, by name -------------------------------------------------------------------------------------

HIDDEN = np.ma.array(X, mask=np.arange(24).reshape(12, 2) == 3)
REFUSED = {
    "sparse matrix": (sparse.csr_matrix(X), TypeError, "sparse"), "sparse array": (sparse.coo_array(X), TypeError, "sparse"), "masked": (HIDDEN, ValueError, "1 masked"),
    "masked rows": (list(HIDDEN), ValueError, "1 masked"), "masked cell": ([[np.ma.masked, 1.0], [2.0, 3.0]], ValueError, "1 masked"),
    "huge integer": ([[10**400, 1]], ValueError, "too large"), "beyond double": (np.array([["1e4000", "0"]]).astype(np.longdouble), ValueError, "infinite"), "not a number": ([[decimal.Decimal("nan"), 1]], ValueError, "missing"),
    "none": ([[None, 1.0]], ValueError, "missing"), "pandas' missing": ([[pd.NA, 1.0]], ValueError, "missing"), "text": ([["1", "2"]], TypeError, "numeric"), "bytes": ([[b"1", b"2"]], TypeError, "numeric"),
    "objects": ([[object(), 1]], TypeError, "numeric"), "complex": (X * 1j, TypeError, "complex"), "complex objects": ((X * 1j).astype(object), TypeError, "numeric"), "dates": (np.array([["2024-01-01", "2024-01-02"]], "M8[D]"), TypeError, "datetime"),
    "structured": (np.zeros(3, [("a", float), ("b", float)]), TypeError, "numeric"), "dict": ({"a": [1, 2]}, TypeError, "numeric"), "generator": ((r for r in X), TypeError, "numeric"), "number": (3.0, ValueError, "two dimensions"),
    "three dimensions": (X[None], ValueError, "two dimensions"), "series": (pd.Series([1.0, 2.0]), ValueError, "two dimensions"), "no columns": (pd.DataFrame(index=range(3)), ValueError, "empty"), "ragged": ([[1, 2], [3]], ValueError, "rectangular"),
    "categories": (pd.DataFrame({"a": [1.0, 2.0], "b": pd.Categorical([1, 2])}), TypeError, "column 'b'"), "words": (pd.DataFrame({"a": [1.0, 2.0], "b": ["u", "v"]}), TypeError, "column 'b'"),
    "arrow text": (pd.DataFrame({"a": pd.array(["1"], dtype="string[pyarrow]"), "b": [1.0]}), TypeError, "column 'a'"), "arrow times": (pd.DataFrame({"a": pd.to_datetime(["2024"]), "b": [1.0]}).astype({"a": "timestamp[ns][pyarrow]"}), TypeError, "column 'a'"),
    "nullable gap": (pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [1.0, 2.0]}), ValueError, "row 1, column 0"), "arrow gap": (pd.DataFrame({"a": [1.0, 2.0], "b": pd.array([1.0, None], dtype="double[pyarrow]")}), ValueError, "row 1, column 1"),
    "date in a row": ([[np.datetime64("2024-01-01"), 1.0]], TypeError, "numeric"), "no date in a row": ([(np.datetime64("NaT"), 1.0)], TypeError, "numeric"), "span in a row": ([[np.timedelta64(3, "ns"), 1.0]], TypeError, "numeric"),
    "span in an array": (np.array([[np.timedelta64(3, "ns"), 1.0]], dtype=object), TypeError, "numeric"), "complex cell": (pd.DataFrame({"a": pd.Series([np.complex128(1 + 5j), 1], dtype=object), "b": [1.0, 2.0]}), TypeError, "numeric|column 'a'"),
    "bytes that change": ([[bytearray(b"5"), 1.0]], ValueError, "rectangular"), "column of such bytes": (pd.DataFrame({"a": [bytearray(b"5"), bytearray(b"66")], "b": [1.0, 2.0]}), TypeError, "numeric|column 'a'"),
    "view of bytes": (np.array([[memoryview(b"1"), None]], dtype=object), TypeError, "text"), "masked object": (np.array([[np.ma.masked, 1.0]], dtype=object), ValueError, "1 masked"),
    "truth gap": (pd.DataFrame({"a": pd.array([True, None], dtype="boolean"), "b": [1.0, 2.0]}), ValueError, "missing"),
}


@EACH
@pytest.mark.parametrize("kind", REFUSED)
def test_tables_that_are_refused(f, kind):
    table, error, words = REFUSED[kind]
    for name in "xy":
        if kind == "generator": table = (r for r in X)
        with pytest.raises(error, match=f"`{name}`.*{words}"): f(*((table, Y) if name == "x" else (X, table)))


OTHERS_REFUSE = ("matrix", "sparse columns", "equal names", "nameless")           # scikit-learn's own rules


@pytest.mark.parametrize("kind", ACCEPTED)
def test_tables_that_the_transformer_accepts(kind):
    table, labels = ACCEPTED[kind], np.array([0, 1, 0, 1])
    if kind in OTHERS_REFUSE:
        try: KMSProjector().fit(table, labels)
        except (TypeError, ValueError): return
        assert kind == "equal names"                            # which scikit-learn 1.6 takes
    fitted, expected = KMSProjector().fit(table, labels), KMSProjector().fit(WHOLE.astype(float), labels)
    assert number(fitted.result_) == number(expected.result_)
    assert_array_equal(fitted.transform(table), expected.transform(WHOLE.astype(float)))


@pytest.mark.parametrize("kind", REFUSED)
def test_tables_that_the_transformer_refuses(kind):
    "By scikit-learn's errors, or by ours where scikit-learn would take them at face value."
    table, error, words = REFUSED[kind]
    fitted = KMSProjector().fit(pd.DataFrame(WHOLE, columns=list("ab")) if len(getattr(table, "columns", [])) else WHOLE, [0, 1, 0, 1])
    ours = kind in ("masked", "masked rows", "masked cell", "masked object", "categories", "huge integer", "text", "bytes", "dates", "arrow text")
    with pytest.raises(error if ours else (TypeError, ValueError), match=f"`X` .*{words}" if ours else "[Ss]parse" if "sparse" in kind else None): fitted.transform(table)


@pytest.mark.parametrize("kind", ["masked", "masked rows", "masked cell", "categories", "text", "dates", "nullable gap", "words", "sparse matrix", "objects"])
def test_the_transformer_is_not_fitted_to_tables_that_it_refuses(kind):
    table = REFUSED[kind][0]
    rows = table.shape[0] if hasattr(table, "shape") else len(table)
    if rows == 1: table, rows = [*table, *table], 2
    with pytest.raises((TypeError, ValueError), match="`X` |X contains NaN|[Ss]parse|could not convert|real number"): KMSProjector().fit(table, np.arange(rows) % 2)


def test_labels_of_the_transformer_may_not_be_masked():
    with pytest.raises(ValueError, match="`y` has 1 masked"): KMSProjector().fit(WHOLE, np.ma.array([0, 1, 0, 1], mask=[0, 0, 0, 1]))


def test_frames_with_other_columns():
    a, b = pd.DataFrame(X, columns=["u", "v"]), pd.DataFrame(Y, columns=["v", "u"])
    for f in (kms_distance, kms_test):
        with pytest.raises(ValueError, match="`y` has the column 'v' where `x` has 'u'"): f(a, b)
    assert number(kms_distance(a, b[["u", "v"]].to_numpy())) == number(kms_distance(X, Y[:, ::-1]))
    b.columns = pd.Index([np.str_("u"), np.str_("v")], dtype=object)
    assert number(kms_distance(a, b)) == number(kms_distance(X, Y))                    # the same names, of another type of string


@pytest.mark.parametrize("x, column, row", [(np.arange(3.0), "x[:, None]", "x[None]"), ([0.0, 1.0, 2.0], "[[v] for v in x]", "[x]"), (pd.Series([0.0, 1.0, 2.0]), "x.to_frame()", "x.to_frame().T")])
@EACH
def test_one_dimension_is_refused_with_a_remedy_that_works(f, x, column, row):
    with pytest.raises(ValueError) as error: f(x, Y)
    assert str(error.value) == f"`x` must have two dimensions (rows, features), got shape (3,); pass `{column}` for 3 rows of one feature, or `{row}` for a single row"
    assert samples.as_sample(eval(column)).shape == (3, 1) and samples.as_sample(eval(row)).shape == (1, 3)


class Colour(enum.Enum): red, blue = "red", "blue"


STRATA = {
    "masked entry": [np.ma.masked, *[1] * 11], "masked entry among texts": [*["a"] * 11, np.ma.masked],
    "masked": np.ma.array(np.arange(12) % 2, mask=np.arange(12) == 5), "missing": [pd.NA, *[1] * 11], "missing integers": pd.array([None, *[1] * 11], dtype="Int64"), "no time": [pd.NaT, *[1] * 11],
    "none": [None, *[1] * 11], "nan": [np.nan, *[1] * 11], "tuples": [(1, 2)] * 12, "tuples in objects": pd.Series([(1, 2)] * 12), "enums": [Colour.red] * 12, "complex": [1j] * 12, "sets": [{1}] * 12, "ragged": [[1, 2], *[[1]] * 11], "generator": (i for i in range(12)), "number": 7,
}


@pytest.mark.parametrize("method", ["panel", "split", "permutation"])
@pytest.mark.parametrize("kind", STRATA)
def test_strata_that_are_refused(kind, method):
    for strata in ((STRATA[kind], [1] * 12), ([1] * 12, STRATA[kind])):
        with pytest.raises(ValueError, match="`strata` has missing" if kind in ("masked", "masked entry", "masked entry among texts", "missing", "missing integers", "no time", "none", "nan") else "`strata` (must|has|leaves)"): kms_test(X, Y, strata=strata, method=method, n_resamples=9)


@pytest.mark.parametrize("kind", ["masked", "list", "first", "numbers"])
def test_weights_that_are_refused(kind):
    weights = {"masked": np.ma.array(np.ones(12), mask=np.arange(12) == 5), "list": [1.0] * 11 + [np.ma.masked], "first": [np.ma.masked] + [1] * 11, "numbers": ["1"] * 12}[kind]
    for name in ("x_weights", "y_weights"):
        with pytest.raises((TypeError, ValueError), match=f"`{name}`" + " .*masked" * (kind != "numbers")): kms_distance(X, Y, **{name: weights})


@EACH
def test_whole_numbers_that_would_merge_are_refused(f):
    large = np.array([[2 ** 53, 0], [2 ** 53 + 1, 1], [2 ** 53 + 2, 2]])
    with pytest.raises(ValueError, match="`y` has numbers that double precision"): f(large[:2] - 2 ** 53, large[:2, :1].repeat(2, 1))      # both are 2^53 as floats
    for table in (large, large.tolist(), large.astype(np.uint64), large.astype(object), [[v, w + 0.5] for v, w in large.tolist()], pa.table({"u": large[:, 0], "v": large[:, 1]})):
        with pytest.raises(ValueError, match="`y` has numbers that double precision.*2.53"): f(large - 2 ** 53, table)
    apart = np.array([[2 ** 54, 0], [2 ** 54 + 4, 1], [2 ** 54 + 8, 2]])                  # beyond, and told apart
    assert number(f(apart, apart[:2] + 4)) == number(f(apart.astype(float), apart[:2].astype(float) + 4))


# --- missing values -------------------------------------------------------------------------------------------------------

def test_the_remedy_for_missing_values_is_named_where_it_can_be_used():
    "By every function that has `nan_policy`, and by no other; nor for infinite values, which it does not leave out."
    gap, remedy = [[0.0, np.nan], [1.0, 2.0]], "; `nan_policy`='omit' leaves out rows with missing values"
    for f in (kms_distance, kms_test, lambda x, y: compare_groups({"a": x}, y)):
        for pair in ((gap, Y), (X, gap)):
            with pytest.raises(ValueError) as error: f(*pair)
            assert str(error.value).endswith(f"1 missing or infinite values, the first in row 0, column 1{remedy}")
        with pytest.raises(ValueError, match="infinite") as error: f([[0.0, np.inf], [1.0, 2.0]], Y)
        assert "nan_policy" not in str(error.value)
    assert kms_distance(gap, Y, nan_policy="omit").coupling.shape == (1, 12)
    for call in (lambda: kernels.median_bandwidth(gap), lambda: Gaussian(1.0)(gap), lambda: witness_panel(gap, Y), lambda: detect_change(gap, X), lambda: baseline_test("mmd", gap, Y),
                 lambda: KMSProjector().fit(gap, [0, 1]), lambda: kms_distance(X, Y).projector(gap)):
        with pytest.raises(ValueError, match="missing|NaN") as error: call()
        assert "nan_policy" not in str(error.value)



def test_rows_with_missing_values_are_left_out_on_request():
    gaps, w = np.insert(X, [0, 4, 12], [[np.nan, 1], [2, np.nan], [np.nan, np.nan]], axis=0), np.insert(np.arange(1.0, 13), [0, 4, 12], 9)
    expected, res = kms_distance(X, Y, x_weights=np.arange(1, 13)), kms_distance(gaps, Y, x_weights=w, nan_policy="omit")
    assert_allclose(number(res), number(expected), rtol=1e-12)
    assert "3 of 15 rows of `x` left out for missing values" in res.message and res.coupling.shape == (12, 12)
    both = kms_distance(pd.DataFrame(gaps).convert_dtypes(), gaps, nan_policy="omit")
    assert both.upper == 0 and both.message.count("3 of 15 rows") == 2
    assert kms_distance(X, Y, nan_policy="omit").message == kms_distance(X, Y).message


@pytest.mark.parametrize("options, words", [
    ({}, "`x` has 1 missing"), ({"nan_policy": "raise"}, "`x` has 1 missing"), ({"nan_policy": "propagate"}, "`nan_policy`.*'propagate'"), ({"nan_policy": None}, "`nan_policy`"),
    ({"nan_policy": "omit", "x_weights": [0, 1]}, "`x_weights` must not sum to zero"), ({"nan_policy": "omit", "x_weights": [1]}, r"`x_weights` must have shape \(2,\)"), ({"nan_policy": "omit", "x_weights": [1, np.nan]}, "`x_weights` must be finite")])
def test_missing_values_are_refused(options, words):
    with pytest.raises(ValueError, match=words): kms_distance([[1.0], [np.nan]], [[2.0]], **options)


def test_nothing_left_and_infinite_values():
    with pytest.raises(ValueError, match="`y` has no row without missing values"): kms_distance([[1.0]], [[np.nan]], nan_policy="omit")
    with pytest.raises(ValueError, match="`x` has 1 missing or infinite values"): kms_distance([[np.inf], [np.nan]], [[2.0]], nan_policy="omit")


# --- tiny and degenerate samples ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("kernel", [None, Gaussian(1.0), Laplace(1.0), Linear(), rbf_kernel])
def test_one_point_against_one_point(kernel):
    for x, y in (([[0.0]], [[1.0]]), ([[2.0, 5.0]], [[2.0, 4.0]]), ([[7]], [[7]])):
        for p in (1, 1.5, 2, 3):
            k = kernel or Gaussian(1.0)
            z = np.vstack([x, y]).astype(float)
            K = k(z, z)
            res = kms_distance(x, y, kernel=k, p=p)
            assert_allclose([res.lower, res.upper], np.sqrt(K[0, 0] + K[1, 1] - 2 * K[0, 1]), rtol=2e-3, atol=1e-12)     # p = 1 has a tangent's slack


def test_samples_too_small_for_the_test():
    for x, y, name in ((X[:1], Y, "x"), (X, Y[:1], "y")):
        for method in ("panel", "split"):
            with pytest.raises(ValueError, match=f"`{name}` needs at least 2 rows"): kms_test(x, y, method=method)
    for n in (2, 3):
        for method in ("panel", "split"): assert 1 / 10 < kms_test(X[:n], Y[:2], method=method, rng=0, n_resamples=99).pvalue <= 1      # so few rows prove nothing


@pytest.mark.parametrize("method", ["panel", "split"])
@pytest.mark.parametrize("kernel", [None, Linear()])
def test_pvalues_of_constant_and_discrete_samples(kernel, method):
    ones, options = np.ones((8, 3)), dict(kernel=kernel, method=method)
    assert kms_test(ones, ones, rng=0, **options).pvalue == 1
    assert kms_test(X, Y, rng=0, n_resamples=1, **options).pvalue in (0.5, 1)
    outlier = ones.copy(); outlier[-1, 0] = 9                                        # whoever owns it, every relabelling looks alike
    assert min(kms_test(outlier[:4], outlier[4:], rng=s, n_resamples=99, **options).pvalue for s in range(10)) > 0.4
    rng = np.random.default_rng(0)                                                    # values on a grid, scaled so that they are not exact
    pvalues = [kms_test(0.1 * rng.integers(0, 2, (20, 1)), 0.1 * rng.integers(0, 2, (20, 1)), rng=s, n_resamples=19, **options).pvalue for s in range(40)]
    assert np.mean(np.array(pvalues) <= 0.1) <= 0.25                                  # 0.1 expected, five standard errors


@pytest.mark.parametrize("method", ["panel", "split"])
@pytest.mark.parametrize("scale", [1e-290, 1e-12, 1e16, 1e150])
def test_pvalues_have_no_units(scale, method):
    def pvalue(scale, **options):                                   # an integer would be mixed with the data
        return kms_test(X * scale, Y * scale, method=method, rng=np.random.default_rng(0), n_resamples=99, **options).pvalue
    assert pvalue(scale, p=3) == pvalue(1, p=3)
    if 1e-150 < scale < 1e150: assert pvalue(scale, kernel=Linear()) == pvalue(1, kernel=Linear())


@pytest.mark.parametrize("method", ["panel", "split", "permutation", "bootstrap", "theory"])
@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e160, 1e300])
def test_the_dot_product_kernel_squares_no_number_out_of_range(scale, method):
    options = dict(method=method, rng=np.random.default_rng(0), n_resamples=99, kernel="linear")
    if method in ("split", "theory"): assert_allclose(kms_test(X * scale, Y * scale, **options).statistic, scale * kms_test(X, Y, **options | dict(rng=np.random.default_rng(0))).statistic, rtol=1e-3)
    else:
        with pytest.raises(ValueError, match="`x` and `y`.*1e-150.*scale the data"): kms_test(X * scale, Y * scale, **options)


@pytest.mark.parametrize("kernel", [None, "laplace"])
def test_one_huge_value_hides_nothing(kernel):
    x, y = np.random.default_rng(0).normal(size=(2, 40, 2)) + [[[0, 0]], [[1, 1]]]
    x[0, 0] = 1e170                                                                  # a code for a missing value, for instance
    moderate = x.copy(); moderate[0, 0] = 1e6                                        # as far away, for these kernels
    for f in (kms_distance, lambda *a, **o: kms_test(*a, n_resamples=99, rng=np.random.default_rng(0), **o)): assert_allclose(number(f(x, y, kernel=kernel)), number(f(moderate, y, kernel=kernel)), rtol=1e-9)
    assert kms_test(x, y, n_resamples=99, rng=0, kernel=kernel).pvalue == 0.01


@EACH
@pytest.mark.parametrize("size", [1e308, 1e301, 1e-301, 1e-320])
def test_kernels_of_extreme_size_are_refused(f, size):
    with pytest.raises(ValueError, match="`kernel` returned values up to .* scale it"): f(X, Y, kernel=lambda a, b: rbf_kernel(a, b) * size)
    unit = 1e290 if size > 1 else 1e-290
    large, one = f(X, Y, kernel=lambda a, b: rbf_kernel(a, b) * unit), f(X, Y, kernel=rbf_kernel)
    if hasattr(one, "upper"): assert_allclose(number(large), np.sqrt(unit) * np.array(number(one)), rtol=2e-3)
    else: assert large.pvalue == one.pvalue


def test_a_bandwidth_that_divides_out_of_range():
    K = Gaussian(1e-300)
    assert_array_equal(K([[1e10], [0.0], [-1e308]]), np.eye(3))
    assert_allclose(Laplace(1e-300)([[0.0], [1e-300]]), [[1, np.exp(-1)], [np.exp(-1), 1]])
    assert kms_distance(X * 1e10, Y * 1e10, kernel=K).upper == pytest.approx(np.sqrt(2 / len(X)), rel=1e-3)     # all features are orthogonal


def test_far_from_the_origin():
    a, b = kms_distance(X, Y, kernel=Linear()), kms_distance(X + 1e9, Y + 1e9, kernel=Linear())
    assert_allclose(number(b), number(a), rtol=1e-4)                                 # the sixth digit of the data is lost already
    assert number(kms_distance([[1e16, 0.0]], [[1e16, 3.0]], kernel=Linear()))[0] == pytest.approx(3, rel=1e-6)


@pytest.mark.parametrize("offset", [2.0 ** 45, 2.0 ** 50, 2.0 ** 52, -2.0 ** 52])
@pytest.mark.parametrize("kind", [None, Laplace, Gaussian, RandomFourier])
def test_an_offset_that_loses_no_digit_changes_nothing(kind, offset):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 20, (15, 2)).astype(float), rng.integers(5, 30, (12, 2)).astype(float)
    kernel = kind and kind(median_bandwidth(x, y))
    if kind is RandomFourier and offset < 0: offset = -offset                               # it measures from the value nearest to zero
    a, b = (kms_distance(x + c, y + c, kernel=kernel) for c in (0, offset))
    assert number(a) == number(b)
    for method in ("panel", "split", "permutation"):
        s, t = (kms_test(x + c, y + c, kernel=kernel, method=method, n_resamples=49, rng=np.random.default_rng(3)) for c in (0, offset))
        assert (s.pvalue, s.statistic) == (t.pvalue, t.statistic)


def test_very_high_orders_of_the_test():
    x, y = X[:, :1], Y[:, :1] + 5
    t = kms_test(x, y, p=5000, method="split", kernel="linear", n_resamples=99, rng=0)
    gap = np.abs(np.sort(t.projected_x) - np.sort(t.projected_y))
    assert_allclose(t.statistic, gap.max() * np.mean((gap / gap.max()) ** 5000) ** (1 / 5000), rtol=1e-9)
    assert t.pvalue <= 0.05 and np.isfinite(t.null_distribution).all()
    for method in ("permutation", "bootstrap"):
        with pytest.raises(ValueError, match=f"`p` must be at most 100 for `method`='{method}'.*got 150"): kms_test(x, y, p=150, method=method)
        assert 0 < kms_test(x, y, p=100, method=method, n_resamples=19, rng=0).pvalue <= 1


# --- kernels that are none ------------------------------------------------------------------------------------------------

def with_corner(value):
    "A Gaussian Gram matrix in which the largest row's entry with itself is something else."
    def kernel(a, b):
        K = rbf_kernel(a, b)
        return np.where((a[:, None] == b).all(2) & (a.sum(1) == np.vstack([X, Y]).sum(1).max())[:, None], value, K)
    return kernel


BAD_KERNELS = {
    "asymmetric": (lambda a, b: rbf_kernel(a, b) * (1 + np.arange(len(b))), "asymmetric"), "indefinite": (lambda a, b: -np.linalg.norm(a[:, None] - b, axis=2), "semidefinite"), "negative": (lambda a, b: -rbf_kernel(a, b), "negative diagonal"),
    "sigmoid": (lambda a, b: np.tanh(5 * a @ b.T - 3), "semidefinite|negative diagonal"), "nan": (lambda a, b: np.full((len(a), len(b)), np.nan), "not finite"), "inf": (with_corner(np.inf), "not finite"), "corner": (with_corner(-0.5), "negative diagonal|semidefinite"),
    "shape": (lambda a, b: rbf_kernel(a, b)[:-1], "shape"), "scalar": (lambda a, b: 1.0, "shape"), "complex": (lambda a, b: 1j * rbf_kernel(a, b), "real"), "text": (lambda a, b: np.full((len(a), len(b)), "1"), "real"), "none": (lambda a, b: None, "shape"),
    "sparse": (lambda a, b: sparse.csr_array(rbf_kernel(a, b)), "dense"), "objects": (lambda a, b: rbf_kernel(a, b).astype(object), "real"),
}


@EACH
@pytest.mark.parametrize("kind", BAD_KERNELS)
def test_kernels_that_are_none(f, kind):
    kernel, words = BAD_KERNELS[kind]
    if f is EACH.args[1][2] and kind in ("inf", "corner"): return                     # one entry of one row, which the fit need not see
    with pytest.raises(ValueError, match=f"`kernel` .*({words})"): f(X, Y, kernel=kernel)


@pytest.mark.parametrize("method", ["permutation", "bootstrap", "theory"])
@pytest.mark.parametrize("kind", BAD_KERNELS)
def test_kernels_that_are_none_in_the_other_tests(kind, method):
    kernel, words = BAD_KERNELS[kind]
    with pytest.raises(ValueError, match=f"`kernel` .*({words})"): kms_test(X, Y, kernel=kernel, method=method, n_resamples=9, rng=0)


@pytest.mark.parametrize("kind", ["nan", "inf", "corner", "shape", "indefinite"])
def test_kernels_that_are_none_seen_through_a_few_features(kind):
    with pytest.raises(ValueError, match="`kernel` "): kms_distance(X, Y, kernel=BAD_KERNELS[kind][0], n_features=4, rng=3)


def test_theory_of_zeros_and_of_kernels_in_other_precision():
    zero = np.zeros((5, 2))
    for kernel in ("linear", lambda a, b: a @ b.T):
        t = kms_test(zero, zero, method="theory", kernel=kernel)
        assert (t.statistic, t.pvalue, t.reject) == (0, 1, False) and 0 < t.threshold < np.inf
    for dtype in (np.longdouble, np.float32):
        kernel = lambda a, b: rbf_kernel(a, b).astype(dtype)
        a, b = kms_distance(X, Y, kernel=kernel), kms_distance(X, Y, kernel=rbf_kernel)
        assert_allclose(a.lower, b.lower, rtol=2e-3)
        assert b.lower <= a.upper and (a.upper < b.upper * 1.002 or dtype is np.float32)      # which hides more
        for method in ("panel", "split", "permutation", "bootstrap", "theory"):
            a, b = (kms_test(X, Y, kernel=k, method=method, n_resamples=49, rng=0) for k in (kernel, rbf_kernel))
            assert type(a.statistic) is float and a.pvalue == pytest.approx(b.pvalue, abs=.05)
        assert as_fitted(X, Y, kernel=kernel).lower > 0


def test_kernels_are_not_refused_for_their_rounding():
    "Single precision, polynomials of large numbers, nearly constant and low-rank kernels."
    from sklearn.metrics.pairwise import chi2_kernel, laplacian_kernel, polynomial_kernel
    rng = np.random.default_rng(0)
    single = lambda gamma: lambda a, b: rbf_kernel(a.astype(np.float32), b.astype(np.float32), gamma=gamma)
    for d in (1, 10):
        x, y = rng.uniform(size=(100, d)), rng.uniform(size=(100, d))
        for kernel in (single(1), single(100), laplacian_kernel, chi2_kernel, lambda a, b: polynomial_kernel(100 * a, 100 * b, degree=5), lambda a, b: rbf_kernel(a, b, gamma=1e-8), lambda a, b: a @ b.T):
            for n in (5, 99, None): kernels.pooled_features(kernel, x, y, n_features=n, rng=rng)


@pytest.mark.parametrize("kind", BAD_KERNELS)
def test_kernels_that_are_none_in_the_transformer(kind):
    kernel, words = BAD_KERNELS[kind]
    with pytest.raises(ValueError, match=f"`kernel` .*({words})"): KMSProjector(kernel=kernel).fit(np.vstack([X, Y]), np.arange(24) < 12)


def as_fitted(x, y, **options): return KMSProjector(**options).fit(np.vstack([x, y]), np.arange(len(x) + len(y)) < len(x)).result_


@pytest.mark.parametrize("f", [*EACH.args[1], as_fitted, quick("permutation")], ids=["distance", "panel", "split", "transformer", "permutation"])
def test_kernels_by_name(f):
    "With the median distance as bandwidth, of the metric that the kernel has; and the names in the error for another."
    s = kernels.median_bandwidth(X, Y)
    assert s == pytest.approx(np.median([np.linalg.norm(a - b) for i, a in enumerate(np.vstack([X, Y])) for b in np.vstack([X, Y])[:i]]), rel=1e-12)
    for name, kernel in (("gaussian", Gaussian(s)), ("laplace", Laplace(s)), ("linear", Linear())):
        assert number(f(X, Y, kernel=name)) == number(f(X, Y, kernel=kernel)) and f(X, Y, kernel=name).projector.kernel == kernel
    for name in ("rbf", "Gaussian", "", "gaussian "):
        with pytest.raises(ValueError, match=f"`kernel` must be one of 'gaussian', 'laplace', 'linear', or a kernel object such as .*, got {name!r}"): f(X, Y, kernel=name)


def test_none_is_the_gaussian_kernel_except_for_the_panel():
    for f in (kms_distance, quick("split"), as_fitted): assert number(f(X, Y)) == number(f(X, Y, kernel="gaussian"))
    kinds = len(panel.STATISTICS)
    for kernel, members in ((None, 5 * kinds), ("gaussian", kinds), (["laplace", "gaussian"], 2 * kinds)): assert len(kms_test(X, Y, kernel=kernel, rng=0).evidence) == members


@EACH
@pytest.mark.parametrize("kernel", [1.0, Gaussian, [1], {}])
def test_things_that_are_no_kernel(f, kernel):
    with pytest.raises(TypeError, match="`kernel` must be a kernel object"): f(X, Y, kernel=kernel)


def test_an_error_inside_a_kernel_is_passed_on():
    def kernel(a, b): raise ZeroDivisionError("mine")
    with pytest.raises(ZeroDivisionError, match="mine"): kms_distance(X, Y, kernel=kernel)


# --- parts that fail ------------------------------------------------------------------------------------------------------

def fail_from(call, f, error):
    "The function f until its call number `call`, an error from then on."
    calls = []
    def replacement(*args, **kwargs):
        calls.append(1)
        if len(calls) >= call: raise error
        return f(*args, **kwargs)
    return replacement


def still_valid(res, truth):
    assert not res.converged and "converged" not in res.message.split(";")[0]
    assert 0 <= res.lower <= res.relaxation <= res.upper < np.inf and res.lower <= truth.upper and truth.lower <= res.upper
    assert_allclose(res.coupling.sum(1), 1 / 12, rtol=1e-9); assert_allclose(res.coupling.sum(0), 1 / 12, rtol=1e-9)


TRUTH = {p: kms_distance(X, Y, p=p, kernel=Gaussian(0.3), tol=0.01) for p in (1.5, 2)}


@pytest.mark.parametrize("p", [1.5, 2])
@pytest.mark.parametrize("call", [1, 3])
@pytest.mark.parametrize("part", ["master", "optimal_coupling", "eigh"])
def test_a_solver_that_fails_leaves_a_valid_interval(monkeypatch, p, call, part):
    error = np.linalg.LinAlgError("Eigenvalues did not converge") if part == "eigh" else RuntimeError("the solver failed")
    for module in (bundle, mirror):
        if hasattr(module, part): monkeypatch.setattr(module, part, fail_from(call, getattr(module, part), error))
    res = kms_distance(X, Y, p=p, kernel=Gaussian(0.3), tol=1e-9)
    still_valid(res, TRUTH[p])
    assert str(error) in res.message


@pytest.mark.parametrize("call", [1, 3])
def test_mirror_ascent_whose_transport_fails(monkeypatch, call):
    monkeypatch.setattr(mirror, "optimal_coupling", fail_from(call, mirror.optimal_coupling, RuntimeError("the solver failed")))
    still_valid(kms_distance(X, Y, kernel=Gaussian(0.3), method="mirror", tol=1e-9), TRUTH[2])


@pytest.mark.parametrize("call", [1, 3])
def test_an_exact_search_that_is_interrupted_in_its_relaxation(monkeypatch, call):
    monkeypatch.setattr(bundle, "master", fail_from(call, bundle.master, KeyboardInterrupt()))
    res = kms_distance(X, Y, kernel=Gaussian(0.3), method="exact")
    still_valid(res, TRUTH[2])
    assert res.message.startswith("interrupted")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), np.linalg.LinAlgError("did not converge"), RuntimeError("the solver failed")], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("module, part, options", [
    (exact, "polish", dict(method="exact", tol=1e-3)), (exact, "best_direction", dict(method="exact", tol=1e-3)),
    (bundle, "master", {}), (bundle, "starting_point", {}), (mirror, "optimal_coupling", dict(method="mirror")), (mirror, "relative_gap", dict(method="mirror")), (exact, "cone_master", dict(method="exact", tol=1e-3)),
    (exact, "cone_bound", dict(method="exact", tol=1e-3)), (exact, "splitting_normal", dict(method="exact", tol=1e-3)), (exact, "advance", dict(method="exact", tol=1e-3)), (local, "polish", dict(max_iter=3)), (local, "ascend", dict(max_iter=3)),
    (distance, "best_direction", dict(max_iter=3)), (distance, "polish", dict(method="exact", max_iter=1, tol=1e-3)), (distance, "cell_upper", dict(method="local", max_iter=3)), (distance, "lower_rank", dict(reduce_rank=True, max_iter=3)),
    (rank, "safe_step", dict(reduce_rank=True, max_iter=3)), (rank, "optimal_face", dict(reduce_rank=True, max_iter=3))], ids=lambda v: v if isinstance(v, str) else "")
def test_parts_that_fail_or_are_interrupted_leave_a_valid_interval(monkeypatch, module, part, options, error):
    monkeypatch.setattr(module, part, fail_from(1, getattr(module, part), error))
    res = kms_distance(X, Y, **dict(kernel=Gaussian(0.3), tol=1e-9) | options)
    still_valid(res, TRUTH[2])
    said = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
    if part == "lower_rank" and said == "interrupted": assert res.message.startswith("interrupted")
    assert f"the rank was not reduced: {said}" in res.message if "reduce_rank" in options else said in res.message.split(";")[0]


@pytest.mark.parametrize("part, options", [("best_direction", dict(p=1, tol=.5)), ("polish", {}), ("exact", dict(method="exact")), ("lower_rank", dict(reduce_rank=True, tol=.5, kernel=Gaussian(0.3))), ("cell_upper", dict(method="local", kernel=Gaussian(0.3))), ("bundle", {})])
def test_an_interrupt_is_owned_up_to_even_if_the_gap_is_closed(monkeypatch, part, options):
    "Or the caller, and groups that wait for their turn, would go on as if nothing had happened."
    x, y = X, Y + 3 * (part in ("polish", "exact"))
    if part == "exact": monkeypatch.setattr(exact, "polish", fail_from(1, exact.polish, KeyboardInterrupt()))
    elif part == "bundle":
        whole = distance.bundle
        monkeypatch.setattr(distance, part, lambda *a, **kw: replace(whole(*a, **kw), message="interrupted"))
    else: monkeypatch.setattr(distance, part, fail_from(1, getattr(distance, part), KeyboardInterrupt()))
    res = kms_distance(x, y, **options)
    assert res.message.split("; ")[0] == "interrupted" and (res.converged or part == "cell_upper")
    if part != "polish": return
    test = kms_test(x, y, method="split", rng=0, n_resamples=99)
    assert "fit of the witness interrupted" in test.message
    groups = compare_groups({i: x for i in range(3)}, y, method="split", rng=0, n_resamples=99)
    assert len(groups.tests) == 1 and groups.message == "interrupted after 1 of 3 groups"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("the solver failed")], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_bounds_of_other_orders_whose_cells_or_witness_fail(monkeypatch, p, error):
    truth = kms_distance(X, Y, p=p, kernel=Gaussian(0.3), tol=0.01)
    for part, options in (("cell_upper", dict(method="local")), ("best_direction", {})):
        with monkeypatch.context() as patch:
            patch.setattr(distance, part, fail_from(1, getattr(distance, part), error))
            still_valid(kms_distance(X, Y, p=p, kernel=Gaussian(0.3), tol=1e-9, max_iter=3, **options), truth)


def test_an_interrupt_does_not_lose_the_cone_that_is_refined():
    "Its bound belongs to the bound of the whole sphere until its halves are there."
    class Tree:
        frontier = [(-2.0, 0, "first"), (-1.0, 1, "second")], 0.5
        def refine(self, node): raise KeyboardInterrupt
    tree = Tree()
    with pytest.raises(KeyboardInterrupt): exact.advance(tree)
    assert tree.frontier == ([(-2.0, 0, "first"), (-1.0, 1, "second")], 0.5)


@pytest.mark.parametrize("method, p", [("bundle", 2), ("bundle", 1.5), ("mirror", 2), ("local", 2), ("local", 1.5), ("exact", 2)])
def test_no_time_leaves_a_valid_interval(method, p):
    res = kms_distance(X, Y, p=p, kernel=Gaussian(0.3), method=method, tol=1e-9, max_seconds=1e-9)
    still_valid(res, TRUTH[p])
    assert res.n_iter == 1 and res.message.split(";")[0] == "stopped after " + "0 cones and " * (method == "exact") + "1e-09 seconds" and "proved by cells" not in res.message
    assert kms_distance(X, Y, p=p, kernel=Gaussian(0.3), method=method, tol=.2, max_seconds=1e3).converged or method == "local"


def test_transport_that_reaches_its_iteration_limit(monkeypatch):
    import ot
    truth, emd = kms_distance(X, Y[:9], kernel=Gaussian(0.3)), ot.emd
    monkeypatch.setattr(ot, "emd", lambda *args, **kwargs: emd(*args, **{**kwargs, "numItermax": 1}))
    with pytest.raises(RuntimeError, match="optimal transport solver failed"): transport.optimal_coupling(np.random.default_rng(0).random((12, 9)), np.full(12, 1 / 12), np.full(9, 1 / 9))
    for method in ("bundle", "mirror"):
        res = kms_distance(X, Y[:9], kernel=Gaussian(0.3), method=method)
        assert not res.converged and "transport solver failed" in res.message and res.lower <= truth.upper and truth.lower <= res.upper
    t = kms_test(X, Y[:9], method="split", kernel=Gaussian(0.3), rng=0, n_resamples=19)                # a worse witness, and still a valid p-value
    assert 0 < t.pvalue <= 1


def test_transport_with_wrong_marginals_is_noticed(monkeypatch):
    import ot
    emd = ot.emd
    def wrong(*args, **kwargs):
        plan, log = emd(*args, **kwargs)
        return plan * 1.001, log
    monkeypatch.setattr(ot, "emd", wrong)
    res = kms_distance(X, Y[:9])
    assert not res.converged and "marginals off by" in res.message and 0 < res.lower <= res.upper


@pytest.mark.parametrize("solution", ["nan", "zero"])
def test_clarabel_that_returns_nothing_usable(monkeypatch, solution):
    import clarabel
    Real = clarabel.DefaultSolver
    class Failed:
        def __init__(self, *args): self.real = Real(*args)
        def solve(self):
            s = self.real.solve()
            value = np.nan if solution == "nan" else 0.0
            return type("Solution", (), dict(x=[value] * len(s.x), z=[value] * len(s.z), status="NumericalError"))
    monkeypatch.setattr(clarabel, "DefaultSolver", Failed)
    res = kms_distance(X, Y, kernel=Gaussian(0.3), tol=1e-9)
    still_valid(res, TRUTH[2])
    assert "master problem failed: NumericalError" in res.message


class PanicException(BaseException):
    "What Clarabel raises when it fails inside: as in pyo3, no Exception."


@pytest.mark.parametrize("always", [False, True])
def test_clarabel_that_panics(monkeypatch, always):
    import clarabel
    Real = clarabel.DefaultSolver
    class Failed:
        def __init__(self, *args): self.real, self.fails = Real(*args), always or not args[-1].equilibrate_enable
        def solve(self):
            if self.fails: raise PanicException("Eigval error: Eigen(1)")
            return self.real.solve()
    monkeypatch.setattr(clarabel, "DefaultSolver", Failed)
    res = kms_distance(X, Y, kernel=Gaussian(0.3), tol=1e-9 if always else 1e-3)
    if always: still_valid(res, TRUTH[2])
    else: assert res.converged and res.lower <= TRUTH[2].upper and TRUTH[2].lower <= res.upper
    assert ("master problem failed: Eigval error" in res.message) == always == (not res.converged)


@pytest.mark.parametrize("size", [1.0, 1e6])
def test_the_master_problem_of_any_size(size):
    "With the quadratic term far larger than the rest Clarabel fails without its own scaling, by a panic at times."
    rng = np.random.default_rng(0)
    B, G = rng.normal(size=(29, 6, 6)), rng.normal(size=(29, 3)) + 2
    A, H = np.einsum("kij,klj->kil", B, B) / 6, size * G @ G.T
    w, S, t = bundle.master(A, H, -H @ np.eye(29)[0])
    assert abs(w.sum() - 1) < 1e-9 and abs(np.trace(S) - 1) < 1e-6
    value = lambda w: np.linalg.eigvalsh(np.tensordot(w, A, 1))[-1] + (w - np.eye(29)[0]) @ H @ (w - np.eye(29)[0]) / 2
    assert all(value(w) <= value(v) + 1e-4 + 1e-7 * size for v in (*np.eye(29), *rng.dirichlet(np.ones(29), 200)))


def test_cvxpy_that_fails(monkeypatch):
    import cvxpy as cp
    truth = kms_distance(X, Y)
    for error in (cp.error.SolverError("no"), PanicException("no")):
        def fail(*args, **kwargs): raise error
        monkeypatch.setattr(cp.Problem, "solve", fail)
        still_valid(kms_distance(X, Y, method="cvxpy"), truth)


# --- memory ---------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("n, options, words", [
    (40, dict(kernel=Gaussian(1.0)), "Gram matrix of 80 distinct rows.*set `n_features`, or subsample"), (40, dict(kernel=Gaussian(1.0), n_features=70), "70 features.*smaller `n_features`"),
    (400, dict(kernel=Linear()), "transport between 400 and 400 rows.*`method`='local'"), (3000, dict(kernel=Linear(), method="local"), "factor of 6000 rows with 5 columns.*fewer columns")])
def test_memory_is_estimated_before_it_is_used(monkeypatch, n, options, words):
    monkeypatch.setattr(kernels, "MEMORY_LIMIT", 100_000 if n < 100 else 1_000_000)
    x = np.random.default_rng(0).normal(size=(2 * n, 5))
    with pytest.raises(ValueError, match=words + ".*MEMORY_LIMIT"): kms_distance(x[:n], x[n:], method=options.pop("method", "bundle"), **options)


def test_too_much_is_refused_at_once():
    code = ("import numpy as np, resource; from kms_nb import Gaussian, Linear, kms_distance\n"
            "x = np.arange(200_000.)[:, None]; resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, -1))\n"
            "for o in (dict(kernel=Gaussian(1.), n_features=100_000), dict(kernel=Linear(), method='bundle')):\n"
            "    try: kms_distance(x, x + 1, **o)\n"
            "    except ValueError as e: print(e)")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.count("GB of memory") == 2, done.stderr


@pytest.mark.parametrize("method", ["bundle", "mirror", "exact"])
def test_memory_of_every_method_with_transport(monkeypatch, method):
    monkeypatch.setattr(kernels, "MEMORY_LIMIT", 1_000_000)
    x = np.random.default_rng(0).normal(size=(800, 5))
    with pytest.raises(ValueError, match="transport between 400 and 400 rows.*`method`='local'.*MEMORY_LIMIT"): kms_distance(x[:400], x[400:], kernel=Linear(), method=method, max_iter=1)


def test_memory_of_the_transformer_speaks_of_its_table(monkeypatch):
    x = np.random.default_rng(0).normal(size=(80, 5))
    monkeypatch.setattr(kernels, "MEMORY_LIMIT", 90_000)
    with pytest.raises(ValueError, match="Gram matrix of 80 distinct rows.*subsample `X`, or raise") as error: KMSProjector(kernel=Gaussian(1.0)).fit(x, np.arange(80) % 2)
    assert "`x`" not in str(error.value) and "`y`" not in str(error.value)


@pytest.mark.parametrize("method", ["panel", "permutation", "bootstrap"])
def test_memory_of_the_tests(monkeypatch, method):
    "Of relabellings, and of the features of many rows, before either is made."
    def touched(*args, **options): raise AssertionError("memory was used before it was estimated")
    for module, name in ((panel, "relabellings"), (testing, "relabellings"), (panel, "pooled_kernel"), (testing, "pooled_kernel")): monkeypatch.setattr(module, name, touched)
    monkeypatch.setattr(kernels, "MEMORY_LIMIT", 10_000_000)
    with pytest.raises(ValueError, match="1000000 relabellings of 24 rows need.*`n_resamples`.*MEMORY_LIMIT"): kms_test(X, Y, method=method, kernel=Gaussian(1.0), n_resamples=1_000_000)
    x = np.random.default_rng(0).normal(size=(4000, 2))
    with pytest.raises(ValueError, match="features of 4000 rows under 1 kernel need.*subsample `x` and `y`"): kms_test(x[:2000], x[2000:], method=method, kernel=Gaussian(1.0), n_resamples=9)


def test_features_in_single_precision_say_what_that_hides(monkeypatch):
    x, y = np.random.default_rng(0).normal(size=(2, 30, 2))
    double, truth = kernels.pooled_features(Gaussian(1.0), x, y, n_features=8, rng=np.random.default_rng(0)), kms_distance(x, y, kernel=Gaussian(1.0))
    monkeypatch.setattr(kernels, "SINGLE", 10)
    single = kernels.pooled_features(Gaussian(1.0), x, y, n_features=8, rng=np.random.default_rng(0))
    assert double.phi.dtype == float and single.phi.dtype == single.psi.dtype == np.float32
    for a, b in ((double.residual_x, single.residual_x), (double.residual_y, single.residual_y), ([double.rounding], [single.rounding])): assert_allclose(np.subtract(b, a), 2.0 ** -22, rtol=1e-6)
    for phi, psi in ((double.phi, single.phi), (double.psi, single.psi)): assert np.linalg.norm(phi - psi, axis=1).max() <= 2.0 ** -22
    for method in ("bundle", "local"):
        res = kms_distance(x, y, kernel=Gaussian(1.0), n_features=8, method=method)
        assert res.lower <= truth.upper and truth.lower <= res.upper


def test_rows_that_share_a_hash_are_still_told_apart(monkeypatch):
    rows = np.random.default_rng(0).integers(0, 40, (20_001, 2)).astype(float)
    expected = kernels.distinct_rows(rows)
    for value in (0, 1):
        def hashed(frame, **options): return pd.Series(np.arange(len(frame)) % 2 * value, dtype="uint64")
        monkeypatch.setattr("pandas.util.hash_pandas_object", hashed)
        z, ids = kernels.distinct_rows(rows)
        assert (z[ids] == rows).all() and len(z) == len(np.unique(rows, axis=0)) == len(expected[0])


# --- determinism ----------------------------------------------------------------------------------------------------------

def test_processes_and_threads_agree():
    code = ("from kms_nb import *; from kms_nb.data import blob\nx, y = blob(60, 20, variance=4, rng=0)\n"
            "r, n, t = kms_distance(x, y), kms_distance(x, y, n_features=40, rng=1), kms_test(x, y, rng=1)\n"
            "print(*map(repr, (r.lower, r.upper, n.lower, n.upper, t.statistic, t.pvalue)))")
    def run(**env): return [*map(float, subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=os.environ | env, capture_output=True, text=True, check=True).stdout.split())]
    one, again, two = run(OPENBLAS_NUM_THREADS="1"), run(OPENBLAS_NUM_THREADS="1", PYTHONHASHSEED="7"), run(OPENBLAS_NUM_THREADS="2")
    assert one == again
    assert_allclose(two, one, rtol=2e-3)
    assert two[-1] == one[-1]


def test_the_global_random_state_is_left_alone():
    import random
    before, theirs = np.random.get_state()[1].tolist(), random.getstate()
    for method in ("bundle", "mirror", "local", "cvxpy"): kms_distance(X, Y, method=method)
    kms_distance(X, Y, n_features=5); kms_test(X, Y); kms_test(X, Y, rng=0)
    assert np.random.get_state()[1].tolist() == before and random.getstate() == theirs
    np.random.seed(0); a = number(kms_distance(X, Y, n_features=5))
    np.random.seed(1); assert number(kms_distance(X, Y, n_features=5)) == a


# --- results --------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("options", [{}, {"p": 1.5}, {"p": 3}, {"n_features": 4}, {"kernel": Linear()}, {"kernel": rbf_kernel}, {"method": "local"}, {"x_weights": np.arange(1, 13)}, {"max_iter": 1}])
def test_results_can_be_written_as_json(options):
    res = kms_distance(X, Y, **options)
    got = json.loads(json.dumps(res.to_dict(), allow_nan=False))
    for name in ("p", "lower", "upper", "relaxation", "gap", "rank", "n_iter", "converged", "message", "method"): assert got[name] == getattr(res, name) and type(got[name]) in (int, float, bool, str)
    assert got["kernel"] == repr(res.projector.kernel) and got["history"] == [list(h) for h in res.history]
    equal = kms_distance(X, X).to_dict()
    assert json.loads(json.dumps(equal))["upper"] == 0


@pytest.mark.parametrize("options", [dict(max_iter=np.int64(7)), dict(n_features=np.uint8(20)), dict(tol=np.float32(.01)), dict(p=fractions.Fraction(3, 2))])
def test_numbers_of_other_types_as_options_of_the_transformer(options):
    plain = {name: value if name == "tol" else float(value) if name == "p" else int(value) for name, value in options.items()}
    assert number(as_fitted(X, Y, **options)) == number(as_fitted(X, Y, **plain))


def test_names_of_features_in_pictures():
    warnings.filterwarnings("ignore", ".*deprecated - use")                            # old versions of matplotlib use old names of their parser
    from matplotlib.figure import Figure
    x, y = np.random.default_rng(0).normal(size=(2, 9, 3)) * [[[1, 2, 3]]]
    t = kms_test(x, y, n_resamples=19, rng=0)
    def words(kind, names):
        ax = Figure().subplots()
        t.plot(ax, kind=kind, names=names)
        ax.figure.canvas.draw()
        return {ax.get_xlabel(), ax.get_ylabel(), *(label.get_text() for label in ax.get_yticklabels())}
    for kind, shown in (("witness", 2), ("features", 3)):
        for names, strings in (([11, 12, 13], ["11", "12", "13"]), ([("a", 1), ("b", 2), ("c", 3)], ["('a', 1)", "('b', 2)", "('c', 3)"]), (["$x", "y$", "$a$"], [r"\$x", r"y\$", r"\$a\$"]), (pd.Index(["u", "v", "w"]), "uvw"), (None, ["feature 0", "feature 1", "feature 2"])):
            assert len(words(kind, names) & set(strings)) == shown
        for names in ([], ["u", "v"], list("uvwx")):
            with pytest.raises(ValueError, match=f"`names` has {len(names)} entries for 3 features"): words(kind, names)
    for k in (0, -1, 2.0, True, None, "3"):
        with pytest.raises(ValueError, match="`k` must be an integer of at least 1"): t.top_points(k)
    assert [len(rows) for rows in t.top_points(np.int64(2))] == [2, 2]


# --- files from strangers -------------------------------------------------------------------------------------------------

@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    "Run `kms ARGS` in an empty folder; give back status, output and error output."
    monkeypatch.chdir(tmp_path)
    def call(*args):
        status = main([str(a) for a in args])
        out, err = capsys.readouterr()
        assert "Traceback" not in err and err.count("\n") <= 1 and len(err) < 2000
        return status, out, err
    pd.DataFrame(X, columns=["u", "v"]).to_csv("good.csv", index=False)
    return call


NUMBERS = "u,v\n" + "".join(f"{a:.3f},{b:.3f}\n" for a, b in Y)
STRANGE = {
    "binary": (b"\x7fELF\x02\x01\x01" + bytes(2000), "does not look like text"), "image": (b"\x89PNG\r\n\x1a\n" + bytes(200), "does not look like text"), "null bytes": (NUMBERS.replace(".", "\0").encode(), "does not look like text"),
    "one null byte": (NUMBERS.encode() + b"1,\x002\n", "does not look like text"), "utf-16 without a mark": (NUMBERS.encode("utf-16-le"), "does not look like text"), "utf-32": (NUMBERS.encode("utf-32"), "does not look like text"),
    "half a utf-16 letter": (NUMBERS.encode("utf-16")[:-1], "does not look like text"), "escape sequences": (NUMBERS.replace("u", "\x1b[31mu").encode(), "does not look like text"), "undefined letters": (NUMBERS.replace("u", "\xff\x81").encode("latin-1"), "does not look like text"),
    "a very long field": (b"u,v\n" + b"1" * 300_000 + b",2\n", "cannot be split into fields"), "an open quote": (b'u,v\n"' + b"1,2\n" * 50_000, "cannot be split into fields"), "a very long line": (b"u" * 2_000_000, "cannot be split into fields"),
    "names twice": (("a" * 5000 + "," + "a" * 5000 + "\n1,2\n").encode(), "occurs 2 times"), "many digits": (b"u,v\n" + b"9" * 400 + b",2\n1,2\n", "infinite values"), "a thousand commas": (b"u,v\n1,2" + b"," * 1000 + b"\n", "line 2 has 1002 fields"),
    "html": (b"<html><body>Not found, sorry; see below</body></html>\n<p>x</p>\n", "kms: error"), "json": (b'{"u": [1, 2], "v": [3, 4]}', "kms: error"), "formulas": (b'u,v\n"=1+1",2\n"=cmd|calc",3\n', "'u'"),
    "python": (b"u,v\n__import__('os').system('touch pwned'),2\n1,2\n", "mixes numbers and text"), "shell": (b"u,v\n$(touch pwned),2\n`touch pwned`,3\n", "'u'"),
}


@pytest.mark.parametrize("command", ["test", "distance"])
@pytest.mark.parametrize("kind", STRANGE)
def test_strange_files(run, tmp_path, kind, command):
    content, words = STRANGE[kind]
    Path("bad.csv").write_bytes(content)
    status, out, err = run(command, "good.csv", "bad.csv")
    assert (status, out) == (2, "") and words in err and "bad.csv" in err
    Path("bad.csv.gz").write_bytes(gzip.compress(content))
    assert words in run(command, "good.csv", "bad.csv.gz")[2]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.csv", "bad.csv.gz", "good.csv"]


def test_files_that_are_too_large(run, monkeypatch):
    "The limits, lowered: of a file, of what a small gzip file holds, of the number of fields, of a Parquet file."
    from kms_nb import data
    monkeypatch.setattr(data, "_MOST_BYTES", 3_000_000); monkeypatch.setattr(data, "_MOST_FIELDS", 100_000); monkeypatch.setattr(data, "_MOST_CELLS", 10)
    Path("long.csv").write_text("u,v\n" + "1.000000000,2.000000000\n" * 140_000)
    assert "long.csv holds more than 3 MB of text; store the table as a Parquet file" in run("test", "good.csv", "long.csv")[2]
    with gzip.open("bomb.csv.gz", "wb") as file:
        for _ in range(50): file.write(bytes(1_000_000))
    assert Path("bomb.csv.gz").stat().st_size < 100_000 and "bomb.csv.gz holds more than 3 MB" in run("test", "good.csv", "bomb.csv.gz")[2]
    Path("many.csv").write_text("u,v\n" + "1,2\n" * 60_000)
    assert "many.csv has more than" in run("test", "good.csv", "many.csv")[2]
    pd.DataFrame(X).to_parquet("many.parquet")
    assert "many.parquet has 24 cells, more than 10" in run("test", "good.csv", "many.parquet")[2]


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_AS")
@pytest.mark.parametrize("write", [
    "import gzip\nwith gzip.open('bad.csv.gz', 'wb', 1) as f:\n    for _ in range(2000): f.write(b'1' * 1_000_000)",                     # 2 GB in a few MB, one field
    "with open('bad.csv', 'wb') as f: f.truncate(5 * 2**30)",                                                                           # 5 GB of null bytes
    "import os; os.symlink('/dev/zero', 'bad.csv')"])
def test_memory_stays_bounded_whatever_the_file(run, tmp_path, write):
    code = f"{write}\nimport glob, resource, kms_nb.cli; resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, -1))\nprint(kms_nb.cli.main(['test', 'good.csv', *glob.glob('bad*')]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=120)
    assert done.stdout == "2\n" and ("MB of text" in done.stderr or "not a regular file" in done.stderr) and done.stderr.count("\n") == 1


def test_many_columns(run):
    "A hundred thousand columns."
    rng = np.random.default_rng(0)
    with open("a.csv", "w") as file:
        print(*(f"c{i}" for i in range(100_000)), sep=",", file=file)
        for row in rng.integers(0, 10, (2, 100_000)): print(*row, sep=",", file=file)
    Path("twice.csv").write_text(",".join(["c"] * 100_000) + "\n" + ",".join(["1"] * 100_000) + "\n")
    assert "the column name 'c' occurs 100000 times" in run("distance", "a.csv", "twice.csv")[2]
    status, out, err = run("distance", "a.csv", "a.csv", "--columns", "c1,c2,c99999")
    assert (status, err) == (0, "") and "3 features" in out


def test_many_levels_are_refused_before_they_become_features(run, monkeypatch):
    monkeypatch.setattr(kernels, "MEMORY_LIMIT", 200_000)
    pd.DataFrame({f"t{i}": [f"w{j % 97}" for j in range(200)] for i in range(9)}).to_csv("t.csv", index=False)
    status, out, err = run("test", "t.csv", "t.csv")
    assert status == 2 and "GB of memory" in err and "leave out text columns by naming the others in --columns" in err


def test_names_cannot_command_the_terminal(run):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"\x1b[2J\x9b31m": rng.normal(size=20), "v\n\u202ew": rng.normal(size=20), "g": ["\x1b]0;title\x07"] * 10 + ["b\r\x08"] * 10})
    table.to_parquet("t.parquet")
    for command in (["distance", "t.parquet", "--by", "g"], ["distance", "t.parquet", "t.parquet"], ["test", "t.parquet", "--by", "g", "--n-resamples", 9], ["distance", "t.parquet", "--by", "\x1b[2J"], ["distance", "t.parquet", "--by", "g", "--json"]):
        status, out, err = run(*command)
        assert all(c.isprintable() or c == "\n" for c in out + err), ascii(out + err)
        assert (status == 0) == ("\x1b[2J" not in command)


def test_damaged_parquet_files(run):
    pd.DataFrame(X, columns=["u", "v"]).to_parquet("t.parquet")
    whole, rng = Path("t.parquet").read_bytes(), np.random.default_rng(0)
    for _ in range(150):
        damaged = bytearray(whole[: rng.integers(8, len(whole) + 1)] if rng.random() < 0.2 else whole)
        for i in rng.integers(0, len(damaged), rng.integers(1, 5)): damaged[i] = rng.integers(0, 256)
        Path("bad.parquet").write_bytes(damaged)
        try: read_table("bad.parquet")
        except ValueError as error: assert "bad.parquet" in str(error)


def test_random_bytes_and_damaged_tables_are_read_or_refused(run):
    rng, whole = np.random.default_rng(0), NUMBERS.encode()
    for i in range(300):
        if i % 3: 
            damaged = bytearray(whole)
            for j in rng.integers(0, len(damaged), rng.integers(1, 9)): damaged[j] = rng.choice(list(b'",;\t\n\r\'\\- eE.0\xff\xe9#='))
        else: damaged = bytes(rng.integers(1, 256, rng.integers(0, 60), dtype=np.uint8))
        Path("bad.csv").write_bytes(damaged)
        try: table = read_table("bad.csv")
        except ValueError as error: assert "bad.csv" in str(error)
        else: assert table.shape[0] > 0 and all(isinstance(c, str) for c in table.columns)


def test_nothing_in_the_library_runs_what_it_reads():
    import re
    for path in (ROOT / "kms_nb").glob("*.py"):
        found = re.findall(r"(?<![\w.])(?:eval|exec)\(|\bpickle\b|os\.system|subprocess|read_pickle|allow_pickle=True|__import__|shell=True|yaml\.load\(", path.read_text(encoding="utf-8"))
        assert not found, f"{path.name}: {found}"


@pytest.mark.parametrize("options", [["--plot", "good.csv"], ["--plot", "old.png"], ["--plot", "OLD.PNG"]])
def test_no_file_is_replaced_without_force(run, tmp_path, options):
    for name in ("old.png", "OLD.PNG"): Path(name).write_bytes(b"mine")
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert run("distance", "good.csv", "good.csv", *options)[0] == 2
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


@pytest.mark.parametrize("scale", ["e16", "e-12"])
def test_numbers_of_any_size_on_the_command_line(run, scale):
    a, b = NUMBERS.splitlines(), pd.DataFrame(X, columns=["u", "v"]).round(3).to_csv(index=False).splitlines()
    def files(end):
        for name, lines in (("a", a), ("b", b)): Path(f"{name}{end or 1}.csv").write_text("\n".join([lines[0]] + [",".join(f + end for f in line.split(",")) for line in lines[1:]]))
        return f"a{end or 1}.csv", f"b{end or 1}.csv"
    for options in ([], ["--raw"]):
        one, other = (json.loads(run("test", *files(end), *options, "--json", "--n-resamples", 99)[1]) for end in ("", scale))
        assert other["pvalue"] == one["pvalue"] and other["distance"]["upper"] == pytest.approx(one["distance"]["upper"], rel=1e-3)


@EACH
@pytest.mark.parametrize("table", [
    lambda v: v, lambda v: pd.DataFrame(v), lambda v: pd.DataFrame(v).astype("Int64"), lambda v: pd.DataFrame(v).astype("int64[pyarrow]"), lambda v: v.astype(object), lambda v: v.tolist(), lambda v: (v.astype(object) + 2 ** 64).tolist()])
def test_whole_numbers_that_rounding_would_merge_are_refused_in_every_table(f, table):
    x = 2 ** 60 + np.arange(12)[:, None]
    for a, b in ((x, x + 10), (np.full((6, 1), 2 ** 60), np.full((6, 1), 2 ** 60 + 1))):
        with pytest.raises(ValueError, match="beyond 2"): f(table(a), table(b))
    stamps = 1_700_000_000_000_000_000 + 10 ** 12 * np.arange(12)[:, None]            # nanoseconds of minutes: rounded by a part in a billion
    a, b = f(table(stamps), table(stamps + 3 * 10 ** 12)), f(np.arange(12.0)[:, None], np.arange(12.0)[:, None] + 3)
    if hasattr(a, "upper"): assert_allclose(number(a), number(b), rtol=2e-3)


@pytest.mark.parametrize("p", [1, 2, 6, 20])
@pytest.mark.parametrize("kernel", [Linear(), Gaussian(2.0)])
def test_sums_of_weights_that_differ_by_rounding_move_no_mass(kernel, p):
    "W_p takes the p-th root of masses: a piece of 1e-16 is no small thing."
    z, w = np.array([[-7.0], [-1.0], [2.0]]), [5, 3, 4]
    same = kms_distance(z, np.repeat(z, w, axis=0), p=p, kernel=kernel, x_weights=w)
    assert same.lower == 0
    shifted = kms_distance(z, np.repeat(z, w, axis=0) + 0.01, p=p, kernel=Linear(), x_weights=w)
    assert shifted.lower == pytest.approx(0.01, rel=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(50):
        w, v = rng.integers(1, 50, 6), np.sort(rng.normal(size=6))
        assert transport.wasserstein_1d(v, np.repeat(v, w) + 0.5, a=w, p=p) == pytest.approx(0.5, rel=1e-9)


def test_an_interrupt_while_solvers_are_imported_breaks_nothing(tmp_path):
    code = """
import os, signal, sys, threading
import numpy as np, importlib.abc
from kms_nb import kms_distance
class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "ot.lp": os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
x = np.arange(6.)[:, None]
print(kms_distance(x, x[1:]).message.split(";")[0])
print(kms_distance(x, x + 1, kernel="linear").lower)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, preexec_fn=lambda: __import__("signal").signal(2, __import__("signal").SIG_DFL))
    assert done.stdout == "interrupted\n1.0\n" and done.stderr == ""


def test_a_clock_of_low_precision_is_read_in_full():
    for value in (np.float16(0.01), np.float32(0.01)): assert "stopped after 99 of 9999" in kms_test(X, Y, n_resamples=9999, rng=0, max_seconds=value).message
    assert kms_test(X, Y, method="split", rng=0, n_resamples=19, max_seconds=np.float32("inf")).message == ""
    with pytest.raises(ValueError, match="`max_seconds`"): kms_test(X, Y, max_seconds="3")


def test_an_eigensolver_that_fails_at_the_end_leaves_a_wider_bound(monkeypatch):
    V = np.array([[2.0, -1], [-1, 1]])
    assert mirror.top_eigenvalue(V) == pytest.approx(np.linalg.eigvalsh(V)[-1], rel=1e-12)
    def fail(*args): raise np.linalg.LinAlgError("did not converge")
    monkeypatch.setattr(mirror.np.linalg, "eigvalsh", fail)
    assert mirror.top_eigenvalue(V) == pytest.approx(3, rel=1e-12)
    res = kms_distance(X, Y, kernel=Gaussian(0.3), max_iter=2)
    assert not res.converged and res.lower <= TRUTH[2].upper and TRUTH[2].lower <= res.upper < 2


def test_columns_of_arrow_tables_and_of_witnesses_have_names():
    table = pa.table({"a": X[:, 0], "b": X[:, 1]})
    frame = table.to_pandas()
    for swapped in (table.select(["b", "a"]), frame[["b", "a"]]):
        for f in (kms_distance, quick("panel"), Gaussian(1.0)):
            with pytest.raises(ValueError, match="`y` has the column 'b' where `x` has 'a'"): f(table, swapped)
        for fitted in (kms_distance(table, frame + 1), kms_distance(X + 1, frame), quick("panel")(frame, table), quick("split")(table, X)):
            assert_array_equal(fitted.projector(table), fitted.projector(X))
            with pytest.raises(ValueError, match="`z` has the column 'b' where `x` has 'a'"): fitted.projector(swapped)


def test_decimals_of_data_frames_are_numbers():
    prices = [decimal.Decimal("19.99"), decimal.Decimal("5.00"), decimal.Decimal("7.25")]
    expected = number(kms_distance([[19.99], [5.0]], [[7.25], [5.0]]))
    for table in (pa.table({"price": pa.array(prices, pa.decimal128(10, 2))}), pd.DataFrame({"price": prices})):
        assert number(kms_distance(table.take([0, 1]), table.take([2, 1]))) == expected
    with pytest.raises(TypeError, match="column 'price' is not"): kms_distance(pd.DataFrame({"price": ["a", 1]}), pd.DataFrame({"price": prices}))
    with pytest.raises(TypeError, match="column 'price' is not"): kms_distance(pd.DataFrame({"price": pd.Categorical([1, 2])}), pd.DataFrame({"price": prices}))


def test_median_bandwidth_at_the_largest_float():
    most = np.finfo(float).max
    for z in ([[most], [-most]], [[most, most], [-most, -most], [most, -most]]): assert median_bandwidth(z) == 1.7e308


@pytest.mark.parametrize("tiny", [5e-324, 1e-320, 2.3e-309, 1e-300, 1e-290])
def test_tiny_differences_beside_a_constant_column(tiny):
    x, y = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 0.0], [1.0, tiny]])
    assert median_bandwidth(x, y) in (1.0, max(tiny, 1e-300)) and quick("panel")(x, y).pvalue == 1


SPAN = np.timedelta64(3, "ns")                                                      # an integer, says NumPy
@pytest.mark.parametrize("bad", [SPAN, np.timedelta64(3, "D"), np.datetime64("NaT"), "no", np.nan, pd.NA, np.ones(2), -10**5000], ids=lambda v: "huge" if isinstance(v, int) else repr(v))
def test_options_that_are_no_numbers(bad):
    for f, names in ((kms_distance, ("p", "tol", "max_seconds", "max_iter", "n_features", "reduce_rank", "progress", "rng")), (kms_test, ("p", "alpha", "n_resamples", "n_jobs", "C", "max_seconds", "progress", "rng"))):
        for name in names:
            with pytest.raises((TypeError, ValueError), match=f"`{name}` must"): f(X, Y, **{name: bad})
    for kernel in (Gaussian, Laplace):
        with pytest.raises(ValueError, match="`bandwidth` must"): kernel(bad)
