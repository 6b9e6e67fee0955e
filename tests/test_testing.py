"kms_test: every method against plain computations, its invariances, strata, errors, and what the result says."
import importlib
import json
import pickle
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from kms_nb import Gaussian, Laplace, Linear, Precomputed, kms_distance, kms_test, median_bandwidth, testing
from kms_nb.bounds import critical_value
from kms_nb.data import blob
from kms_nb.panel import STATISTICS, as_strata, permutation_pvalue, pooled_kernel
from kms_nb.testing import METHODS, feature_effects, permutation_null, project_pooled, resampled_distances, select_kernel, split_halves, split_strata
from kms_nb.transport import wasserstein_1d

RESAMPLED = ("panel", "split", "permutation", "bootstrap")
X, Y = blob(16, 2, rng=5)
Y = Y[:12]
G = Gaussian(.3)


def run(x=X, y=Y, method="panel", **options):
    return kms_test(x, y, **{"method": method, "kernel": G, "n_resamples": 49, "rng": 3, **options})


@pytest.mark.parametrize("method", METHODS)
def test_result_is_consistent(method):
    t = run(method=method)
    assert t.method == ("panel" if method == "auto" else method)
    assert 0 < t.pvalue <= 1 and t.reject == (t.pvalue <= t.alpha) == (t.statistic > t.threshold)
    assert_allclose(t.projector.norm, 1, rtol=1e-6)
    assert t.witness is t.projector and t.kernel == G and (t.witness_kind == "kms") == (t.method in ("split", "permutation", "bootstrap", "theory"))
    if method != "theory": assert t.pvalue == permutation_pvalue(t.statistic, t.null_distribution) and len(t.null_distribution) == 49
    if t.method not in ("panel",): assert_allclose(t.statistic, wasserstein_1d(t.projected_x, t.projected_y), rtol=1e-3)
    if method != "split": assert_allclose(t.projected_x, t.projector(X)); assert t.projected_x.mean() >= t.projected_y.mean()
    assert repr(t).startswith("KMSTestResult(statistic=") and len(repr(t)) < 160
    again = pickle.loads(pickle.dumps(t))
    assert again.pvalue == t.pvalue and again.top_points(2)[0].tolist() == t.top_points(2)[0].tolist()


@pytest.mark.parametrize("method", RESAMPLED)
@pytest.mark.parametrize("m", [12, 16])
def test_same_seed_same_result_in_any_order(method, m):
    x, y = X, blob(16, 2, rng=6)[1][:m]
    rng = np.random.default_rng(0)
    a = run(x, y, method)
    for b in (run(x, y, method), run(x[rng.permutation(16)], y[rng.permutation(m)], method), run(y, x, method), run(pd.DataFrame(y), x.tolist(), method)):
        assert b.pvalue == a.pvalue
        assert_allclose(b.statistic, a.statistic, rtol=1e-6)
        assert_allclose(b.null_distribution, a.null_distribution, rtol=1e-6)
    c = run(y, x, method)
    if method != "split": assert_allclose(c.projected_y, -a.projected_x, atol=1e-6)


@pytest.mark.parametrize("method", RESAMPLED)
def test_threads_change_nothing(method):
    a, b = run(method=method), run(method=method, n_jobs=3)
    assert a.pvalue == b.pvalue and (a.null_distribution == b.null_distribution).all()


@pytest.mark.parametrize("method", ["panel", "split", "permutation"])
@pytest.mark.parametrize("scale", [1e-12, 1e16])
def test_units(method, scale):
    for kernel, other in ((None, None), (Linear(), Linear())):
        draw = lambda: dict(rng=np.random.default_rng(3))               # an integer would be mixed with the data
        assert run(method=method, kernel=kernel, **draw()).pvalue == run(X * scale, Y * scale, method, kernel=other, **draw()).pvalue


