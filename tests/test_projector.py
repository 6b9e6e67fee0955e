"The transformer, by scikit-learn's own checks and in scikit-learn's own company."
import pickle
import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel, sigmoid_kernel
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from kms_nb import Gaussian, Laplace, Linear, kms_distance, kms_test
from kms_nb.kernels import Precomputed
from kms_nb.projector import KMSProjector


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
