"The transformer, by scikit-learn's own checks and in scikit-learn's own company."
import ast
import pickle
import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel, sigmoid_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from kms_nb import Gaussian, KMSProjector, Laplace, Linear, Precomputed, kms_distance, kms_test, median_bandwidth


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.arange(60) % 2
    X[y == 1, 0] += 3
    return X, y


@parametrize_with_checks([KMSProjector(), KMSProjector(p=1, kernel=Linear()), KMSProjector(kernel=Laplace(2.0), n_features=8, random_state=0)])
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_same_as_kms_distance(data):
    X, y = data
    direct = kms_distance(X[y == 1], X[y == 0])
    fitted = KMSProjector().fit(X, y)
    assert fitted.result_.lower == direct.lower and fitted.projector_ is fitted.result_.projector
    np.testing.assert_allclose(fitted.transform(X)[:, 0], direct.projector(X))
    np.testing.assert_allclose(fitted.projector_.norm, 1, rtol=1e-6)


def test_second_class_is_larger_whatever_the_labels(data):
    X, y = data
    for labels in (y, np.array(["b", "c"])[y], y == 1, y.astype(float) - 3):
        fitted = KMSProjector().fit(X, labels)
        assert list(fitted.classes_) == sorted(set(labels.tolist()))
        values = fitted.transform(X)[:, 0]
        assert values[y == 1].mean() > values[y == 0].mean()


def test_pipelines_clones_and_pickles(data):
    X, y = data
    model = make_pipeline(StandardScaler(), KMSProjector(tol=0.01), LogisticRegression())
    assert cross_val_score(model, X, y, cv=3).mean() > 0.6
    copy = clone(model).set_params(kmsprojector__kernel=Gaussian(0.7))
    assert copy.get_params()["kmsprojector__kernel"] == Gaussian(0.7) and model.get_params()["kmsprojector__kernel"] is None
    fitted = KMSProjector().fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), fitted.transform(X))


def test_data_frames(data):
    X, y = data
    table = pd.DataFrame(X, columns=list("abc"), index=np.arange(60) + 100)
    fitted = KMSProjector().set_output(transform="pandas").fit(table, y)
    out = fitted.transform(table)
    assert list(out.columns) == ["kmsprojector0"] and out.index.equals(table.index) and list(fitted.feature_names_in_) == list("abc")
    with pytest.raises(ValueError, match="feature names"):
        fitted.transform(table[["c", "b", "a"]])
    columns = ColumnTransformer([("witness", KMSProjector(), ["a", "b"])], remainder="passthrough")
    assert columns.fit_transform(table, y).shape == (60, 2)
    assert list(columns.get_feature_names_out()) == ["witness__kmsprojector0", "remainder__c"]


def test_random_state(data):
    X, y = data
    same = [KMSProjector(n_features=10, random_state=s).fit(X, y).transform(X) for s in (3, 3, None, None)]
    np.testing.assert_array_equal(same[0], same[1])
    np.testing.assert_array_equal(same[2], same[3])
    state = np.random.get_state()[1].copy()
    KMSProjector(n_features=10).fit(X, y)
    assert (np.random.get_state()[1] == state).all()


@pytest.mark.parametrize("labels, words", [(np.arange(60) % 3, "exactly 2 classes, got 3"), (np.zeros(60), "got 1 class:"), (np.linspace(0, 1, 60), "continuous")])
def test_wrong_labels(data, labels, words):
    with pytest.raises(ValueError, match=words):
        KMSProjector().fit(data[0], labels)


@pytest.mark.parametrize("options", [dict(p=0.5), dict(tol=2), dict(method="best"), dict(max_iter=0), dict(n_features=-1), dict(kernel="rbf")])
def test_wrong_options(data, options):
    with pytest.raises((ValueError, TypeError), match=f"`{next(iter(options))}`"):
        KMSProjector(**options).fit(*data)