@pytest.mark.parametrize("method", ["panel", "permutation"])
def test_exact_level_with_strata(method):
    "Three strata of two rows of each sample, far apart; labels drawn within strata: the share of p <= alpha never exceeds alpha by more than chance."
    rng = np.random.default_rng(0)
    z, strata = np.repeat([0., 5., 20.], 4)[:, None] + rng.normal(size=(12, 2)), np.repeat([0, 1, 2], 4)
    p = []
    for seed in range(150):
        i = np.concatenate([k * 4 + rng.permutation(4) for k in range(3)]).reshape(3, 4)
        x, y = i[:, :2].ravel(), i[:, 2:].ravel()
        p.append(kms_test(z[x], z[y], method=method, kernel=Gaussian(2.), n_resamples=19, strata=(strata[x], strata[y]), rng=seed).pvalue)
    for alpha in (.05, .1, .25, .5): assert np.mean(np.array(p) <= alpha) <= alpha + 3.5 * np.sqrt(alpha * (1 - alpha) / 150)


def test_strata_of_a_fixed_witness_by_enumeration():
    "Within two strata of one and two labels there are 2 * 3 labellings, each as likely as the others."
    u, v, strata = np.array([0., 4., 1.]), np.array([2., 9.]), np.array([0, 1, 1, 0, 1])
    z, labels = np.concatenate([u, v]), np.array([1, 1, 1, 0, 0], bool)
    possible = {tuple(np.where(strata == 0, a, b)) for a in permutations([1, 0, 0, 0, 0]) for b in permutations([1, 1, 0, 0, 0])}
    possible = [np.array(l, bool) for l in possible if all(np.sum(np.array(l)[strata == s]) == labels[strata == s].sum() for s in (0, 1))]
    exact = np.array([wasserstein_1d(z[l], z[~l]) for l in possible])
    assert len(exact) == 6
    _, null = permutation_null(u, v, 6000, np.random.default_rng(0), strata=strata)
    for t in np.unique(exact.round(12)): assert abs(np.mean(null >= t - 1e-9) - np.mean(exact >= t - 1e-9)) < .03


def test_split_keeps_pairs_together():
    who = np.array(list("abcdefgh"))
    i, j = split_strata(who, who[::-1], np.random.default_rng(0))
    assert set(who[i]) == set(who[::-1][j]) and i.sum() == 4
    with pytest.raises(ValueError, match="`strata`"): split_strata(np.array([0]), np.array([0, 0]), np.random.default_rng(0))


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_search_stays_below_the_certificate(p):
    K = pooled_kernel(G, np.vstack([X, Y]), np.random.default_rng(0))
    value, omega = resampled_distances(K, np.arange(16)[None], np.arange(16, 28)[None], p)
    res = kms_distance(X, Y, kernel=G, p=p)
    assert_allclose(value[0], wasserstein_1d(K.values[:16] @ omega[0], K.values[16:] @ omega[0], p=p))
    assert .8 * res.lower < value[0] <= res.upper * (1 + 1e-9)


def test_distance_of_the_result():
    t = run()
    res, direct = t.distance(), kms_distance(X, Y, kernel=G)
    assert (res.lower, res.upper) == (direct.lower, direct.upper) and t.distance(p=1).p == 1
    scale = [m for m in t.evidence if m.kind == "mean"][0]
    assert scale.statistic <= res.upper                                     # the mean witness is a lower bound


def test_kernel_selection_and_sequences():
    x, y = blob(60, 2, rng=0)
    kernels = [Gaussian(.15), Gaussian(20.)]
    assert select_kernel(kernels, x, y, 2, np.random.default_rng(0)) == kernels[0]
    t = kms_test(x, y, kernel=kernels, n_resamples=49, rng=0)
    assert {m.kernel for m in t.evidence} == set(kernels) and t.kernel in kernels
    assert kms_test(x, y, method="split", kernel=kernels, n_resamples=49, rng=0).kernel in kernels
    assert kms_test(x, y, method="split", n_resamples=49, rng=0).kernel == Gaussian(median_bandwidth(x, y))
    assert len(kms_test(x, y, kernel=Laplace(.3), n_resamples=49, rng=0).evidence) == len(STATISTICS)


