"The panel against enumerations, its invariances, the strata, and faults that users of such tests report."
from itertools import combinations, product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kms_nb import Gaussian, Laplace, Linear, panel
from kms_nb.data import blob
from kms_nb.panel import STATISTICS, as_strata, data_generator, labelled_distances, panel_kernels, panel_weights, permutation_pvalue, pooled_kernel, pooled_order, relabellings, scores, tied_first, witness_panel
from kms_nb.transport import wasserstein_1d

X, Y = blob(14, 2, rng=5)
Y = Y[:11]


def same(a, b):
    assert a.pvalue == b.pvalue
    assert_allclose(a.null_distribution, b.null_distribution, rtol=1e-6)
    assert (a.members[0].kind, a.members[0].weight) == (b.members[0].kind, b.members[0].weight)


@pytest.mark.parametrize("kernels", [None, [Gaussian(.3)], [Laplace(.2), Laplace(1.)], [Linear()]])
def test_order_of_rows_and_samples(kernels):
    rng = np.random.default_rng(0)
    a = witness_panel(X, Y, kernels=kernels, n_resamples=99, rng=3)
    for x, y in ((X[rng.permutation(14)], Y[rng.permutation(11)]), (Y, X), (Y[::-1], X)): same(a, witness_panel(x, y, kernels=kernels, n_resamples=99, rng=3))
    b, c = witness_panel(X[:11], Y, kernels=kernels, n_resamples=99, rng=3), witness_panel(Y, X[:11], kernels=kernels, n_resamples=99, rng=3)
    same(b, c)
    assert_allclose(b.witness(X), -c.witness(X), atol=1e-8)


@pytest.mark.parametrize("scale", [1e-150, 1e-12, 1e16, 1e150])
def test_units_do_not_matter(scale):
    draw = lambda s: witness_panel(X * s, Y * s, n_resamples=99, rng=np.random.default_rng(3))          # an integer would be mixed with the data
    same(draw(1), draw(scale))


def test_level_on_two_values():
    "Equal numbers of two values: the variances of all labellings are equal up to rounding, which must not tell the observed one."
    g = np.random.default_rng(0)
    rejected = []
    for r in range(150):
        z = np.repeat([0.0, 1.0], 7)[g.permutation(14)][:, None]
        rejected.append(witness_panel(z[:7], z[7:], n_resamples=39, rng=r).pvalue <= 0.05)
    assert np.mean(rejected) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 150)


def test_one_seed_keeps_the_level():
    "An integer seed draws other relabellings for other data; with the same ones each time its level would be its own."
    g = np.random.default_rng(1)
    rejected = [witness_panel(g.normal(size=(10, 1)), g.normal(size=(10, 1)), n_resamples=39, rng=0).pvalue <= 0.25 for _ in range(150)]
    assert abs(np.mean(rejected) - 0.25) <= 3 * np.sqrt(0.25 * 0.75 / 150)


def test_tied_rows_give_equal_labellings_equal_statistics():
    bits = np.repeat([0.0, 1.0], 25)[:, None]
    assert all(witness_panel(bits, bits[::-1], n_resamples=39, rng=s).pvalue == 1 for s in range(5))
    with pytest.raises(ValueError, match="missing"):
        witness_panel(X, Y, strata=([None] * len(X), ["a"] * len(Y)))


def test_shared_rows_and_ties_keep_the_order_invariance():
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 3, (12, 2)), rng.integers(0, 3, (12, 2))
    strata = rng.integers(0, 2, 12), rng.integers(0, 2, 12)
    i, j = rng.permutation(12), rng.permutation(12)
    for s in range(5):
        a = witness_panel(x, y, n_resamples=60, rng=s, strata=strata)
        same(a, witness_panel(y[j], x[i], n_resamples=60, rng=s, strata=(strata[1][j], strata[0][i])))


@pytest.mark.parametrize("kind", STATISTICS)
@pytest.mark.parametrize("kernel", [Gaussian(.3), Laplace(.5), Linear()])
def test_statistic_of_every_labelling_of_a_small_sample(kind, kernel):
    "All 70 subsets at once equal the subsets one by one, and a labelling equals its complement."
    z = np.vstack([X[:4], Y[:4]])
    K = pooled_kernel(kernel, z, np.random.default_rng(0))
    labels = np.array([np.isin(range(8), c) for c in combinations(range(8), 4)])
    s = STATISTICS[kind](K, labels)
    assert_allclose(s, [STATISTICS[kind](K, row[None])[0] for row in labels], atol=1e-10)
    assert_allclose(s, STATISTICS[kind](K, ~labels), atol=1e-10)