def test_not_fitted(data):
    with pytest.raises(NotFittedError):
        KMSProjector().transform(data[0])


def test_package_does_not_import_scikit_learn(root):
    code = "import sys, kms_nb; sys.exit(any(m.split('.')[0] in ('sklearn', 'matplotlib', 'pandas', 'cvxpy') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=root).returncode == 0


def test_public_names_are_imported_when_they_are_used(root):
    "`from kms_nb import KMSProjector` works, and only it imports scikit-learn."
    code = """
import sys
loaded = lambda: [m for m in ("numpy", "scipy", "sklearn", "pandas", "matplotlib", "cvxpy") if m in sys.modules]
import kms_nb
print(loaded(), {"KMSProjector", "compare_groups", "detect_change", "kms_distance"} <= set(dir(kms_nb)))
from kms_nb import Gaussian, compare_groups, detect_change, kms_distance, kms_test
print(loaded())
from kms_nb import KMSProjector
print("sklearn" in sys.modules, KMSProjector is kms_nb.KMSProjector is kms_nb.projector.KMSProjector, kms_nb.plotting.__name__)
for name in ("nothing", "_nothing", "sklearn"):
    try: getattr(kms_nb, name)
    except AttributeError as error: print(error)
try: from kms_nb import nothing
except ImportError as error: print(str(error).partition(" (")[0])
from kms_nb import *
assert [globals()[name] for name in kms_nb.__all__] == [getattr(kms_nb, name) for name in kms_nb.__all__]"""
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert done.stderr == "" and done.stdout.splitlines() == [
        "[] True", "['numpy', 'scipy']", "True True kms_nb.plotting", *(f"module 'kms_nb' has no attribute {name!r}" for name in ("nothing", "_nothing", "sklearn")), "cannot import name 'nothing' from 'kms_nb'"]


def test_editors_see_the_names_that_are_there(root):
    "The imports for type checkers name what `__getattr__` imports."
    import kms_nb
    block = next(node for node in ast.parse((root / "kms_nb/__init__.py").read_text(encoding="utf-8")).body if isinstance(node, ast.If))
    assert {alias.name: line.module for line in block.body for alias in line.names} == kms_nb._HOMES and sorted(kms_nb.__all__) == sorted(kms_nb._HOMES)


# ---------------------------------------------------------------- numbers of any size and type, tiny and degenerate classes


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e16, 1e150])
def test_units_do_not_matter(data, scale):
    X, y = data
    one, other = (KMSProjector().fit(X * s, y) for s in (1, scale))
    assert other.result_.upper == pytest.approx(one.result_.upper, rel=1e-3)
    np.testing.assert_allclose(other.transform(X * scale), one.transform(X), atol=1e-4)
    if 1e-150 < scale < 1e150:
        one, other = (KMSProjector(kernel=Linear()).fit(X * s, y) for s in (1, scale))
        assert other.result_.upper == pytest.approx(one.result_.upper * scale, rel=1e-3)
        np.testing.assert_allclose(other.transform(X * scale) / scale, one.transform(X), atol=1e-3)


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, bool, np.float32, ">f4", object])
def test_numbers_of_every_type_are_numbers(dtype):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2 if dtype is bool else 9, (30, 3)).astype(float), np.arange(30) % 2
    typed = X.astype(dtype)
    np.testing.assert_array_equal(KMSProjector().fit(typed, y).transform(typed), KMSProjector().fit(X, y).transform(X))


def test_frames_of_mixed_nullable_and_arrow_types(data):
    X, y = np.round(data[0] * 2), data[1]
    plain = pd.DataFrame(X, columns=list("abc"))
    expected = KMSProjector().fit(plain, y).transform(plain)
    for types in ({"a": "int16", "b": "float32"}, {"a": "Int64", "b": "Float64"}, {"a": "int64[pyarrow]", "c": "double[pyarrow]"}):
        table = plain.astype(types)
        np.testing.assert_array_equal(KMSProjector().fit(table, y).transform(table), expected)


