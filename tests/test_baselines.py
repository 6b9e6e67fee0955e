"The known two-sample tests: level, power, agreement with other libraries, errors."
import pickle

import numpy as np
import ot
import pytest
from scipy import stats
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import rbf_kernel

from kms_nb import Linear, kms_test, median_bandwidth
from kms_nb.baselines import (BASELINES, bandwidth_range, baseline_test, energy_squared, kernel_collection, labellings, me_statistic, mmd_squared, power_ratio, share_as_large, sliced_squared,
                              smallest_pvalues)


@pytest.fixture
def samples():
    rng = np.random.default_rng(1)
    return rng.normal(size=(40, 3)), rng.normal(size=(30, 3)) + [2, 0, 0]


@pytest.mark.parametrize("name", BASELINES)
def test_level(name):
    "Share of rejections at .05 and .25 without a difference, within four standard errors; discrete data for the exact tests, large normal samples for the one with a limit law."
    repetitions, p = {"ms": 150, "me": 200}.get(name, 300), []
    for seed in range(repetitions):
        g = np.random.default_rng([7, seed])
        x, y = (g.normal(size=(k, 2)) for k in (300, 340)) if name == "me" else (g.integers(0, 4, (k, 2)).astype(float) for k in (15, 21))
        p.append(baseline_test(name, x, y, n_resamples=39, rng=seed).pvalue)
    for alpha in (0.05, 0.25):
        assert np.mean(np.array(p) <= alpha) <= alpha + 4 * np.sqrt(alpha * (1 - alpha) / repetitions), (name, alpha)


@pytest.mark.parametrize("name", BASELINES)
def test_power_on_an_easy_case(name, samples):
    x, y = samples
    result = baseline_test(name, x, y, rng=0)
    assert result.reject and result.name == name
    assert baseline_test(name, x, y, rng=0) == result == pickle.loads(pickle.dumps(result))
    assert not baseline_test(name, x, y, rng=0, alpha=result.pvalue / 2).reject


@pytest.mark.parametrize("name", set(BASELINES) - {"me", "c2st"})
def test_one_permutation_cannot_give_zero(name, samples):
    assert {baseline_test(name, *samples, n_resamples=1, rng=s).pvalue for s in range(5)} <= {0.5, 1.0}


@pytest.mark.parametrize("name", set(BASELINES) - {"me"})
def test_equal_constants_carry_no_evidence(name):
    assert baseline_test(name, np.ones((6, 2)), np.ones((4, 2)), rng=0).pvalue == 1


@pytest.mark.parametrize("name", BASELINES)
def test_global_random_state_is_not_touched(name, samples):
    state = np.random.get_state()[1].copy()
    baseline_test(name, *samples)
    assert (np.random.get_state()[1] == state).all()


def test_energy_is_that_of_scipy():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(11, 1)), rng.exponential(size=(7, 1))
    z = np.vstack([x, y])
    labels = labellings(x, y, 20, rng)
    np.testing.assert_allclose(energy_squared(cdist(z, z), labels), [stats.energy_distance(z[row, 0], z[~row, 0]) ** 2 for row in labels], atol=1e-12)
    np.testing.assert_allclose(baseline_test("energy", x, y, rng=0).statistic, stats.energy_distance(x[:, 0], y[:, 0]) ** 2)


def test_sliced_is_that_of_pot():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(11, 4)), rng.exponential(size=(7, 4))
    z, theta = np.vstack([x, y]), rng.normal(size=(4, 9))
    theta /= np.linalg.norm(theta, axis=0)
    labels = labellings(x, y, 5, rng)
    np.testing.assert_allclose(np.sqrt(sliced_squared(z, labels, theta)), [ot.sliced_wasserstein_distance(z[row], z[~row], projections=theta) for row in labels])


def test_mmd_by_scikit_learns_kernel(samples):
    x, y = samples
    gamma = 1 / median_bandwidth(x, y) ** 2
    off = lambda z: (rbf_kernel(z, gamma=gamma).sum() - len(z)) / (len(z) * (len(z) - 1))
    np.testing.assert_allclose(baseline_test("mmd", x, y, rng=0).statistic, off(x) + off(y) - 2 * rbf_kernel(x, y, gamma=gamma).mean())