def test_exact_level_by_enumeration():
    "Over all assignments of the labels to ten fixed rows, the share with p <= alpha is at most alpha up to Monte Carlo error."
    z, alphas = np.vstack([X[:5], Y[:5]]).round(1), np.array([.05, .1, .25, .5])
    p = np.array([witness_panel(z[list(c)], np.delete(z, list(c), 0), n_resamples=39, rng=k).pvalue for k, c in enumerate(combinations(range(10), 5))])
    share = (p[:, None] <= alphas).mean(0)
    assert (share <= alphas + 3 * np.sqrt(alphas * (1 - alphas) / len(p))).all(), share


def test_strata_permute_only_within():
    codes = as_strata((["a", "b", "b", "c"], ["c", "b", "a"]), 4, 3)
    labels = np.arange(7) < 4
    L = relabellings(labels, 200, np.random.default_rng(0), codes)
    for c in np.unique(codes): assert (L[:, codes == c].sum(1) == labels[codes == c].sum()).all()
    seen = {tuple(row) for row in L}
    blocks = [[row for row in product([0, 1], repeat=int((codes == c).sum())) if sum(row) == labels[codes == c].sum()] for c in np.unique(codes)]
    assert len(seen) == np.prod([len(b) for b in blocks])


def test_strata_of_mixed_types():
    assert as_strata(([1, 2], np.array([2., 1.])), 2, 2).tolist() == [0, 1, 1, 0]
    assert len(set(as_strata((np.array([1, "1"], dtype=object), [1, 1]), 2, 2).tolist())) == 2


def test_pairs_far_apart():
    rng = np.random.default_rng(0)
    base = 50 * rng.normal(size=(15, 1))
    x, y = base + .1 * rng.normal(size=(15, 2)), base + 5 + .1 * rng.normal(size=(15, 2))
    who = np.arange(15)
    assert witness_panel(x, y, rng=0).pvalue > .2
    assert witness_panel(x, y, strata=(who, who), rng=0).pvalue < .05


@pytest.mark.parametrize("strata, words", [("ab", "pair"), ([1, 2], "one entry"), ((range(14), range(3)), "`y`"), ((np.zeros(14), np.ones(11)), "nothing to permute"), ((np.zeros(14), np.full(11, np.nan)), "missing")])
def test_wrong_strata(strata, words):
    with pytest.raises(ValueError, match="`strata`") as e: witness_panel(X, Y, strata=strata)
    assert words in str(e.value)


@pytest.mark.parametrize("options", [dict(n_resamples=0), dict(n_resamples=2.5), dict(kernels=[]), dict(kernels=Gaussian(1.)), dict(kernels=["rbf"])])
def test_wrong_options(options):
    with pytest.raises(ValueError, match=f"`{next(iter(options))}`"): witness_panel(X, Y, **options)


def test_degenerate_samples():
    assert witness_panel(np.ones((4, 2)), np.ones((3, 2)), rng=0).pvalue == 1
    assert witness_panel(X, X[::-1], rng=0).pvalue == 1
    half = np.vstack([np.zeros((9, 2)), X[:3]])                           # most rows equal: the median distance is 0
    assert 0 < witness_panel(half, half[3:] + 1e-9, rng=0).pvalue <= 1
    outlier = np.ones((8, 3)); outlier[7, 0] = 9
    assert min(witness_panel(outlier[:4], outlier[4:], n_resamples=99, rng=s).pvalue for s in range(10)) > .3
    for n, m in ((1, 1), (1, 9), (2, 2), (3, 2)): assert witness_panel(X[:n], Y[:m], n_resamples=19, rng=0).pvalue > 1 / 20 - 1e-12
    assert all(witness_panel(X, Y + 9, n_resamples=1, rng=s).pvalue in (.5, 1) for s in range(5))


def test_more_rows_than_landmarks():
    x, y = blob(600, 2, rng=0)
    r = witness_panel(x, y[:500], n_resamples=39, rng=0)
    same(r, witness_panel(y[499::-1], x, n_resamples=39, rng=0))
    assert r.pvalue == 1 / 40
    assert_allclose(r.witness.norm, 1, rtol=1e-6)
    assert r.witness(x).mean() > r.witness(y[:500]).mean()


def test_scores_and_weights():
    s = np.random.default_rng(0).normal(size=(3, 5000)) * [[1], [5], [1e-8]] + [[0], [100], [0]]
    q = scores(s)
    assert_allclose((q > -np.log10(.05)).mean(1), .05, atol=.001)
    assert (np.diff(np.sort(q, axis=1)) >= 0).all() and np.isfinite(scores(np.array([[0, 0, 0, 1e9, 1.]]))).all()
    for k, n_rows in product(range(1, 7), (2, 20, 1000)): assert_allclose(panel_weights(k, n_rows).sum(), 1); assert (panel_weights(k, n_rows) > 0).all()