def test_arrays_that_may_not_be_written_or_lie_scattered(data):
    X, y = data
    expected = KMSProjector().fit(X, y).transform(X)
    for view in (np.repeat(X, 2, axis=1)[:, ::2], np.asfortranarray(X), X[::-1].copy()[::-1]):
        view.flags.writeable = False
        np.testing.assert_array_equal(KMSProjector().fit(view, y).transform(view), expected)


def test_classes_of_one_to_three_rows():
    rows = np.array([[0.0, 1.0], [3.0, 1.0], [0.0, 5.0], [2.0, 2.0], [1.0, 1.0]])
    for n, m in ((1, 1), (1, 2), (3, 1), (2, 3)):
        X, y = np.vstack([rows[:n], rows[::-1][:m]]), np.repeat([1, 0], [n, m])
        fitted = KMSProjector(kernel=Gaussian(1.0)).fit(X, y)
        u = fitted.transform(X)[:, 0]
        assert 0 < fitted.result_.lower <= fitted.result_.upper <= 2**0.5
        if n == m == 1: np.testing.assert_allclose([u[0] - u[1], fitted.result_.upper], np.sqrt(2 - 2 * np.exp(-1 / 2)), rtol=1e-4)      # rows (0, 1) and (1, 1)
    with pytest.raises(ValueError, match="exactly 2 classes, got 1 class"):
        KMSProjector().fit(rows[:1], [0])


def test_constant_features_and_rows_in_both_classes(data):
    X, y = data
    plain = KMSProjector().fit(X, y).transform(X)
    np.testing.assert_allclose(KMSProjector().fit(np.c_[X, np.full(60, 7.0)], y).transform(np.c_[X, np.full(60, 7.0)]), plain, atol=1e-6)
    both = KMSProjector().fit(np.vstack([X, X]), np.repeat([0, 1], 60))
    assert both.result_.lower == both.result_.upper == 0 and np.isfinite(both.transform(X)).all()
    same = KMSProjector().fit(np.ones((9, 2)), np.arange(9) % 2)
    assert same.result_.upper == 0 and np.ptp(same.transform(np.ones((3, 2)))) == 0
    shared = KMSProjector().fit(np.vstack([X, X[:20]]), np.r_[y, 1 - y[:20]])                        # a third of the rows in either class
    assert 0 < shared.result_.lower <= shared.result_.upper < KMSProjector().fit(X, y).result_.lower


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_orders_on_the_line(p):
    "A linear kernel and one feature: the distance of the sorted values."
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=12), 2 * rng.normal(size=12)
    fitted = KMSProjector(p=p, kernel=Linear()).fit(np.r_[x, y][:, None], np.repeat([1, 0], 12))
    right = np.mean(np.abs(np.sort(x) - np.sort(y)) ** p) ** (1 / p)
    assert fitted.result_.lower == pytest.approx(right, rel=1e-9) and fitted.result_.upper >= right * (1 - 1e-9)


def test_a_fit_that_stops_early_says_so_in_its_result_and_nothing_is_printed(data, capsys):
    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = KMSProjector(max_iter=1, tol=1e-9, method="mirror").fit(X, y)
    assert not fitted.result_.converged and "stopped after 1" in fitted.result_.message and fitted.n_iter_ == 1
    assert 0 < fitted.result_.lower <= fitted.result_.upper and capsys.readouterr() == ("", "")