def test_top_points_and_effect_size():
    x, y = np.zeros((6, 1)), np.array([[0], [0], [7.], [0], [0], [0]])
    t = kms_test(x, y, kernel=Linear(), n_resamples=19, rng=0)
    assert t.top_points(1)[1].tolist() == [2] and [len(r) for r in t.top_points(100)] == [6, 6]
    assert t.effect_size > 0 and kms_test(x, x, rng=0).effect_size == 0 and kms_test(x, x + 1, rng=0).effect_size == np.inf
    a = kms_test(X, Y, rng=0)
    u, v = a.projected_x, a.projected_y
    assert_allclose(a.effect_size, wasserstein_1d(u, v) / np.sqrt((16 * u.var() + 12 * v.var()) / 28), rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-150, 1., 1e150])
def test_feature_effects(scale):
    x, y = np.random.default_rng(0).normal(size=(2, 50, 4)) * scale
    x[:, 3] = y[:, 3] = scale
    effects = feature_effects(lambda z: 2 * z[:, 0] / scale - z[:, 1] / scale, x, y)
    assert_allclose(effects, np.array([2, 1, 0, 0]) * (np.vstack([x, y]) / scale).std(0), rtol=1e-6, atol=1e-9)


def test_split_halves_of_equal_samples():
    a, b, c, d = split_halves(X, X, np.random.default_rng(0))
    assert (a == b).all() and (c == d).all()
    assert kms_test(X, X[::-1], method="split", rng=0).statistic == 0


@pytest.mark.parametrize("method", RESAMPLED)
def test_few_rows_ties_and_constants(method):
    assert run(np.ones((4, 2)), np.ones((6, 2)), method).pvalue == 1
    for n, m in ((2, 2), (3, 2), (2, 7)): assert 0 < run(X[:n], Y[:m], method).pvalue <= 1
    assert 0 < run(X[:, :1], Y[:, :1], method).pvalue <= 1
    assert run(method=method, n_resamples=1).pvalue in (.5, 1) and run(method=method, n_resamples=3).threshold == np.inf
    if method != "bootstrap":
        outlier = np.ones((8, 3)); outlier[7, 0] = 9
        assert min(run(outlier[:4], outlier[4:], method, n_resamples=99, rng=s).pvalue for s in range(8)) >= .25
        assert run(X, X[::-1], method).pvalue == 1


@pytest.mark.parametrize("options, name", [(dict(method="best"), "method"), (dict(method=None), "method"), (dict(alpha=0), "alpha"), (dict(n_resamples=0), "n_resamples"), (dict(n_resamples=True), "n_resamples"), (dict(n_jobs=0), "n_jobs"),
                                           (dict(p=.5), "p"), (dict(kernel="rbf"), "kernel"), (dict(kernel=[]), "kernel"), (dict(kernel=[G, "rbf"]), "kernel"), (dict(kernel=[G, G], method="bootstrap"), "kernel"), (dict(rng=-1), "rng"),
                                           (dict(strata=np.zeros(28)), "strata"), (dict(strata=(np.zeros(16), np.zeros(5))), "strata"), (dict(strata=(np.zeros(16), np.zeros(12)), method="theory"), "strata")])
def test_errors_name_the_argument(options, name):
    with pytest.raises((ValueError, TypeError), match=f"`{name}`"): kms_test(X, Y, **options)


def test_pictures():
    from matplotlib.figure import Figure
    t = kms_test(X, Y, n_resamples=19, rng=0)
    for kind in (None, "null", "projections", "witness", "features"):
        ax = Figure().subplots()
        assert t.plot(ax=ax, kind=kind) is ax
    with pytest.raises(ValueError, match="`kind`"): t.plot(kind="pie")
    ax = Figure().subplots()
    t.plot(ax, kind="features", names=["height", "width"])
    assert {text.get_text() for text in ax.get_yticklabels()} == {"height", "width"}