def test_kernels_increase_and_ignore_duplicates_and_units():
    z = np.vstack([X, Y, X])
    s = [k.bandwidth for k in panel_kernels(z)]
    assert (np.diff(s) > 0).all()
    assert_allclose([k.bandwidth for k in panel_kernels(1e200 * z + 1e200)], 1e200 * np.array(s), rtol=1e-6)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_labelled_distances(p):
    rng = np.random.default_rng(p)
    s = np.sort(rng.normal(size=9).round(1))
    labels = rng.permuted(np.tile(np.arange(9) < 4, (20, 1)), axis=1)
    assert_allclose(labelled_distances(s, labels, p), [wasserstein_1d(s[row], s[~row], p=p) for row in labels])


@pytest.mark.parametrize("draw, kind", [(lambda g: (g.normal(size=(60, 10)), g.normal(size=(60, 10)) + .4), "mean"),
                                        (lambda g: (g.normal(size=(60, 30)), g.normal(size=(60, 30)) * np.r_[2.5, 2.5, np.ones(28)]), None),
                                        (lambda g: blob(80, 20, variance=4, rng=g), None)])
def test_finds_differences_of_several_kinds(draw, kind):
    found = [witness_panel(*draw(np.random.default_rng(s)), n_resamples=99, rng=s) for s in range(5)]
    assert sum(r.pvalue <= .05 for r in found) >= 4
    if kind: assert all(r.members[0].kind == kind for r in found)
    else: assert any(r.members[0].kind != "mean" for r in found)


def test_a_labelling_and_its_complement_are_written_alike():
    "With equal sizes no statistic may tell them apart, not even by rounding: a nearly constant kernel would turn that into a level above alpha."
    rng = np.random.default_rng(0)
    for z in (rng.normal(size=(8, 1)), np.repeat([0., 1.], 4)[:, None], np.repeat([0., 1., 2.], [3, 1, 4])[:, None]):
        labels = np.array([rng.permutation(np.arange(8) < 4) for _ in range(50)])
        written = tied_first(labels, z)
        assert (written == tied_first(~labels, z)).all() and (written.sum(1) == 4).all()
        for l, w in zip(labels, written):  # the same numbers of each row, up to exchange of the samples
            assert sorted([tuple(np.sort(z[l, 0])), tuple(np.sort(z[~l, 0]))]) == sorted([tuple(np.sort(z[w, 0])), tuple(np.sort(z[~w, 0]))])
    gram = lambda a, b=None: np.asarray(a) @ np.asarray(a if b is None else b).T
    z = 1e6 + np.repeat([0., 1.], [16, 4])
    p = [_pvalue(rng.permutation(z)[:, None], gram, seed) for seed in range(150)]
    assert np.mean(np.array(p) <= .05) <= .05 + 3 * np.sqrt(.05 * .95 / 150)


def _pvalue(z, kernel, seed):
    return witness_panel(z[:10], z[10:], kernels=[kernel], n_resamples=199, rng=seed).pvalue


def test_equal_rows_are_interchangeable(monkeypatch):
    "Labellings that differ only within runs of equal rows arrive at the statistics as one: else rounding could tell them apart."
    drawn, bits = [], np.repeat([0., 1., 2.], [9, 8, 3])
    def spied(K, labels):
        drawn.extend(map(tuple, labels))
        return STATISTICS["mean"](K, labels)
    monkeypatch.setattr(panel, "STATISTICS", STATISTICS | {"mean": spied})
    z = np.random.default_rng(0).permutation(bits)[:, None]
    witness_panel(z[:8], z[8:], kernels=[Gaussian(1.)], n_resamples=199, rng=0)
    assert len(drawn) == 200 and len(set(drawn)) == len({tuple(bits[list(labels)]) for labels in drawn}) > 10


def test_pvalues_count_ties_up_to_rounding_only():
    assert permutation_pvalue(1., np.array([1 - 1e-12])) == 1 and permutation_pvalue(1., np.array([1 - 1e-6])) == .5
    assert permutation_pvalue(1., np.array([1 + 1e-6, 1., .5, 0.])) == .6 and permutation_pvalue(0., np.zeros(9)) == 1
    for bad in ((np.nan, np.ones(3)), (1., np.array([1, np.inf]))):
        with pytest.raises(ValueError, match="finite"): permutation_pvalue(*bad)


def test_one_seed_draws_other_numbers_for_other_data():
    draw = lambda z, seed=0, codes=None: data_generator(seed, z, codes).random(4).tolist()
    z, codes = np.vstack([X, Y]), np.arange(25) % 3
    z = z[pooled_order(z)]
    other = z.copy(); other[3, 1] += .01 * np.ptp(z[:, 1])
    draws = [draw(z), draw(other), draw(z, 1), draw(z, 0, codes), draw(z, 0, codes[::-1]), draw(z[:-1])]
    assert len({tuple(d) for d in draws}) == 6
    for scale in (1e-150, 1e-3, 7., 1e150): assert draw(z * scale) == draw(z)
    assert draw(z + 5) == draw(z) and draw(z, np.random.default_rng(0)) == draw(other, np.random.default_rng(0)) == np.random.default_rng(0).random(4).tolist()
