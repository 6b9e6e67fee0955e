"What the chapter on bounds does not test inline: refusals, monotonicity, and coverage on laws with no closed form."
import numpy as np
import pytest

from kms_nb.bounds import (critical_value, expected_one_sample, mcdiarmid_critical_value, mmd_critical_value,
                           one_sample_bound, sample_size, type_ii_bound)

SIZED = (critical_value, expected_one_sample, mcdiarmid_critical_value, mmd_critical_value, one_sample_bound)


@pytest.mark.parametrize("f", SIZED)
@pytest.mark.parametrize("n, error", [(0, ValueError), (-3, ValueError), (2.0, ValueError), (True, ValueError), ("5", ValueError)])
def test_size_is_named_when_refused(f, n, error):
    with pytest.raises(error, match="`n`"): f(n)


@pytest.mark.parametrize("name, value", [("alpha", 0), ("alpha", 1.5), ("alpha", float("nan")), ("p", 0.9), ("p", float("inf")),
                                         ("A", 0), ("C", 0.5), ("power", 1.0), ("distance", 0), ("distance", 2.1)])
def test_sample_size_names_the_argument(name, value):
    kw = {"distance": 1.0, name: value}
    with pytest.raises(ValueError, match=f"`{name}`"): sample_size(**kw)


def test_sample_size_beyond_floating_point():
    with pytest.raises(ValueError, match="`distance`"): sample_size(1e-200, p=4)


@pytest.mark.parametrize("f", SIZED)
def test_numpy_integers_and_decrease_in_n(f):
    assert f(np.int64(20)) == f(20) > f(21)


def test_the_paper_constants():
    assert critical_value(100, alpha=0.05, p=2, A=1, C=1) == pytest.approx(4 * (1 + 4 * np.log(40) ** 0.5) ** 0.5 * 100 ** -0.25)
    D, n = 0.9, 400_000
    rho = D - critical_value(n)
    u = (rho * n ** 0.25 / 2 ** 1.5) ** 2
    assert type_ii_bound(n, D) == pytest.approx(min(2 ** 1.5 * n ** -0.25 / rho, 2 * np.exp(-((u - 1) / 4) ** 2)))
    assert type_ii_bound(10, D) == 1.0


def test_scale_of_the_kernel():
    assert critical_value(30, 50, A=1e8) == pytest.approx(1e8 * critical_value(30, 50))
    assert sample_size(0.5e-9, A=1e-9) == sample_size(0.5)


@pytest.mark.parametrize("p", [1, 2])
def test_level_in_the_plane_for_unequal_sizes(p):
    "Dot-product kernel, a law on the unit circle: maximum over a grid of directions of the sorted W_p."
    rng, n, m = np.random.default_rng(1), 20, 60
    theta = np.linspace(0, np.pi, 60, endpoint=False)
    stat = []
    for _ in range(100):
        x, y = (np.cos(rng.uniform(0, 2 * np.pi, k)[:, None] - theta) for k in (n, m))
        gap = np.abs(np.repeat(np.sort(x, 0), m // n, axis=0) - np.sort(y, 0))
        stat.append((gap ** p).mean(0).max() ** (1 / p))
    assert np.quantile(stat, 0.95) < mcdiarmid_critical_value(n, m, p=p) < critical_value(n, m, p=p)
