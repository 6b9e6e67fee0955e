"""Pictures: what they refuse to draw, and what they must not draw differently from what was asked."""
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_array_equal

from kms_nb.data import blob
from kms_nb.distance import kms_distance
from kms_nb.plotting import leading_features, plot_bounds, plot_features, plot_null, plot_projections, plot_stream, plot_witness

MASKED = np.ma.array([1.0, 2.0, 1e6], mask=[0, 0, 1])
TABLE = np.array([[1.0, 2.0], [3.0, 5.0]])


def first(z): return z[:, 0]


def axes(): return Figure().subplots()


@pytest.mark.parametrize("values, error", [
    (MASKED, ValueError), ([1.0, np.ma.masked], ValueError), (["a", "b"], TypeError), (np.array(["1", "2"]), TypeError), ([1j, 2], TypeError), (np.array([1j, 2]), TypeError),
    ([[1.0, 2.0], [3.0, 4.0]], ValueError), ([[1.0], [2.0, 3.0]], TypeError), ([1.0, None], ValueError), ([2**60, 2**60 + 1], ValueError), (None, ValueError), ([], ValueError)])
def test_values_that_are_no_numbers(values, error):
    for name, call in (("u", lambda v: plot_projections(v, [1.0], ax=axes())), ("v", lambda v: plot_projections([1.0], v, ax=axes())), ("null", lambda v: plot_null(v, 1.0, 1.0, ax=axes())),
                       ("statistic", lambda v: plot_stream(v, 1.0, 2, ax=axes())), ("effects", lambda v: plot_features(v, ax=axes())), ("values", lambda v: leading_features(v, TABLE))):
        with pytest.raises(error, match=f"^`{name}` "): call(values)


@pytest.mark.parametrize("values, error", [
    (np.ma.array(TABLE, mask=[[0, 1], [0, 0]]), ValueError), ([["a", "b"]], TypeError), (TABLE * 1j, TypeError), ([1.0, 2.0], ValueError), ([[1.0], [2.0, 3.0]], ValueError), (pd.DataFrame({"a": [1.0], "b": ["x"]}), TypeError)])
def test_tables_that_are_no_numbers(values, error):
    for name, call in (("x", lambda v: plot_witness(first, v, TABLE, ax=axes())), ("y", lambda v: plot_witness(first, TABLE, v, ax=axes())), ("z", lambda v: leading_features([1.0, 2.0], v)), ("history", lambda v: plot_bounds(v, ax=axes()))):
        with pytest.raises(error, match=f"^`{name}` "): call(values)


@pytest.mark.parametrize("value, error", [(None, ValueError), ("a", TypeError), (np.nan, ValueError), (1j, TypeError), ([1.0, 2.0], ValueError), (np.ma.masked, ValueError)])
def test_one_number_is_one_number(value, error):
    for name, call in (("threshold", lambda v: plot_null([1.0, 2.0], 1.0, v, ax=axes())), ("statistic", lambda v: plot_null([1.0, 2.0], v, 1.0, ax=axes())), ("threshold", lambda v: plot_stream([1.0, 2.0], v, 2, ax=axes()))):
        with pytest.raises(error, match=f"^`{name}` "): call(value)
    for bad in (np.inf, -np.inf):
        with pytest.raises(ValueError, match="^`statistic` "): plot_null([1.0, 2.0], bad, 1.0, ax=axes())
        with pytest.raises(ValueError, match="^`threshold` "): plot_stream([1.0, 2.0], bad, 2, ax=axes())


def test_any_kind_of_number_is_drawn():
    for u in ([0, 1], (0.0, 1.0), pd.Series([0, 1]), pd.Series([0, 1], dtype="Int64"), [Decimal(0), Decimal(1)], np.array([[0], [1]]), np.array([0, 1], dtype=np.float16)):
        assert_array_equal(plot_projections(u, [0.5], ax=axes()).lines[0].get_xdata(), [0, 1])
    assert len(plot_null([1.0, 2.0], np.array(1.5), np.float32(2), ax=axes()).lines) == 2


@pytest.mark.parametrize("labels", [("only x",), ("x", "y", "z"), 3, None, "x"])
def test_labels_are_two(labels):
    for call in (lambda: plot_projections([1.0], [2.0], labels=labels, ax=axes()), lambda: plot_witness(first, TABLE, TABLE, labels=labels, ax=axes())):
        with pytest.raises(ValueError, match="^`labels` must be two names, got"): call()


def test_bounds_are_pairs():
    for bad in (np.ones((4, 3)), np.ones((4, 1)), [1, 2, 3], [1, 2]):
        with pytest.raises(ValueError, match="^`history` must have two"): plot_bounds(bad, ax=axes())
    history = kms_distance(*blob(9, rng=0)).history
    assert_array_equal([line.get_ydata() for line in plot_bounds(history, ax=axes()).lines], np.array(history).T[::-1])


@pytest.mark.parametrize("alarm", range(4, 9))
def test_an_alarm_is_marked_where_its_window_ends(alarm):
    s = np.arange(5.0) ** 2
    line = plot_stream(s, 3, 5, alarm=alarm, ax=axes()).lines[-1]
    assert line.get_xdata() == [alarm] and line.get_ydata() == [s[alarm - 4]]


@pytest.mark.parametrize("name, arguments, error", [
    ("alarm", (5, 0), ValueError), ("alarm", (5, 3), ValueError), ("alarm", (5, 9), ValueError), ("alarm", (5, 50), ValueError), ("alarm", (5, "a"), ValueError), ("alarm", (5, 5.5), ValueError), ("alarm", (5, True), ValueError),
    ("window", (0,), ValueError), ("window", (2.5,), ValueError), ("window", ("a",), ValueError)])
def test_rows_outside_the_stream(name, arguments, error):
    with pytest.raises(error, match=f"^`{name}` must be"): plot_stream(np.arange(5.0), 3, *arguments, ax=axes())


def test_other_arguments_are_named():
    for call, name in ((lambda: plot_features([1.0, 2.0], most=0), "most"), (lambda: plot_features([1.0, 2.0], most="a"), "most"), (lambda: plot_features([1.0, 2.0], names=3), "names"), (lambda: leading_features([1.0, 2.0], TABLE, 0), "k"),
                       (lambda: leading_features([1.0], TABLE), "values"), (lambda: plot_witness(lambda z: z, TABLE, TABLE), "projector"), (lambda: plot_witness(lambda z: z[:3, 0], TABLE, TABLE), "projector")):
        with pytest.raises((ValueError, TypeError), match=f"^`{name}` "): call()
