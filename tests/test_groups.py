"Groups against a reference, and moving windows: what the notebook does not repeat."
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel
from scipy import stats

from kms_nb import Gaussian, Laplace, Linear, Precomputed, compare_groups, detect_change, median_bandwidth
from kms_nb import groups as module
from kms_nb.groups import Monitor, adjusted_pvalues
from kms_nb.panel import pooled_kernel


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
    for kernels, word in (("laplace", "`kernels` must be a sequence"), ([], "`kernels` must be a sequence"), (["rbf"], "`kernels` must be one of 'gaussian', 'laplace', 'linear'"), ([1.0], "`kernels` must be a kernel object")):
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


def some_groups(): return {name: np.random.default_rng(k).normal(size=(12, 2)) for k, name in enumerate("abc")}, np.random.default_rng(9).normal(size=(15, 2))


def test_every_group_has_its_own_seed(monkeypatch):
    "With one seed for all, groups with equal rows would have equal p-values, and so would the errors of one draw repeat in every group."
    seeds, test = [], module.kms_test
    def spied(*args, rng, **options):
        seeds.append(rng)
        return test(*args, rng=rng, **options)
    monkeypatch.setattr(module, "kms_test", spied)
    rows, reference = np.random.default_rng(0).normal(size=(12, 2)), np.random.default_rng(9).normal(size=(15, 2))
    once = compare_groups({"a": rows, "b": rows, "c": rows}, reference, n_resamples=49, rng=3)
    assert len(set(seeds)) == 3 and not np.array_equal(once.tests[0].null_distribution, once.tests[1].null_distribution)
    first, again = list(seeds), compare_groups({"a": rows, "b": rows, "c": rows}, reference, n_resamples=49, rng=3)
    assert seeds[3:] == first and (again.adjusted == once.adjusted).all()
    compare_groups({"a": rows}, reference, n_resamples=49, rng=4)
    assert seeds[-1] not in first


@pytest.mark.parametrize("correction", ["holm", "fdr"])
def test_an_interrupt_keeps_the_groups_that_are_done(monkeypatch, correction):
    "Those without a test count as tested, so that the error rate holds."
    groups, reference = some_groups()
    groups["a"] = groups["a"] + 5
    whole, test, calls = compare_groups(groups, reference, n_resamples=199, rng=0, correction=correction), module.kms_test, []
    def interrupted(*args, **options):
        calls.append(1)
        if len(calls) > done: raise KeyboardInterrupt
        return test(*args, **options)
    monkeypatch.setattr(module, "kms_test", interrupted)
    for done in (1, 2):
        calls.clear()
        part = compare_groups(groups, reference, n_resamples=199, rng=0, correction=correction)
        assert part.names == tuple("abc")[:done] and part.message == f"interrupted after {done} of 3 groups" and whole.message == ""
        assert [t.pvalue for t in part.tests] == [t.pvalue for t in whole.tests[:done]] and part.adjusted.tolist() == adjusted_pvalues([t.pvalue for t in part.tests] + [1] * (3 - done), correction)[:done].tolist()
        assert part.adjusted[0] == pytest.approx(3 / 200) and len(part.to_frame()) == len(part.reject) == done
    calls.clear(); done = 0
    with pytest.raises(KeyboardInterrupt): compare_groups(groups, reference, n_resamples=199, rng=0)


def test_an_interrupt_inside_a_test_keeps_that_test_and_those_before(monkeypatch):
    from kms_nb import panel
    groups, reference = some_groups()
    mean, calls = panel.STATISTICS["mean"], []
    def interrupted(K, labels):
        calls.append(1)
        if len(calls) == 7: raise KeyboardInterrupt                      # four blocks each: in the second group
        return mean(K, labels)
    monkeypatch.setitem(panel.STATISTICS, "mean", interrupted)
    part = compare_groups(groups, reference, kernel=Gaussian(1.), n_resamples=399, rng=0)
    assert part.names == ("a", "b") and part.message == "interrupted after 2 of 3 groups" and part.tests[0].message == ""
    assert "stopped after 199 of 399 resamples: interrupted" in part.tests[1].message and len(part.tests[1].null_distribution) == 199


def test_a_reference_without_variation_is_refused():
    stream = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(ValueError, match="`reference` has too little variation"): detect_change(stream, np.ones((100, 2)), window=10, n_streams=39)


def test_rare_values_in_the_reference():
    "More than 95 % of the windows of the simulated streams look alike; a jump to the rare value is seen all the same."
    reference, stream = np.zeros((2000, 1)), np.zeros((120, 1))
    reference[::100] = 1
    stream[60:] = 1
    for window in (4, 20):
        found = detect_change(stream, reference, window=window, n_streams=49, rng=0)
        assert 60 <= found.alarm < 60 + window and np.isfinite(found.statistic).all()
        assert detect_change(np.zeros((120, 1)), reference, window=window, n_streams=49, rng=0).alarm is None