def test_mmd_of_other_labels_is_mmd_of_permuted_rows(samples):
    x, y = samples
    z, labels = np.vstack(samples), labellings(x, y, 3, np.random.default_rng(0))
    K = rbf_kernel(z)
    for row, value in zip(labels, mmd_squared(K, labels)):
        order = np.r_[np.flatnonzero(row), np.flatnonzero(~row)]
        np.testing.assert_allclose(mmd_squared(K[np.ix_(order, order)], labels[:1]), value)


def test_power_ratio_is_the_statistic_over_its_deviation():
    "Over repeated samples the estimated deviation under the alternative is near the true one."
    values, ratios = [], []
    for seed in range(300):
        g = np.random.default_rng(seed)
        x, y = g.normal(size=(60, 1)), g.normal(size=(50, 1)) + 1.5
        K = rbf_kernel(np.vstack([x, y]))
        values.append(mmd_squared(K, np.arange(110)[None] < 60)[0])
        ratios.append(power_ratio(K, 60))
    deviations = np.array(values) / np.array(ratios)
    assert abs(np.median(deviations) / np.std(values) - 1) < 0.15


def test_max_sliced_is_kms_test(samples):
    ours = baseline_test("ms", *samples, rng=np.random.default_rng(5))
    test = kms_test(*samples, kernel=Linear(), method="split", n_resamples=199, rng=np.random.default_rng(5))
    assert (ours.statistic, ours.pvalue) == (test.statistic, test.pvalue)


def test_me_statistic_is_hotellings(samples):
    x, y = samples
    v = np.random.default_rng(0).normal(size=(3, 3))
    a, b = (rbf_kernel(z, v, gamma=0.5) for z in (x, y))
    d = a.mean(0) - b.mean(0)
    expected = d @ np.linalg.solve(np.cov(a.T) / len(a) + np.cov(b.T) / len(b), d)
    np.testing.assert_allclose(me_statistic(x, y, v, 1.0)[0], expected, rtol=1e-3)
    result = baseline_test("me", x, y, rng=0)
    assert result.pvalue == stats.chi2.sf(result.statistic, 5)


def test_fishers_test_is_the_permutation_test(samples):
    "Of balanced accuracy, given the predictions."
    rng = np.random.default_rng(0)
    truth, predicted = np.arange(25) < 12, rng.random(25) < 0.6
    labels = labellings(np.empty((12, 1)), np.empty((13, 1)), 40_000, rng)
    accuracy = (labels & predicted).sum(1) / 12 + (~labels & ~predicted).sum(1) / 13
    table = [[(truth & predicted).sum(), (truth & ~predicted).sum()], [(~truth & predicted).sum(), (~truth & ~predicted).sum()]]
    assert abs(share_as_large(accuracy) - stats.fisher_exact(table, alternative="greater").pvalue) < 0.01


def test_smallest_pvalues():
    S = np.array([[3.0, 1, 2, 2], [0, 0, 0, 0]])
    np.testing.assert_array_equal(smallest_pvalues(S), [-1, -4, -3, -3])
    assert share_as_large(smallest_pvalues(S)) == 0.25
    assert share_as_large(smallest_pvalues(S[1:])) == 1


def test_kernel_collection():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(12, 2))
    kernels = list(kernel_collection(z))
    assert len(kernels) == 20 and all(np.linalg.eigvalsh(K).min() > -1e-10 and (np.diag(K) == 1).all() for K in kernels)
    s = bandwidth_range(cdist(z, z))
    np.testing.assert_allclose(np.diff(np.log(s)), np.diff(np.log(s))[0])
    assert list(bandwidth_range(np.zeros((3, 3)))) == [1]


@pytest.mark.parametrize("options", [dict(name="t-test"), dict(alpha=0), dict(alpha=1.5), dict(n_resamples=0), dict(n_resamples=2.5), dict(rng="seed"), dict(x=np.ones((3, 3))), dict(y=np.ones((9, 2)))])
def test_errors_name_the_argument(samples, options):
    arguments = dict(name="mmd", x=samples[0], y=samples[1]) | options
    with pytest.raises((ValueError, TypeError), match=f"`{next(iter(options))}`"):
        baseline_test(**arguments)