@pytest.mark.parametrize("method, slow", [("panel", "kms_nb.panel.mean_statistic"), ("permutation", "kms_nb.testing.resampled_distances"), ("bootstrap", "kms_nb.testing.resampled_distances")])
def test_interrupted_tests_keep_what_is_done(method, slow, monkeypatch):
    module, name = slow.rsplit(".", 1)
    module = importlib.import_module(module)
    work, calls, limit = getattr(module, name), [], 11 if method == "panel" else 2
    x, y = blob(12, 2, rng=0)
    whole = kms_test(x, y, method=method, n_resamples=999, rng=0)

    def interrupted(*args, **kw):
        calls.append(1)
        if len(calls) > limit:
            raise KeyboardInterrupt
        return work(*args, **kw)

    if method == "panel":
        monkeypatch.setitem(module.STATISTICS, "mean", interrupted)
    else:
        monkeypatch.setattr(module, name, interrupted)
    part = kms_test(x, y, method=method, n_resamples=999, rng=0)
    done = len(part.null_distribution)
    assert 50 < done < 999 and f"stopped after {done} of 999 resamples: interrupted" in part.message
    assert part.pvalue == permutation_pvalue(part.statistic, part.null_distribution)
    if method != "panel":  # the panel's scale depends on all of its relabellings
        assert part.statistic == whole.statistic and (part.null_distribution == whole.null_distribution[:done]).all()
    calls.extend([1] * 20)
    with pytest.raises(KeyboardInterrupt):  # nothing done: nothing to say
        kms_test(x, y, method=method, n_resamples=999, rng=0)


@pytest.mark.parametrize("method", ["panel", "split", "permutation", "bootstrap", "theory"])
def test_time_limits(method):
    x, y = blob(20, 2, rng=1)
    assert 0 < kms_test(x, y, method=method, n_resamples=999, rng=0, max_seconds=1e-3).pvalue <= 1
    with pytest.raises(ValueError, match="`max_seconds`"):
        kms_test(x, y, method=method, max_seconds=-1)


# --- nothing of the fit is tested, and no method becomes another --------------------------------------------------------

@pytest.mark.parametrize("paired", [False, True])
def test_split_tests_no_row_that_it_was_fitted_on(monkeypatch, paired):
    "The kernel is chosen and the witness fitted on one half of the rows, the test made on the other half."
    seen = {}
    def spy(name, x, y):
        f = getattr(testing, name)
        def spied(*args, **options):
            seen[name] = {tuple(row) for z in args[x:y + 1] for row in z}
            return f(*args, **options)
        monkeypatch.setattr(testing, name, spied)
    spy("kms_distance", 0, 1); spy("select_kernel", 1, 2); spy("project_pooled", 1, 2)
    x, y = np.random.default_rng(0).normal(size=(2, 21, 2))
    kms_test(x, y, method="split", kernel=[Gaussian(.5), Gaussian(2.)], n_resamples=19, rng=0, strata=(range(21), range(21)) if paired else None)
    fitted, chosen, tested = seen["kms_distance"], seen["select_kernel"], seen["project_pooled"]
    assert len(fitted) == 20 and chosen == fitted and not fitted & tested and fitted | tested == {tuple(row) for row in np.vstack([x, y])}


def test_level_of_the_split_in_many_dimensions():
    "In 20 dimensions a witness separates the rows that it was fitted on."
    rng = np.random.default_rng(0)
    p = np.array([kms_test(*rng.normal(size=(2, 10, 20)), method="split", kernel=Linear(), n_resamples=19, rng=s).pvalue for s in range(40)])
    for alpha in (.1, .25, .5): assert np.mean(p <= alpha) <= alpha + 3.5 * np.sqrt(alpha * (1 - alpha) / 40)


