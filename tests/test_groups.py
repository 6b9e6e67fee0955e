"Groups against a reference, and moving windows: what the notebook does not repeat."
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from kms_nb import Gaussian, Laplace, compare_groups, detect_change, median_bandwidth
from kms_nb.groups import Monitor, adjusted_pvalues


def test_holm_rejects_no_true_hypothesis_too_often():
    "Two true hypotheses with one common p-value, as dependent as can be, beside a false one."
    rng = np.random.default_rng(0)
    shared = rng.random(4000)
    rejected = [(adjusted_pvalues([p, p, 1e-6])[:2] <= 0.05).any() for p in shared]
    assert np.mean(rejected) <= 0.05


def test_fdr_is_scipys():
    p = np.random.default_rng(1).random(9) ** 2
    assert (adjusted_pvalues(p, "fdr") == stats.false_discovery_control(p)).all()


def test_groups_keep_names_and_order_and_take_options():
    rng = np.random.default_rng(0)
    frames = {name: pd.DataFrame(rng.normal(size=(20, 2)) + shift, columns=["u", "v"]) for name, shift in (("b", 0), ("a", 3))}
    found = compare_groups(frames, pd.DataFrame(rng.normal(size=(30, 2)), columns=["u", "v"]), rng=3, n_resamples=99, method="split", kernel=Gaussian(1.0))
    assert found.names == ("b", "a") and found.to_frame().index.tolist() == ["b", "a"] and found.reject.tolist() == [False, True]
    assert all(t.method == "split" and len(t.null_distribution) == 99 for t in found.tests)


def test_a_shift_raises_an_alarm_soon_after_it():
    rng = np.random.default_rng(2)
    stream = rng.normal(size=(300, 3))
    stream[150:] += 1
    found = detect_change(stream, rng.normal(size=(300, 3)), window=30, rng=0)
    assert 150 <= found.alarm < 185 and found.evidence[1] in ("mean", "depth")
    ax = found.plot()
    assert ax.get_xlabel() == "row"


def test_kernels_by_name_have_the_median_distance_of_the_reference():
    rng = np.random.default_rng(5)
    reference, stream = rng.normal(size=(120, 2)), np.r_[rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 2]
    for name in ("gaussian", "laplace", "linear"):
        found = detect_change(stream, reference, window=20, kernels=[name], n_streams=39, rng=0)
        kernel = found.evidence[0]
        assert type(kernel).__name__.lower() == name and 60 <= found.alarm < 80
        if name != "linear": assert kernel.bandwidth == pytest.approx(median_bandwidth(reference), rel=0.2)          # that of its first half
    found = compare_groups({"a": stream[60:]}, reference, kernel="laplace", rng=0, n_resamples=99)
    assert found.tests[0].kernel == Laplace(median_bandwidth(stream[60:], reference)) and found.reject.all()
    for kernels, word in (("laplace", "`kernels` must be a sequence"), ([], "`kernels` must be a sequence"), (["rbf"], "`kernel` must be one of 'gaussian', 'laplace', 'linear'"), ([1.0], "`kernel` must be a kernel object")):
        with pytest.raises((TypeError, ValueError), match=word): Monitor(reference, window=20, horizon=60, kernels=kernels)


def test_errors_speak_of_groups_and_the_reference():
    reference = np.arange(20.0).reshape(10, 2)
    for groups, other, words in (({"a": reference, "b": reference[:, :1]}, reference, "group 'b': `reference` has 2 columns, but `x` has 1"), ({"a": reference}, np.where(reference == 7, np.nan, reference), "group 'a': `reference` has 1 missing"),
                                 ({"a": np.where(reference == 7, np.inf, reference)}, reference, "group 'a': `x` has 1 missing or infinite")):
        with pytest.raises(ValueError, match=words): compare_groups(groups, other)
    with pytest.raises(ValueError, match="^`correction` must be 'holm' or 'fdr', got 'none'"): compare_groups({"a": [["text"]]}, reference, correction="none")


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_units_do_not_matter(scale):
    rng = np.random.default_rng(4)
    reference, stream = rng.normal(size=(100, 2)), rng.normal(size=(60, 2))
    one, other = (Monitor(reference * s, window=20, horizon=60, n_streams=39, rng=0)(stream * s) for s in (1, scale))
    np.testing.assert_allclose(one.statistic, other.statistic, rtol=1e-5)
    assert one.alarm == other.alarm