def test_order_of_rows_does_not_matter(data):
    X, y = data
    i = np.random.default_rng(1).permutation(60)
    np.testing.assert_allclose(KMSProjector().fit(X[i], y[i]).transform(X), KMSProjector().fit(X, y).transform(X), atol=1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_missing_and_infinite_values_are_refused(data, bad):
    X, y = data
    hole = X.copy()
    hole[3, 1] = bad
    for call in (lambda: KMSProjector().fit(hole, y), lambda: KMSProjector().fit(X, y).transform(hole), lambda: KMSProjector().fit(X, np.where(np.arange(60) == 3, bad, y))):
        with pytest.raises(ValueError, match="NaN|infinity") as error: call()
        assert "nan_policy" not in str(error.value)


def test_kernels_by_name_have_the_bandwidth_of_the_rows_of_the_fit(data):
    X, y = data
    s = median_bandwidth(X)
    for name, kernel in (("gaussian", Gaussian(s)), ("laplace", Laplace(s)), ("linear", Linear())):
        fitted = KMSProjector(kernel=name).fit(X, y)
        assert fitted.kernel == name and fitted.projector_.kernel == kernel
    search = GridSearchCV(make_pipeline(KMSProjector(), LogisticRegression()), {"kmsprojector__kernel": ["gaussian", "laplace", "linear"]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.8
    with pytest.raises(ValueError, match="`kernel` must be one of 'gaussian', 'laplace', 'linear'"): KMSProjector(kernel="rbf").fit(X, y)


# ---------------------------------------------------------------- kernels of scikit-learn, and precomputed ones


@pytest.mark.parametrize("kernel", [rbf_kernel, laplacian_kernel, polynomial_kernel, linear_kernel, partial(rbf_kernel, gamma=0.3)])
def test_kernels_of_scikit_learn(data, kernel):
    X, y = data
    x, y = X[y == 1], X[y == 0][:25]
    res = kms_distance(x, y, kernel=kernel)
    assert 0 < res.lower <= res.upper and res.converged
    np.testing.assert_allclose(res.projector.norm, 1, rtol=1e-5)
    assert kms_test(x, y, kernel=kernel, n_resamples=99, rng=0).pvalue <= 0.05


def test_same_as_own_kernels(data):
    X, y = data
    x, y = X[y == 1], X[y == 0]
    for ours, theirs in ((Gaussian(0.7), partial(rbf_kernel, gamma=1 / (2 * 0.7**2))), (Linear(), linear_kernel)):
        a, b = kms_distance(x, y, kernel=ours), kms_distance(x, y, kernel=theirs)
        assert a.lower <= b.upper * (1 + 1e-7) and b.lower <= a.upper * (1 + 1e-7)


def test_kernel_that_is_none(data):
    X, y = data
    with pytest.raises(ValueError, match="positive semidefinite"):
        kms_distance(X[y == 1], X[y == 0], kernel=partial(sigmoid_kernel, gamma=1.0))


def test_precomputed_agrees_with_the_kernel(data):
    X, y = data
    gram, numbers = Precomputed(Gaussian(1.0)(X)), np.arange(60)[:, None]
    a, b = kms_distance(X[y == 1], X[y == 0], kernel=Gaussian(1.0)), kms_distance(numbers[y == 1], numbers[y == 0], kernel=gram)
    assert a.lower <= b.upper and b.lower <= a.upper
    assert abs(a.lower - b.lower) <= 2e-3 * a.lower
    np.testing.assert_allclose(b.projector(numbers[:4]), gram.gram[:4, b.projector.points[:, 0].astype(int)] @ b.projector.coef)
    assert kms_test(numbers[y == 1], numbers[y == 0], kernel=gram, n_resamples=99, rng=0).reject
    assert pickle.loads(pickle.dumps(b)).projector(numbers).shape == (60,)


def test_precomputed_with_strings():
    "A kernel on objects that are not vectors: shared letters of words."
    words = ["aab", "aba", "abb", "bab", "aabb", "xyz", "xxy", "zyx", "yyz", "zzx"]
    count = np.array([[w.count(c) for c in "abxyz"] for w in words], float)
    res = kms_distance([[i] for i in range(5)], [[i] for i in range(5, 10)], kernel=Precomputed(count @ count.T))
    assert res.lower > 1 and res.projector(np.arange(10)[:, None])[:5].min() > res.projector(np.arange(10)[:, None])[5:].max()


def test_precomputed_in_the_transformer(data):
    X, y = data
    gram, numbers = Precomputed(Gaussian(1.0)(X)), np.arange(60)[:, None]
    assert cross_val_score(make_pipeline(KMSProjector(kernel=gram), LogisticRegression()), numbers, y, cv=3).mean() > 0.6


@pytest.mark.parametrize("gram, words", [(np.ones((2, 3)), "square"), ([[1.0, 0.5], [0.0, 1.0]], "symmetric"), ([[np.nan]], "missing or infinite"), (np.ones(3), "two dimensions")])
def test_wrong_gram(gram, words):
    with pytest.raises(ValueError, match=f"`gram`.*{words}"):
        Precomputed(gram)


@pytest.mark.parametrize("rows", [[[3]], [[-1]], [[0.5]], [[0, 1]]])
def test_wrong_row_numbers(rows):
    with pytest.raises(ValueError, match="row numbers from 0 to 2"):
        Precomputed(np.eye(3))(rows)
    with pytest.raises(ValueError, match="row numbers from 0 to 2"):
        kms_distance(rows, np.zeros_like(rows), kernel=Precomputed(np.eye(3)))


def test_gram_not_positive_semidefinite():
    with pytest.raises(ValueError, match="positive semidefinite"):
        kms_distance([[0], [1]], [[2]], kernel=Precomputed([[1, 2, 0], [2, 1, 0], [0, 0, 1]]))


@pytest.mark.parametrize("seed", [-1, "a", 0.5, np.random.default_rng(0)])
def test_bad_random_states_are_named(data, seed):
    with pytest.raises(ValueError, match="`random_state`"): KMSProjector(random_state=seed).fit(*data)


@pytest.mark.parametrize("column", [["u"] * 60, pd.date_range("2020-01-01", periods=60)])
def test_columns_that_are_no_numbers_are_named(data, column):
    X, y = data
    frame = pd.DataFrame(X).assign(odd=column).rename(columns=str)
    with pytest.raises(TypeError, match="`X` must be numeric; column 'odd'"): KMSProjector().fit(frame, y)


@pytest.mark.parametrize("bad", [lambda X, y: (X[:, :2], np.arange(60) % 3), lambda X, y: (X[:, :2], y[:-1]), lambda X, y: (X * np.nan, y)])
def test_a_fit_that_fails_keeps_the_one_before(bad):
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    fitted = KMSProjector(kernel=Gaussian(1.0)).fit(X, y)
    before = fitted.transform(X)
    with pytest.raises(ValueError): fitted.fit(*bad(X, y))
    assert (fitted.transform(X) == before).all() and fitted.n_features_in_ == 3 and fitted.classes_.tolist() == [0, 1]
    fresh = KMSProjector(p=.5)
    with pytest.raises(ValueError, match="`p`"): fresh.fit(X, y)
    with pytest.raises(NotFittedError): fresh.transform(X)


def test_gram_matrices_in_single_precision():
    "Their rounding is that of float32: the matrix is no more indefinite than that, and the interval is wider."
    z = np.random.default_rng(0).normal(size=(40, 2))
    K, i, j = Gaussian(1.0)(z), np.arange(20)[:, None], np.arange(20, 40)[:, None]
    exact, single = kms_distance(i, j, kernel=Precomputed(K)), kms_distance(i, j, kernel=Precomputed(K.astype(np.float32)))
    assert single.lower <= exact.upper * (1 + 1e-6) and exact.lower <= single.upper and single.upper < 1.5 * exact.upper and single.lower > 0.99 * exact.lower
    few = kms_distance(i, j, kernel=Precomputed(K.astype(np.float32)), n_features=10); assert few.lower <= exact.upper * (1 + 1e-6) and exact.lower <= few.upper
    tests = [kms_test(i, j, kernel=Precomputed(M), rng=0, n_resamples=99).pvalue for M in (K, K.astype(np.float32))]
    assert abs(tests[0] - tests[1]) <= 0.02