def test_theory_is_the_lower_bound_against_the_critical_value():
    kernel, dot = Linear(), lambda a, b: np.asarray(a) @ np.asarray(b).T
    x, y = blob(30, 4, variance=4, rng=0)
    y = y[:24]
    fit, A = kms_distance(x, y, kernel=kernel, tol=.01), max(np.linalg.norm(np.vstack([x, y]), axis=1))
    assert fit.lower < fit.upper
    for alpha in (.05, .3):
        t = kms_test(x, y, kernel=kernel, method="theory", alpha=alpha)
        assert t.statistic == fit.lower
        assert_allclose(t.threshold, critical_value(30, 24, alpha=alpha, A=A), rtol=1e-12)
        assert_allclose(kms_test(x, y, kernel=dot, method="theory", alpha=alpha).threshold, t.threshold, rtol=1e-9)      # the largest k(x, x) of a kernel that gives no bound


def test_bootstrap_draws_rows_again_and_permutation_does_not(monkeypatch):
    drawn = []
    def spied(K, rows_x, rows_y, p=2):
        drawn.extend(np.hstack([rows_x, rows_y]))
        return resampled_distances(K, rows_x, rows_y, p)
    monkeypatch.setattr(testing, "resampled_distances", spied)
    nulls = {}
    for method in ("permutation", "bootstrap"):
        drawn.clear()
        nulls[method] = run(method=method).null_distribution
        assert len(drawn) == 50 and sorted(drawn[0]) == list(range(28))                  # the observed rows come first
        for rows in drawn[1:]: assert (len(set(rows)) == 28) == (method == "permutation")
    assert not np.intersect1d(*nulls.values()).size


# --- strata and missing values ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("method", ["panel", "split", "permutation"])
def test_pairs_far_apart(method):
    "A small shift within pairs that lie far from each other: only relabellings within the pairs can see it."
    rng = np.random.default_rng(0)
    base, who = 50 * rng.normal(size=(24, 1)), np.arange(24)
    x, y = base + .1 * rng.normal(size=(24, 2)), base + 5 + .1 * rng.normal(size=(24, 2))
    options = dict(method=method, kernel=Linear(), n_resamples=199, rng=0)
    assert kms_test(x, y, **options).pvalue > .2
    assert kms_test(x, y, strata=(who, who), **options).pvalue < .05


def test_the_search_keeps_the_counts_of_every_stratum(monkeypatch):
    drawn, x, y = [], np.arange(10.)[:, None], np.arange(10., 18)[:, None]                # a row is its own number in the pooled order
    strata = np.arange(10) % 3, np.arange(8) % 3
    codes = np.concatenate(strata)
    def spied(K, rows_x, rows_y, p=2):
        drawn.extend(np.bincount(codes[rows], minlength=3) for rows in rows_y)            # the smaller sample comes first
        return resampled_distances(K, rows_x, rows_y, p)
    monkeypatch.setattr(testing, "resampled_distances", spied)
    kms_test(x, y, method="permutation", kernel=Gaussian(3.), n_resamples=49, strata=strata, rng=0)
    assert len(drawn) == 50 and (np.array(drawn) == np.bincount(strata[0])).all()


@pytest.mark.parametrize("method", ["panel", "split", "permutation"])
def test_rows_with_missing_values_take_their_strata_along(method):
    gaps = lambda z, rows: np.insert(z, rows, np.nan, axis=0)
    who = np.arange(16) % 4, np.arange(12) % 4
    x, y = gaps(X, [0, 7, 7]), gaps(Y, [12])
    marked = np.insert(who[0], [0, 7, 7], 3), np.insert(who[1], [12], 0)
    options = dict(method=method, kernel=G, n_resamples=49, rng=3)
    for strata, left in ((None, None), (marked, who)):
        a, b = kms_test(x, y, strata=strata, nan_policy="omit", **options), kms_test(X, Y, strata=left, **options)
        assert a.pvalue == b.pvalue and a.statistic == b.statistic and (a.null_distribution == b.null_distribution).all()
        assert a.message.startswith("3 of 19 rows of `x` left out for missing values; 1 of 13 rows of `y` left out") and b.message == ""
    for policy in ("raise", "propagate"):
        with pytest.raises(ValueError, match="`x` has 6 missing|`nan_policy`"): kms_test(x, y, nan_policy=policy, **options)


