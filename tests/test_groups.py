"Groups against a reference, and moving windows: what the notebook does not repeat."
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from kms_nb import Gaussian
from kms_nb.groups import Monitor, adjusted_pvalues, compare_groups, detect_change


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


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_units_do_not_matter(scale):
    rng = np.random.default_rng(4)
    reference, stream = rng.normal(size=(100, 2)), rng.normal(size=(60, 2))
    one, other = (Monitor(reference * s, window=20, horizon=60, n_streams=39, rng=0)(stream * s) for s in (1, scale))
    np.testing.assert_allclose(one.statistic, other.statistic, rtol=1e-5)
    assert one.alarm == other.alarm