def test_a_kernel_that_fails_on_the_stream_is_refused():
    "A Gaussian that gives nan far away, where only the stream goes."
    def kernel(a, b): return np.where(np.abs(a).max(1, initial=0)[:, None] > 50, np.nan, rbf_kernel(a, b))
    rng = np.random.default_rng(0)
    reference, stream = rng.normal(size=(80, 2)), rng.normal(size=(40, 2))
    assert detect_change(stream, reference, window=10, n_streams=39, kernels=[kernel], rng=0).threshold > 0
    stream[30, 1] = 99
    with pytest.raises(ValueError, match="`kernels` returned values that are not finite"): detect_change(stream, reference, window=10, n_streams=39, kernels=[kernel], rng=0)


@pytest.mark.parametrize("alpha, n_streams", [(np.float32(.05), 39), (1 / 49, 48), (np.float64(.05), 19), (1 / 3, 2)])
def test_as_many_streams_as_the_level_needs(alpha, n_streams):
    rng = np.random.default_rng(0)
    options = dict(window=5, horizon=20, kernels=[Linear()], rng=0, alpha=alpha)
    assert type(Monitor(rng.normal(size=(40, 2)), n_streams=n_streams, **options).alpha) is float
    fewest = int(np.ceil(1 / float(alpha) - 1 - 1e-9))
    with pytest.raises(ValueError, match="`n_streams` must be at least"): Monitor(rng.normal(size=(40, 2)), n_streams=fewest - 1, **options)


def test_frames_with_exchanged_columns_are_refused():
    rng = np.random.default_rng(0)
    reference, stream = (pd.DataFrame(rng.normal(size=(n, 2)), columns=["u", "v"]) for n in (60, 30))
    with pytest.raises(ValueError, match="`stream` has the column 'v' where `reference` has 'u'"): detect_change(stream[["v", "u"]], reference, window=10, n_streams=39)
    with pytest.raises(ValueError, match="group 'a': `reference` has the column 'u' where `x` has 'v'"): compare_groups({"a": stream[["v", "u"]]}, reference)
    with pytest.raises(ValueError, match="`stream` has 1 columns, `reference` 2"): detect_change(stream[["u"]], reference, window=10, n_streams=39)


def test_bad_groups_are_refused_before_the_work(monkeypatch):
    rng, done = np.random.default_rng(0), []
    monkeypatch.setattr(module, "kms_test", lambda *args, **options: done.append(1))
    good, reference = rng.normal(size=(20, 2)), rng.normal(size=(30, 2))
    for bad, words in ((good[:1], "group 'bad': `x` needs at least 2 rows"), (good[:, :1], "`reference` has 2 columns"), (np.where(good > 2, np.nan, good) + [np.nan, 0], "missing"), ([["a", "b"]], "must be numeric")):
        with pytest.raises((TypeError, ValueError), match=words): compare_groups({"good": good, "bad": bad}, reference)
    for options, words in ((dict(alpha=2), "^`alpha`"), (dict(n_resamples=0), "^`n_resamples`"), (dict(method="best"), "^`method`"), (dict(max_seconds=0), "^`max_seconds`"), (dict(correction="none"), "^`correction`")):
        with pytest.raises(ValueError, match=words): compare_groups({"good": good}, reference, **options)
    assert not done


def test_the_limit_of_time_is_for_all_groups():
    rng = np.random.default_rng(0)
    found = compare_groups({k: rng.normal(size=(20, 2)) for k in range(5)}, rng.normal(size=(30, 2)), n_resamples=200_000, max_seconds=0.01, rng=0)
    assert len(found.tests) == 5 and "5 of 5 tests were cut short" in found.message
    assert all("stopped after" in t.message and len(t.null_distribution) < 200_000 for t in found.tests)
    assert compare_groups({1: rng.normal(size=(20, 2))}, rng.normal(size=(30, 2)), n_resamples=19).message == ""


def test_names_that_are_tuples():
    frame = pd.DataFrame({"k": list("aabb") * 5, "u": np.arange(20.0)})
    groups = {name: part[["u"]] for name, part in frame.groupby(["k"])}
    assert compare_groups(groups, frame[["u"]], n_resamples=19, rng=0).to_frame().index.tolist() == [("a",), ("b",)]


@pytest.mark.parametrize("bad", [["a"], {0.5}, (p for p in [0.5]), [0.5 + 0j], [[0.5], [0.5, 1]], [], [[0.5]], [np.nan], [-0.1], None, [True]])
def test_what_is_no_sequence_of_p_values(bad):
    with pytest.raises(ValueError, match="`pvalues`"): adjusted_pvalues(bad)


def test_masked_p_values_are_refused():
    with pytest.raises(ValueError, match="`pvalues` has 1 masked"): adjusted_pvalues(np.ma.array([0.001, 0.5], mask=[1, 0]))