# --- time ---------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("method, kept", [("panel", 99), ("split", 10_000), ("permutation", 99), ("bootstrap", 99)])
def test_no_block_is_begun_after_the_time(method, kept):
    t = run(method=method, n_resamples=30_000, max_seconds=1e-9)
    assert len(t.null_distribution) == kept and f"stopped after {kept} of 30000 resamples: time" in t.message
    assert t.pvalue == permutation_pvalue(t.statistic, t.null_distribution)


@pytest.mark.parametrize("method", ["split", "theory"])
def test_the_fit_of_the_witness_is_cut_short_too(method):
    x, y = blob(40, 2, rng=0)
    assert "fit of the witness stopped after 1e-09 seconds" in run(x, y, method, max_seconds=1e-9).message
    assert "fit of the witness" not in run(x, y, method, max_seconds=100).message


def test_a_billion_relabellings_end_with_the_time():
    t = run(method="split", n_resamples=10 ** 9, max_seconds=.2)
    done = len(t.null_distribution)
    assert 0 < done < 10 ** 7 and f"stopped after {done} of 1000000000 resamples: time" in t.message


# --- threads ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("method", ["permutation", "bootstrap"])
def test_threads_share_the_blocks_and_change_nothing(method, monkeypatch):
    import joblib
    handed = []
    class Counting(joblib.Parallel):
        def __call__(self, tasks):
            tasks = list(tasks)
            handed.append(len(tasks))
            return super().__call__(tasks)
    monkeypatch.setattr(joblib, "Parallel", Counting)
    few = lambda **o: kms_test(X[:6], Y[:5], method=method, kernel=Linear(), n_resamples=999, rng=3, **o)
    one = few()
    assert handed == []
    four = few(n_jobs=4)
    assert handed == [4, 4, 2] and one.pvalue == four.pvalue and (one.null_distribution == four.null_distribution).all() and len(four.null_distribution) == 999


def test_a_backend_of_joblib_registered_by_name_runs_the_blocks():
    import joblib
    from joblib.parallel import ThreadingBackend
    calls = []
    class Counting(ThreadingBackend):
        def configure(self, *args, **options):
            calls.append(1)
            return super().configure(*args, **options)
    joblib.register_parallel_backend("counting blocks", Counting)
    few = lambda n_jobs: kms_test(X[:6], Y[:5], method="permutation", kernel=Linear(), n_resamples=399, rng=3, n_jobs=n_jobs)
    with joblib.parallel_config(backend="counting blocks"): two = few(2)
    assert calls and (two.null_distribution == few(1).null_distribution).all()


# --- interrupts, ties, seeds --------------------------------------------------------------------------------------------

def test_an_interrupt_in_the_permutations_of_the_split_keeps_what_is_done(monkeypatch):
    whole, work, calls = run(method="split", n_resamples=30_000), testing.labelled_distances, []
    def interrupted(*args):
        calls.append(1)
        if len(calls) == 3: raise KeyboardInterrupt
        return work(*args)
    monkeypatch.setattr(testing, "labelled_distances", interrupted)
    part = run(method="split", n_resamples=30_000)
    assert "stopped after 20000 of 30000 resamples: interrupted" in part.message and (part.null_distribution == whole.null_distribution[:20_000]).all()
    assert part.statistic == whole.statistic and part.pvalue == permutation_pvalue(part.statistic, part.null_distribution)


def test_equal_rows_are_interchangeable_in_the_search(monkeypatch):
    "Labellings that differ only within runs of equal rows arrive as one: else rounding could tell them apart."
    drawn, bits = [], np.repeat([0., 1., 2.], [9, 8, 3])
    def spied(K, rows_x, rows_y, p=2):
        drawn.extend(map(tuple, rows_x))
        return resampled_distances(K, rows_x, rows_y, p)
    monkeypatch.setattr(testing, "resampled_distances", spied)
    z = np.random.default_rng(0).permutation(bits)[:, None]
    kms_test(z[:8], z[8:], method="permutation", kernel=Gaussian(1.), n_resamples=199, rng=0)
    assert len(drawn) == 200 and len(set(drawn)) == len({tuple(bits[list(rows)]) for rows in drawn}) > 10


def test_equal_rows_get_equal_values_whatever_their_place():
    "A function whose rounding depends on the place of a row in a block, as that of matrix products does."
    f = lambda z: z[:, 0] + 1e-12 * np.arange(len(z))
    x, y = np.array([[1., 2.], [0., 0.], [1., 2.]]), np.array([[5., 5.], [1., 2.], [0., 0.], [1., 2.]])
    u, v = project_pooled(f, x, y)
    assert u[0] == u[2] == v[1] == v[3] and u[1] == v[2] and u.shape == (3,) and v.shape == (4,)
    assert_allclose(np.append(u, v), np.vstack([x, y])[:, 0], atol=1e-11)


# --- the right values ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("method", ["panel", "split", "permutation"])
def test_truth_values_and_constant_columns(method):
    x, y = X > 1, Y > 1
    assert run(x, y, method).pvalue == run(x.astype(float), y.astype(float), method).pvalue
    options = dict(method=method, n_resamples=99, kernel=[Gaussian(.3), Gaussian(1.)] if method != "permutation" else G)
    column = lambda z: np.column_stack([z, np.full(len(z), 7.)])
    a, b = (kms_test(*pair, rng=np.random.default_rng(3), **options) for pair in ((X, Y), (column(X), column(Y))))       # an integer would be mixed with the data
    assert a.pvalue == b.pvalue
    assert_allclose(b.statistic, a.statistic, rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shift", [0, 100])
def test_strict_json(method, shift):
    "Also with an infinite threshold, and with samples so far apart that the effect size is infinite."
    for x, y in ((X, Y + shift), (np.zeros((5, 2)), np.ones((4, 2)))):
        for n_resamples in (9, 49):
            t = kms_test(x, y, method=method, kernel=G, n_resamples=n_resamples, rng=0)
            got = json.loads(json.dumps(t.to_dict(), allow_nan=False))
            assert (got["threshold"] is None) == (t.threshold == np.inf) == (n_resamples == 9 and method != "theory") and (got["effect_size"] is None) == (t.effect_size == np.inf) == (x[0, 0] == 0)
            assert got["pvalue"] == t.pvalue and got["reject"] is t.reject and len(got["null_distribution"]) == len(t.null_distribution)


@pytest.mark.parametrize("method", ["panel", "split"])
def test_a_kernel_that_tells_no_rows_apart_is_reported(method):
    x = np.random.default_rng(0).normal(size=(40, 2))
    blind, seeing = (kms_test(x, x + 3, kernel=Gaussian(s), method=method, n_resamples=99, rng=0) for s in (1e9, 10.0))
    assert blind.pvalue == 1 and "every resample gave the same statistic" in blind.message
    assert seeing.pvalue == 0.01 and seeing.message == ""


@pytest.mark.parametrize("a, b, c", [("a", "b", "c"), (1, 2, 3), (2**63 + 1, 2**63 + 2, -1), (2**53, 2**53 + 1, .5), (1, "1", "c"), ("a", "a\0", "c"), ("a", b"a", 1)])
def test_different_strata_stay_different(a, b, c):
    "An array of a mixed list makes floats or strings of its entries, and so equal ones."
    sx, sy = [a] * 20 + [b] * 5 + [c], [a] * 5 + [b] * 20 + [c]
    codes = as_strata((sx, tuple(sy)), 26, 26)
    assert len(set(codes)) == 3 and [len(set(codes[k] for k in range(52) if (sx + sy)[k] == s)) for s in (a, b, c)] == [1, 1, 1]
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(26, 1)) + 5.0 * np.array([[s == b] for s in strata]) for strata in (sx, sy))
    assert run(x, y, strata=(sx, sy)).pvalue > .05 and run(x, y).pvalue < .05