@pytest.mark.parametrize("huge", [1e12, 1e17, 1e20, 1e300])
def test_a_huge_row_leaves_later_windows_alone(huge):
    rng = np.random.default_rng(0)
    reference, stream = rng.normal(size=(400, 2)), rng.normal(size=(200, 2))
    stream[100:] += 3
    stream[7, 0] = huge
    m = Monitor(reference, horizon=200, window=20, n_streams=19, rng=0, kernels=[Linear()])
    found = m(stream)
    assert found.alarm == 19
    assert_allclose(found.statistic[8:], m(stream[8:]).statistic, rtol=1e-9)


def test_units_that_leave_the_range_of_floats_are_the_references():
    rng = np.random.default_rng(0)
    reference = rng.normal(size=(200, 2))
    with pytest.raises(ValueError, match="`reference`") as error: Monitor(reference * 1e200, kernels=["linear"])
    assert "`x`" not in str(error.value)
    second = reference.copy()
    second[np.random.default_rng(0).permutation(200)[150]] = 1e155  # a row of the second half
    with pytest.raises(ValueError, match="`reference`"): Monitor(second, kernels=["linear"], rng=0)


@pytest.mark.parametrize("kernel", ["linear", "gaussian", lambda a, b: (a - 1e6) @ (b - 1e6).T])
def test_the_origin_does_not_matter(kernel):
    "The dot-product kernel's features are of centred rows: those of the stream were not."
    rng = np.random.default_rng(0)
    reference, stream = rng.normal(size=(400, 2)), np.vstack([rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) - 5])
    options = dict(window=20, n_streams=49, rng=0)
    found = [detect_change(stream + mu, reference + mu, kernels=[kernel], **options) for mu in ((0, 10, 1e6) if isinstance(kernel, str) else (1e6,))]
    assert all(101 <= c.alarm <= 105 for c in found)
    for c in found: assert_allclose(c.statistic, found[0].statistic, rtol=1e-6)


def test_windows_by_the_dot_product_are_differences_of_means():
    rng = np.random.default_rng(0)
    first, stream = rng.normal(7, 1, size=(60, 3)), rng.normal(7, 2, size=(30, 3))
    member = module._Windows(pooled_kernel(Linear(), first, rng), 10)
    ours = member.statistics(*member.features(stream))[0] * member.kernel.unit
    assert_allclose(ours, [np.linalg.norm(stream[t:t + 10].mean(0) - first.mean(0)) for t in range(21)], rtol=1e-8)


@pytest.mark.parametrize("kernels", [["linear"], [lambda a, b: np.zeros((len(a), len(b)))]])
def test_a_kernel_that_sees_nothing(kernels):
    with pytest.raises(ValueError, match="`reference` has too little variation"): Monitor(np.ones((100, 2)), kernels=kernels, n_streams=19)
    halves = np.vstack([np.ones((50, 2)), np.random.default_rng(0).normal(size=(50, 2))])
    assert Monitor(halves, kernels=[*kernels, "gaussian"], block=2, window=10, n_streams=19, rng=0)(halves[-20:]).threshold > 0


def test_groups_share_one_copy_of_the_reference():
    rng = np.random.default_rng(0)
    reference = rng.normal(size=(30, 2))
    a, b = compare_groups({1: rng.normal(size=(20, 2)), 2: rng.normal(size=(20, 2))}, reference, n_resamples=19, rng=0).tests
    assert a.y is b.y or np.shares_memory(a.y, b.y)
    assert not np.shares_memory(a.y, reference) and (a.y == reference).all()


def test_arguments_are_named_as_the_caller_calls_them():
    reference, numbers = np.arange(40.0).reshape(20, 2), np.arange(40)[:, None] % 30
    gram = Precomputed(rbf_kernel(np.random.default_rng(0).normal(size=(20, 2))))
    for stream, other, words in ((numbers[:10], numbers, "`reference` must be a column of row numbers"), (numbers[20:], numbers[:20], "`stream` must be a column of row numbers")):
        with pytest.raises(ValueError, match=words): detect_change(stream, other, window=4, kernels=[gram], n_streams=39, rng=0)
    with pytest.raises(TypeError, match="compare_groups.. got an unexpected keyword argument 'bogus'"): compare_groups({"a": reference}, reference, bogus=1)
    with pytest.raises(TypeError, match="compare_groups.. got an unexpected keyword argument 'x'"): compare_groups({"a": reference}, reference, x=1)


def test_errors_of_a_kernel_keep_their_cause():
    "Also those whose constructors take other arguments."
    def kernel(a, b=None): return b"\xff".decode()
    x = np.arange(20.0).reshape(10, 2)
    with pytest.raises(ValueError, match="group 'a': 'utf-8' codec can't decode"): compare_groups({"a": x}, x, kernel=kernel, n_resamples=9)
    with pytest.raises(UnicodeDecodeError): detect_change(x, x, window=4, kernels=[kernel], n_streams=39)