def test_equal_strata_stay_equal():
    for pair in (([1, "a"], [1.0, "a"]), (np.array([1, 2]), [1.0, 2]), ([1] * 2, [1, "a"]), ([np.str_("a"), 1], ["a", 1]), (pd.Series(["a", "b"]), ["a", "b"]), ([True, 2], [1, 2]), ([np.float32(.5), 1], pd.Series([.5, 1]))):
        codes = as_strata(pair, 2, 2)
        assert codes[0] == codes[2]
    for bad in ([np.float32("nan"), 1], [float("nan"), 1], [None, 1], [pd.NA, 1]):
        with pytest.raises(ValueError, match="`strata` has missing values"): as_strata((bad, [1, 1]), 2, 2)
    for bad in ([[1], [1]], [1j, 2], {1, 2}, "ab", [1, 2, 3]):
        with pytest.raises(ValueError, match="`strata` must"): as_strata((bad, [1, 1]), 2, 2)


@pytest.mark.parametrize("options", [dict(C="a"), dict(C=None), dict(C=[1]), dict(C=True), dict(C=.5, method="theory"), dict(C=10**400)])
def test_the_constant_is_named(options):
    with pytest.raises((TypeError, ValueError), match="^`C` must"): kms_test(X, Y, **options)


def test_numbers_too_large_for_floats_are_named():
    huge = 10**400
    for name, call in {"p": lambda: kms_distance(X, Y, p=huge), "max_seconds": lambda: kms_distance(X, Y, max_seconds=huge), "bandwidth": lambda: Gaussian(huge), "n_resamples": lambda: kms_test(X, Y, n_resamples=huge),
                       "max_points": lambda: median_bandwidth(X, max_points=1), "alpha": lambda: kms_test(X, Y, alpha=huge)}.items():
        with pytest.raises(ValueError, match=f"^`{name}` must"): call()
    assert kms_distance(X, Y, max_seconds=np.inf).converged


def test_pictures_that_cannot_be_say_so():
    with pytest.raises(ValueError, match="`kind`='null' needs resamples"): run(method="theory").plot(kind="null")
    t = kms_test(np.arange(10)[:, None], np.arange(10, 20)[:, None], kernel=Precomputed(G(np.vstack([X[:10], Y[:10]]), np.vstack([X[:10], Y[:10]]))), method="split", n_resamples=9, rng=0)
    for kind in ("witness", "features"):
        with pytest.raises(ValueError, match=f"`kind`='{kind}' needs the witness between the rows"): t.plot(kind=kind)


def test_a_dict_of_plain_values():
    plain = run(method=np.str_("split")).to_dict()
    assert {type(v) for v in plain.values()} <= {float, bool, str, list, type(None)} | {int}


def test_rows_too_large_for_the_dot_product_in_either_half():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 2)), rng.normal(size=(6, 2))
    x[4, 1] = 1.7e308
    for seed in range(6):
        for kernel in (Linear(), "linear", (Linear(), Gaussian(1.0))):
            with pytest.raises(ValueError, match="values beyond 1e302"): kms_test(x, y, method="split", kernel=kernel, n_resamples=9, rng=seed)
        assert 0 < kms_test(x, y, method="split", kernel="gaussian", n_resamples=9, rng=seed).pvalue <= 1
