"""The data chapter: draws, files in all the shapes people have, and the way from tables to arrays."""
import gzip
import io
import os
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from kms_nb import data
from kms_nb.data import Encoded, blob, encode_pair, iris, read_pair, read_table, split_by


@pytest.fixture
def save(tmp_path):
    "Write text or bytes to a file of the temporary folder and return its path."
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path
    return write


# --- blob -----------------------------------------------------------------------------------------------------------------

def naive_blob(n, d, rng, h1, variance):
    "The draws of `blob` call by call: coin, first component, second component, for x and then for y."
    covs = np.array([[0.03 * np.eye(d)] * 2] * 2)
    if h1:
        covs[1, 0, 0, 1] = covs[1, 0, 1, 0] = -0.02
        covs[1, 1, 0, 1] = covs[1, 1, 1, 0] = 0.028
        if variance: covs[1, 1, 0, 0] = covs[1, 1, 1, 1] = variance
    out = []
    for pair in covs:
        coin = rng.integers(0, 2, n)
        zero = rng.multivariate_normal(np.zeros(d), pair[0], n)
        one = rng.multivariate_normal(np.ones(d), pair[1], n)
        out.append(np.array([one[i] if coin[i] else zero[i] for i in range(n)]))
    return out


@pytest.mark.parametrize("n, d, h1, variance", [(1, 2, True, None), (7, 5, True, 4), (7, 5, False, 4), (30, 20, True, 3)])
def test_blob_makes_the_documented_draws_bit_for_bit(n, d, h1, variance):
    for got, expected in zip(blob(n, d, h1=h1, variance=variance, rng=3), naive_blob(n, d, np.random.default_rng(3), h1, variance)):
        assert_array_equal(got, expected)


def test_blob_stored_numbers():
    x, y = blob(2, 3, variance=4, rng=5)
    # x is a sum of exact zeros and one product; y depends on the last digits of an SVD
    assert_array_equal(x, [[0.8640720551761752, 1.129686571686463, 1.283152728975631],
                           [1.0472449378481425, 0.7863812091467657, 0.8340235977059266]])
    assert_allclose(y, [[-0.0379967450130822, 0.02616031591299905, -0.3000145552665673],
                        [1.2592099217749813, 2.413778332580728, 1.1437351554760884]], rtol=1e-11)


def test_blob_random_state():
    assert_array_equal(blob(4, rng=1), blob(4, rng=np.random.default_rng(1)))
    state = np.random.get_state()[1].copy()
    rng = np.random.default_rng(1)
    assert (blob(4, rng=rng)[0] != blob(4, rng=rng)[0]).all()           # a Generator moves on
    assert_array_equal(np.random.get_state()[1], state)


@pytest.mark.parametrize("kwargs, error, word", [
    (dict(n=0), ValueError, "`n`"), (dict(n=2.5), ValueError, "`n`"), (dict(n=True), ValueError, "`n`"), (dict(n=3, d=1), ValueError, "`d`"),
    (dict(n=3, variance=0.01), ValueError, "`variance`"), (dict(n=3, variance=np.nan), ValueError, "`variance`"), (dict(n=3, variance="a"), ValueError, "`variance`"), (dict(n=3, variance=True), ValueError, "`variance`"),
    (dict(n=3, rng="a"), TypeError, "`rng`"), (dict(n=3, rng=True), TypeError, "`rng`"), (dict(n=3, rng=np.random.RandomState(0)), TypeError, "`rng`")])
def test_blob_refuses(kwargs, error, word):
    with pytest.raises(error, match=word): blob(**kwargs)


# --- iris -----------------------------------------------------------------------------------------------------------------

def test_iris():
    a, b = iris()
    assert a.shape == b.shape == (50, 4) and list(a.columns) == list(b.columns)
    assert a.iloc[0].tolist() == [7.0, 3.2, 4.7, 1.4] and list(b.index) == list(range(100, 150))
    with pytest.raises(ValueError, match="`second` must be one of setosa, versicolor, virginica, got 'rose'"): iris("setosa", "rose")


# --- archives -------------------------------------------------------------------------------------------------------------

DIGITS = np.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize("y", [[6, 8, 8, 6], [6.0, 8.0, 8.0, 6.0], ["6", "8", "8", "6"], [b"6", b"8", b"8", b"6"]])
def test_digits_are_found_however_they_are_stored(tmp_path, y):
    np.savez(tmp_path / "mnist.npz", X=DIGITS, y=y)
    six, eight = data.mnist(path=tmp_path)
    assert_array_equal(six, DIGITS[[0, 3]]); assert_array_equal(eight, DIGITS[1:3])


@pytest.mark.parametrize("X, y, error, message", [
    (DIGITS, [6, 8], ValueError, "one label y for each row of X"), (DIGITS, [[6]] * 4, ValueError, "one label y for each row of X"), (DIGITS * np.nan, [6, 8, 8, 6], ValueError, "`X` has 6 missing"),
    ([["a"], ["b"]], [6, 8], TypeError, "`X` must be numeric"), (np.ones((2, 2, 2)), [6, 8], ValueError, "`X` must have two dimensions"), (DIGITS, ["a", "b", "c", "8"], ValueError, "no rows labelled 6$")])
def test_archives_that_hold_no_digits(tmp_path, X, y, error, message):
    np.savez(tmp_path / "mnist.npz", X=X, y=y)
    with pytest.raises(error, match=message): data.mnist(path=tmp_path)


def test_files_that_are_no_archives(tmp_path):
    np.savez(tmp_path / "cut.npz", X=np.ones(99))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "cut.npz").read_bytes()[:300])
    np.save(tmp_path / "one.npy", DIGITS)
    for name in ("cut.npz", "one.npy"):
        with pytest.raises(ValueError, match="`path`: .* is not an npz archive"): data.mnist(path=tmp_path / name)
    np.savez(tmp_path / "human_activity.npz", bending_1=DIGITS, throwing_1=DIGITS - np.inf)
    with pytest.raises(ValueError, match="`throwing_1` has"): data.human_activity(tmp_path)
    for load in (data.human_activity, read_table):
        for path in (None, b"t.csv", 3):
            with pytest.raises(TypeError, match="`path` must be the name of a file"): load(path)
    with pytest.raises(TypeError, match="`first` must be the name of a file, got StringIO"): read_pair(io.StringIO("a"), "t.csv")
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises(TypeError, match="`second` must be the name of a file, got NoneType"): read_pair(tmp_path / "t.csv", None)


# --- reading --------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("header, columns, rows", [("auto", ["a", "b"], 2), (True, ["a", "b"], 2), (False, ["0", "1"], 3)])
def test_header(save, header, columns, rows):
    table = read_table(save("t.csv", "a,b\n1,2.5\n3,4\n"), header=header)
    assert list(table.columns) == columns and len(table) == rows


@pytest.mark.parametrize("first, is_header", [
    ("1,2,3", False), ("1,,3", False), ("1e3,-2.5,nan", False), ("a,2,3", True), ("x,y,z", True), ("1_0,2,3", True), ("0,1,2", True)])
def test_header_detection(save, first, is_header):
    table = read_table(save("t.csv", f"{first}\n4.5,5,6\n"))
    assert len(table) == 2 - is_header
    notes = " ".join(table.attrs["notes"])                              # a guess that may be wrong is said aloud, with the way out
    assert ("`header`=False reads it as data" in notes) == (first in ("a,2,3", "1_0,2,3", "0,1,2"))
    assert ("No column names were found; the first row was read as data (`header`=True reads it as names)." in notes) == (not is_header)


@pytest.mark.parametrize("text", ["0,1\n4,5\n", "2019,2020\n4,5\n", "1.5\n2.5\n"])
def test_a_first_row_of_numbers_is_never_data_in_silence(save, text):
    table = read_table(save("t.csv", text))
    assert len(table) == 2 and table.attrs["notes"] == ["No column names were found; the first row was read as data (`header`=True reads it as names)."]
    for header in (True, False): assert read_table(save("t.csv", text), header=header).attrs["notes"] == []


@pytest.mark.parametrize("a, b, is_header", [
    ("2019,2020\n1,2\n3,4\n", "2019,2020\n5,6\n", True), ("2019;2020\n1,5;2\n", "2019,2020\n5,6\n", True), ("2019,2020\n1,2\n", "2019,2021\n5,6\n", False),
    ("2019,2020\n1,2\n", "2020,2019\n5,6\n", False), ("0,1\n1,2\n0,1\n", "0,1\n5,6\n", False), ("1,1\n1,2\n", "1,1\n5,6\n", False), ("7\n8\n9\n", "7\n5\n", True),
    ("0\n1\n0\n", "0\n1\n1\n", False), ("2019,2020\n", "2019,2020\n", False), ("2019,2020\n1,2\n", "2019,2020,2021\n5,6,7\n", False), ("2019,\n1,2\n", "2019,\n5,6\n", False)])
def test_a_row_of_numbers_at_the_top_of_both_files(save, a, b, is_header):
    a, b = save("a.csv", a), save("b.csv", b)
    for table, path in zip(read_pair(a, b), (a, b)):
        plain = read_table(path, header=is_header)
        assert_array_equal(table.to_numpy(), plain.to_numpy())
        assert list(table.columns) == list(plain.columns)
        notes = " ".join(table.attrs["notes"])
        assert ("The first row is the same in both files; it was read as column names (`header`=False reads it as data)." in notes) == is_header
        assert ("No column names" in notes) == (not is_header)
    assert all("first row" not in " ".join(t.attrs["notes"]) for t in read_pair(a, b, header=False))
    assert len(read_pair(a, a)[0]) == len(read_table(a))                # one file twice says nothing about its first row


@pytest.mark.parametrize("name, text", [
    ("comma.csv", "a,b\n1.5,x\n2.5,y\n"), ("semicolon.csv", "a;b\n1.5;x\n2.5;y\n"), ("decimal.csv", "a;b\n1,5;x\n2,5;y\n"),
    ("tab.csv", "a\tb\n1.5\tx\n2.5\ty\n"), ("tab.tsv", "a\tb\n1.5\tx\n2.5\ty\n"), ("quoted.csv", '"a","b"\n"1.5","x"\n"2.5","y"\n'),
    ("spaces.csv", "a, b\n 1.5 , x\n2.5,  y \n"), ("windows.csv", "a,b\r\n1.5,x\r\n2.5,y\r\n"), ("mac.csv", "a,b\r1.5,x\r2.5,y\r"),
    ("no_end.csv", "a,b\n1.5,x\n2.5,y"), ("blank.csv", "\n\na,b\n1.5,x\n\n2.5,y\n\n"), ("UPPER.CSV", "a,b\n1.5,x\n2.5,y\n"),
    ("bom.csv", "\ufeffa,b\n1.5,x\n2.5,y\n"), ("utf16.csv", "a,b\n1.5,x\n2.5,y\n".encode("utf-16")),
    ("zip.csv.gz", gzip.compress(b"a,b\n1.5,x\n2.5,y\n")), ("zip.tsv.gz", gzip.compress(b"a\tb\n1.5\tx\n2.5\ty\n")),
    ("row names.csv", ",a,b\n0,1.5,x\n1,2.5,y\n"), ("pandas.csv", "Unnamed: 0,a,b\n7,1.5,x\n9,2.5,y\n"), ("R.csv", '"","a","b"\n"r1",1.5,"x"\n"r2",2.5,"y"\n'),
    ("trailing.csv", "a,b,\n1.5,x,\n2.5,y,\n")])
def test_one_table_in_many_spellings(save, name, text):
    table = read_table(save(name, text))
    assert list(table.columns) == ["a", "b"] and table["a"].tolist() == [1.5, 2.5] and table["b"].tolist() == ["x", "y"]


def test_notes_say_what_was_guessed(save):
    assert read_table(save("plain.csv", "a,b\n1,2\n")).attrs["notes"] == []
    notes = " ".join(read_table(save("t.csv", ";a b;c\n0;1,5;2\n1;2,5;3\n")).attrs["notes"])
    assert "semicolons" in notes and "decimal point" in notes and "row names" in notes
    assert "tabs" in read_table(save("t.csv", "a\tb\n1\t2\n")).attrs["notes"][0]
    assert "cp1252" in read_table(save("t.csv", "größe,b\n1,2\n".encode("cp1252"))).attrs["notes"][0]


@pytest.mark.parametrize("text, name, example", [
    ("a;b\n999;1,5\n1.234;1,6\n998;1,7\n", "a", "1.234"), ("a;b\n1,5;2.5\n2,5;3.5\n", "b", "2.5"), ("a\tb\n1.5\t7\n1,5\t8\n", "a", "1.5"), ("a;b\n1,234;1.5\n1;2\n", "b", "1.5"),
    ("7;1,5\n1.234;2,5\n", "0", "1.234"), ("a;b\n-1.234.567,5;1,5\n2.345,25;2\n", "a", None)])
def test_a_point_beside_decimal_commas_is_no_decimal_point(save, text, name, example):
    table = read_table(save("t.csv", text))
    assert all(isinstance(c, str) for c in table[name]) and any(f"Column {name!r} was left as text: next to decimal commas, the point in {example!r}" in n for n in table.attrs["notes"]) == bool(example)
    with pytest.raises(ValueError, match=f"column {name!r} of `a` holds numbers written as text, such as {example or '.*'!r}; write plain numbers".replace("'.*'", ".*")): encode_pair(table, table)
    assert len(encode_pair(table, table, columns=[c for c in table if c != name]).names) == 1


@pytest.mark.parametrize("text, kinds", [
    ("gene\tv\nabc\t0.553\n1,5\t1.25\nxy\t2.5\n", "Of"), ("genotype\tv\n0,1\t0.553\n1,1\t1.25\n", "Of"), ("a\tb\n1,5\t1.234\n2,5\t998\n", "fO"), ("ip\tv\n192.168.100.101\t1,5\n10.0.0.1\t2,5\n", "Of")])
def test_text_does_not_decide_the_decimal_mark(save, text, kinds):
    table = read_table(save("t.tsv", text))
    assert "".join(t.kind for t in table.dtypes) == kinds


@pytest.mark.parametrize("words", [["192.168.100.101", "192.168.100.102", "10.0.0.1"], ["1.100.200", "1.100.201"], ["555.123.456", "555.123.457"]])
def test_points_between_groups_are_text(words):
    table = pd.DataFrame({"ip": words})
    assert len(encode_pair(table, table).names) == len(words)


def test_names_with_spaces_commas_and_accents(save):
    table = read_table(save("a b.csv", '"height, cm",größe,"a ""b"""\n1,2,3\n'))
    assert list(table.columns) == ["height, cm", "größe", 'a "b"']


def test_types(save):
    table = read_table(save("t.csv", "i,f,b,s,g\n1,1.5,True,x,\n2,2,false,1x,3\n"))
    assert [table[c].dtype.kind for c in "ifbsg"] == ["i", "f", "b", "O", "f"] and np.isnan(table["g"][0])


@pytest.mark.parametrize("cells, right, kind", [
    (["123456789012345678901", "2"], [123456789012345678901, 2], "O"), ([f"-{2**63 - 1}", "+1"], [1 - 2**63, 1], "i"), (["9" * 5000, "8" * 5000], [Decimal("9" * 5000), Decimal("8" * 5000)], "O"),
    ([str(2**62 + 1), "", str(2**62 + 3)], [2**62 + 1, pd.NA, 2**62 + 3], "i"), ([str(2**53 - 1), ""], [2.0**53 - 1, np.nan], "f"), ([str(2**70), ""], [2**70, None], "O"),
    (["1700000000.000000001", "1700000000.000000002", "0"], [Decimal("1700000000.000000001"), Decimal("1700000000.000000002"), 0], "O"), (["1700000000000000000.5"] * 2, [Decimal("1700000000000000000.5")] * 2, "O"),
    (["1.000000000000000056e-01", "1.000000000000000194e-01"], [0.1, 0.1 + 2**-56], "f"), (["3.3333333333333333", "0.3333333333333333"], [10 / 3, 0.3333333333333333], "f"),
    (["1.7000000000000003e+18", "1700000000000000256"], [1700000000000000256.0] * 2, "f"), (["1.5", "1.50", "1.500000000000000000"], [1.5] * 3, "f"), (["1e400", "1e-400"], [np.inf, 0.0], "f"),
    (["1.0000000000000000e99999999999999999999", "1.5"], [np.inf, 1.5], "f"), (["NAN", "1700000000000000000.5"], [np.nan, Decimal("1700000000000000000.5")], "O")])
def test_digits_that_floats_lack_are_kept(save, cells, right, kind):
    column = read_table(save("t.csv", "a,b\n" + "".join(f"{c},0\n" for c in cells)))["a"]
    assert column.dtype.kind == kind
    for got, value in zip(column.tolist(), right): assert pd.isna(got) if pd.isna(value) else got == value


def test_one_column(save):
    assert read_table(save("t.csv", "v\n1\n2\n"))["v"].tolist() == [1, 2]
    assert read_table(save("t.csv", "v\n1\n\n3\n\n"))["v"].isna().tolist() == [False, True, False]


@pytest.mark.parametrize("text, columns", [
    ("column 2,\n1,5\n2,6\n3,9\n", {"column 2": [1, 2, 3], "unnamed column 2": [5, 6, 9]}), ("v,,column 2\n1,5,7\n", {"v": [1], "unnamed column 2": [5], "column 2": [7]}),
    ("column 2,,unnamed column 2,\n1,2,3,4\n", {"column 2": [1], "unnamed unnamed column 2": [2], "unnamed column 2": [3], "column 4": [4]})])
def test_a_column_without_a_name_replaces_no_other(save, text, columns):
    assert read_table(save("t.csv", text)).to_dict("list") == columns


@pytest.mark.parametrize("text", ["a\tb\n1\t2\n5\t7\n\t\n", "a\tb\n1\t2\n5\t7\n\t", "a\tb\r\n1\t2\r\n5\t7\r\n\t\r\n\r\n"])
def test_empty_cells_between_tabs_are_cells(save, text):
    for name in ("t.tsv", "t.csv"):
        table = read_table(save(name, text))
        assert table.shape == (3, 2) and table[:2].to_numpy().tolist() == [[1, 2], [5, 7]] and table.iloc[2].isna().all()
    table = read_table(save("t.tsv", "a\tb\n1\t2\n5\t"))
    assert table["a"].tolist() == [1, 5] and table["b"].isna().tolist() == [False, True]


@pytest.mark.parametrize("end", ["", "\n", "\n\n \n", "\r\n\r\n", "\n\t\n"])
def test_blank_lines_at_the_end_are_no_rows(save, end):
    for text in ("v\n1\n\n3", "v,w\n1,2\n3,4\n5,6"): assert len(read_table(save("t.csv", text + end))) == 3


@pytest.mark.parametrize("line_end", ["\n", "\r", "\r\n"])
def test_the_limit_of_fields_knows_every_line_end(save, monkeypatch, line_end):
    monkeypatch.setattr(data, "_MOST_FIELDS", 15)
    assert len(read_table(save("t.csv", line_end.join(["v,w", *["1,2"] * 7])))) == 7
    with pytest.raises(ValueError, match="t.csv has more than"): read_table(save("t.csv", line_end.join(["v,w", *["1,2"] * 8])))


@pytest.mark.parametrize("text, words", [
    ("a,b\n1,2\n2,3\n", "commas"), ("a,b\n1,2\n", "commas"), ("1,5\n2,5\n", "commas"), ("a;b\n1,5;2\n", "semicolons"), ("v\n1,5\n2,5\n", None), ("v\n1\n2\n", None), ("a,b\tc\n1,5\t2\n", None)])
def test_a_file_named_tsv_without_tabs(save, text, words):
    path = save("t.tsv", text)
    if words is None: assert read_table(path).iloc[0, 0] in (1, 1.5)
    else:
        with pytest.raises(ValueError, match=f"t.tsv has no tab, but {words} cut it into fields: name it .csv"): read_table(path)


@pytest.mark.parametrize("cells, message", [
    (["10 20 Elm", "12 7 Oak"], None), (["5 Jan 2020", "6 Jan 2020"], None), (["1 000", "2 500"], "holds numbers written as text, such as '1 000'"), (["1 000", "950"], "numbers written as text"),
    (["1 2", "3 4"], "fields must be separated"), (["5.1 3.5 1.4 setosa", "4.9 3 1.4 setosa"], "fields must be separated"), (["1|cat", "2|dog"], "fields must be separated"), (["100 200 3", "100 200 4"], "fields must be separated")])
def test_one_column_with_blanks(save, cells, message):
    def encoded():
        table = read_table(save("t.csv", "\n".join(["v", *cells])))
        return encode_pair(table, table)
    if message is None: assert encoded().names == tuple(f"v={c}" for c in cells)
    else:
        with pytest.raises(ValueError, match=message): encoded()


@pytest.mark.parametrize("text, noted", [
    ("a,b\nx,y\nz,w\n", True), ("red\nblue\nred\n", True), ("a;b\nx;1\nz;y\n", True), ("a,b\n1,y\n2,w\n", False), ("a,b\nx,1.5\nz,\n", False), ("a,b\nx,true\nz,false\n", False), (",a,b\n0,x,y\n1,z,w\n", False), ("a,b,\nx,y,\n", True)])
def test_a_first_row_of_text_above_text_is_never_a_header_in_silence(save, text, noted):
    path = save("t.csv", text)
    assert any(n.startswith("The first row, ") and n.endswith(" was read as column names (`header`=False reads it as data).") for n in read_table(path).attrs["notes"]) == noted
    assert not any("first row" in n for header in (True, False) for n in read_table(path, header=header).attrs["notes"])
    if text.startswith("a,b\nx,y"): assert read_table(path).attrs["notes"] == ["The first row, a, b, was read as column names (`header`=False reads it as data)."] + ["Column 3 has neither name nor values; it was left out."] * ("b,\n" in text)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.csv.gz"])
def test_pipes_and_devices_are_refused(tmp_path, name):
    os.mkfifo(tmp_path / name)
    (tmp_path / "null.csv").symlink_to(os.devnull)
    for path in (tmp_path / name, tmp_path / "null.csv"):
        with pytest.raises(ValueError, match=f"{path} is a pipe or a device, not a regular file"): read_table(path)


def test_a_file_is_read_once(save, monkeypatch):
    opened, paths = [], [save("a.csv", "2019,2020\n1,2\n3,4\n"), save("b.csv", "2019,2020\n5,6\n")]
    reader = data._read_bytes
    monkeypatch.setattr(data, "_read_bytes", lambda path: opened.append(path) or reader(path))
    assert list(read_pair(*paths)[1].columns) == ["2019", "2020"] and opened == paths


def test_utf16_that_is_cut(save):
    with pytest.raises(ValueError, match="t.csv does not look like text: it ends within a letter of UTF-16"): read_table(save("t.csv", "a,b\n1,2\n".encode("utf-16")[:-1]))


@pytest.mark.parametrize("text, line", [('a,b\n1,2\n"3,4\n5,6\n', 3), ('a,b\n1,2\n"3\n",4\n"5"x,6\n', 5), ('"a,b\n1,2\n', 1)])
def test_a_broken_quote_is_found(save, text, line):
    with pytest.raises(ValueError, match=rf"t.csv cannot be split into fields \(line {line}: "): read_table(save("t.csv", text))


def test_parquet(tmp_path, save):
    table = pd.DataFrame({"a": [1.5, 2.5], "b": ["x", "y"]})
    table.to_parquet(tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.parquet"), table.astype({"b": object}))
    table.set_index("b").to_parquet(tmp_path / "t.pq")
    again = read_table(tmp_path / "t.pq")
    assert list(again.columns) == ["a"] and "index" in again.attrs["notes"][0]
    with pytest.raises(ValueError, match="not a valid Parquet file"): read_table(save("bad.parquet", "a,b\n1,2\n"))
    table[:0].to_parquet(tmp_path / "none.parquet")
    with pytest.raises(ValueError, match="no rows"): read_table(tmp_path / "none.parquet")


def test_a_text_that_is_repeated_is_read_once(tmp_path):
    rows, text = 20_000, "a" * 1_000_000
    codes = pa.array([0, 1] * (rows // 2), pa.int32())
    pq.write_table(pa.table({"v": np.arange(rows), "t": pa.DictionaryArray.from_arrays(codes, [text, "b"])}), tmp_path / "t.parquet", compression="zstd", store_schema=False)
    assert (tmp_path / "t.parquet").stat().st_size < 200_000
    table = read_table(tmp_path / "t.parquet")
    assert table["t"][0] is table["t"][2] and table["t"][19_998] == text and table["t"][1] == "b"       # not 10 GB
    e = encode_pair(table[:9], table[9:40])
    assert e.names[1:] == (f"t={text}", "t=b") and e.x[:3, 1].tolist() == [1, 0, 1]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int8(), pa.large_string())])
def test_texts_of_parquet(tmp_path, kind):
    values = ["x", None, "y", "x", "2024-01-01"]
    try: pa.array(values).cast(kind)
    except pa.ArrowNotImplementedError: pytest.skip("this version of Arrow makes no such column")
    pq.write_table(pa.table({"t": pa.array(values).cast(kind)}), tmp_path / "t.parquet", row_group_size=2)
    column = read_table(tmp_path / "t.parquet")["t"]
    assert column.tolist()[::2] == values[::2] and column.isna().tolist() == [False, True, False, False, False]
    assert isinstance(column.dtype, pd.CategoricalDtype) == str(kind).startswith("dictionary")
    pq.write_table(pa.table({"t": pa.array(["1", "2"]).cast(kind)}), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    if str(kind).startswith("dictionary"): assert encode_pair(table, table).names == ("t=1", "t=2")
    else:
        with pytest.raises(ValueError, match="numbers written as text"): encode_pair(table, table)


def test_categories_of_numbers_are_text(tmp_path):
    for categories in ([3, 1, 3], [True, False, True], [1.5, 0.5, 1.5]):
        pd.DataFrame({"k": pd.Categorical(categories), "v": [1, 2, 4]}).to_parquet(tmp_path / "t.parquet")
        table = read_table(tmp_path / "t.parquet")
        assert encode_pair(table, table).names == (f"k={min(categories)}", f"k={max(categories)}", "v")


@pytest.mark.parametrize("kind", ["float64", "Float64", "float64[pyarrow]", "float32[pyarrow]"])
def test_a_number_that_is_not_one_is_missing(tmp_path, kind):
    nan = pa.array([1.0, np.nan, None, 4.0], pa.float32() if "32" in kind else pa.float64())
    table = pd.DataFrame({"v": pd.Series(nan.to_numpy(zero_copy_only=False)).astype(kind) if "pyarrow" not in kind else pd.arrays.ArrowExtensionArray(nan), "w": range(4)})
    table.to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert table["v"].isna().tolist() == [False, True, True, False] and table["v"].dtype.kind == "f"
    with pytest.raises(ValueError, match="`a` has missing values: 2 in column 'v' .first in row 1."): encode_pair(table, table)
    with pytest.raises(ValueError, match="lacks a label in 2 rows"): split_by(table, "v")


@pytest.mark.parametrize("kind", ["Int64", "UInt64", "int64[pyarrow]"])
def test_whole_numbers_keep_their_digits_beside_a_gap(tmp_path, kind):
    pd.DataFrame({"g": pd.array([2**53, 2**53 + 1, None], dtype=kind), "b": pd.array([True, None, False], dtype="boolean")}).to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert table["g"].tolist()[:2] == [2**53, 2**53 + 1] and table["g"].isna().tolist() == [False, False, True]
    assert table["b"].tolist()[::2] == [True, False] and table["b"].isna().tolist() == [False, True, False]


def test_parquet_is_refused_by_its_description(tmp_path, monkeypatch):
    def refused(table, message):
        pq.write_table(table, tmp_path / "t.parquet")
        with pytest.raises(ValueError, match=f"t.parquet{message}"): read_table(tmp_path / "t.parquet")
    refused(pa.table({"v": [1], "l": [[1, 2]]}), ": column 'l' holds values of type list<.*; store the table without it")
    refused(pa.table({"s": [{"a": 1}]}), ": column 's' holds values of type struct")
    refused(pa.table([[1], [2], [3]], names=["a", "b", "a"]), ": the column name 'a' occurs 2 times")
    monkeypatch.setattr(data, "_MOST_STORED", 3000)
    refused(pa.table({"t": [str(i) * 100 for i in range(100)]}), " holds more than 0 MB")
    refused(pa.table({"t": pa.array([b"a" * 200] * 20, pa.binary(200))}), " holds more than 0 MB")
    refused(pa.table({"v": np.zeros(400)}), " holds more than 0 MB")
    pq.write_table(pa.table({"v": np.zeros(300)}), tmp_path / "t.parquet")
    assert len(read_table(tmp_path / "t.parquet")) == 300


def test_no_memory_for_a_file(save, monkeypatch):
    def fail(*args): raise MemoryError("malloc of size 5")
    monkeypatch.setattr(data, "_read_text", fail); monkeypatch.setattr(data, "_read_parquet", fail)
    for name in ("t.csv", "t.parquet"):
        with pytest.raises(MemoryError, match=f"{name} does not fit into memory"): read_table(save(name, "v\n1\n"))


@pytest.mark.parametrize("name, content, message", [
    ("t.csv", "", "is empty"), ("t.csv", " \n\n", "is empty"), ("t.csv", "a,b\n", "no rows"), ("t.csv", "a,b\n1,2\n3\n", "line 3 has 1 field where"),
    ("t.csv", "a,b\n1,2,3\n4,5,6\n", "line 2 has 3 fields"), ("t.csv", "a,a\n1,2\n", "'a' occurs 2 times"), ("t.csv", b"\x89PNG\r\n\x1a\n\x00", "binary"),
    ("t.csv", b"PK\x03\x04rest", "binary"), ("t.csv", "a,b\n".encode("utf-16-le"), "binary"), ("t.csv.gz", b"a,b\n1,2\n", "gzip"),
    ("t.csv.gz", gzip.compress(b"a,b\n1,2\n")[:-9], "gzip"), ("t.csv", '"a,b\n1,2\n', "cannot be split"), ("t.csv", '{"a": 1, "b": [1,2]}\n{"a": 2, "b": [1,2]}\n', "cannot be split"), ("t.xlsx", "x", "must end in"), ("t", "x", "must end in"),
    ("t.csv", "1 2 3\n4 5 6\n", "separated by"), ("t.csv", "a|b\n1|2\n", "separated by"), ("t.csv", "1 2 3 cat\n4 5 6 dog\n", "separated by")])
def test_bad_files(save, name, content, message):
    with pytest.raises(ValueError, match=message) as e: read_table(save(name, content))
    assert name in str(e.value) and "\n" not in str(e.value)


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(ValueError, match="no such file"): read_table(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match="is a directory"): read_table(tmp_path / "folder.csv")
    for header in ("maybe", 1, None, [True], np.array([1, 2])):
        with pytest.raises(ValueError, match="`header`"): read_table(tmp_path / "none.csv", header=header)


def test_reads_what_pandas_reads(tmp_path):
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 4)) * 10.0 ** np.arange(-200, 200, 100))
    for index in (True, False):
        table.to_csv(tmp_path / "t.csv", index=index)
        got = read_table(tmp_path / "t.csv")
        assert list(got.columns) == list("0123")
        assert_array_equal(got.to_numpy(), table.to_numpy())


# --- one table with labels ------------------------------------------------------------------------------------------------

def test_split_by():
    table = pd.DataFrame({"v": [1, 2, 3, 4], "g": [1, 0, 1, 0], "s": ["a", "b", "c", "a"], "h": ["x", None, "y", "x"]})
    first, second, labels = split_by(table, "g")
    assert labels == (0, 1) and first["v"].tolist() == [2, 4] and second["v"].tolist() == [1, 3] and "g" not in first
    with pytest.raises(ValueError, match="exactly two labels.*`labels` must name two.*got 3: a, b, c"): split_by(table, "s")
    first, second, labels = split_by(table, "s", labels=["c", "a"])
    assert labels == ("c", "a") and first["v"].tolist() == [3] and second["v"].tolist() == [1, 4]
    with pytest.raises(ValueError, match="`labels` must be among a, b, c, got z"): split_by(table, "s", labels=["a", "z"])
    with pytest.raises(ValueError, match="got 1: a"): split_by(table, "s", labels=["a", "a"])
    with pytest.raises(ValueError, match="'v', 'g', 's', 'h', got 'w'"): split_by(table, "w")
    with pytest.raises(ValueError, match="lacks a label in 1 row$"): split_by(table, "h")
    with pytest.raises(ValueError, match="no column besides"): split_by(table[["g"]], "g")


def test_split_by_names_what_it_refuses():
    table = pd.DataFrame({"v": [1, 2, 3], "g": ["a", "b", "a"], "d": [Decimal("sNaN"), 1, 2], "l": [[1], [2], [1]], "c": [1j, 2, 1j]})
    for bad in (table.to_numpy(), np.ma.masked_array([[1, 2]], [[0, 1]]), table["g"], [[1, 2]], pa.table({"g": [1]})):
        with pytest.raises(TypeError, match=f"`table` must be a DataFrame, got {type(bad).__name__}"): split_by(bad, "g")
    with pytest.raises(ValueError, match="`column`: 'g' occurs 2 times in the table"): split_by(pd.concat([table, table[["g"]]], axis=1), "g")
    for column in (["g"], np.array(["g"]), None, "w"):
        with pytest.raises(ValueError, match="`column` must be one of 'v', 'g'"): split_by(table, column)
    for labels in (3, "ab", [["a"], ["b"]]):
        with pytest.raises((TypeError, ValueError), match="`labels` must"): split_by(table, "g", labels)
    with pytest.raises(ValueError, match="column 'd' lacks a label in 1 row"): split_by(table, "d")
    for column in "lc":
        with pytest.raises(TypeError, match=f"column '{column}' holds labels that are neither numbers nor text, such as"): split_by(table, column)


@pytest.mark.parametrize("text, labels, right", [
    ("g,v\n0,1\n1,2\n2,3\n,4\n", ["0", "1"], (0, 1)), ("g,v\n0,1\n1,2\n2,3\n,4\n", ["1.0", "2"], (1, 2)), ("g,v\ntrue,1\nfalse,2\n", ["true", "false"], (True, False)), ("g,v\nTRUE,1\nfalse,2\n,3\n", ["FALSE", "True"], (False, True)),
    ("g;v\n1,5;1\n2,5;2\n3,5;3\n", ["1,5", "3.5"], (1.5, 3.5)), ("g,v\n01,1\n02,2\n", ["02", "1"], (2, 1)), ("g,v\n1e3,1\n5,2\n7,2\n", ["1000", "5"], (1000, 5)), ("g,v\n01a,1\n1a,2\n", ["1a", "01a"], ("1a", "01a"))])
def test_labels_as_they_are_in_the_file(save, text, labels, right):
    table = read_table(save("t.csv", text))
    table = table[table["g"].notna()]
    first, second, found = split_by(table, "g", labels)
    assert found == right and [isinstance(v, bool) for v in found] == [isinstance(v, bool) for v in right]
    assert len(first) == len(second) == 1


@pytest.mark.parametrize("text, labels, unknown", [("g,v\n0,1\n1,2\n", ["0", "true"], "true"), ("g,v\ntrue,1\nfalse,2\n", ["1", "false"], "1"), ("g,v\n1x,1\n1,2\n", ["1.0", "1x"], "1.0"), ("g,v\n1,1\n2,2\n", ["1", "nan"], "nan")])
def test_labels_that_are_not_in_the_file(save, text, labels, unknown):
    with pytest.raises(ValueError, match=f"`labels` must be among .*, got {unknown}$"): split_by(read_table(save("t.csv", text)), "g", labels)


@pytest.mark.parametrize("labels", ["01 1 2", "1 2 +1", "09007199254740993 9007199254740993 5", "1 01 x"])
def test_labels_that_are_one_number(save, labels):
    table = read_table(save("t.csv", "g,v\n" + "".join(f"{label},{i}\n" for i, label in enumerate(labels.split() * 2))))
    moved = table.set_axis(range(1, len(table) + 1))[table["v"].to_numpy() > -1]
    a, b = labels.split()[:1] + labels.split()[1 + (labels == "1 2 +1"):][:1]
    if "x" in labels: assert split_by(moved, "g", ["01", "1"])[2] == ("01", "1")
    else:
        with pytest.raises(ValueError, match=f"column 'g' holds the labels {re.escape(a)} and {re.escape(b)}, which are one number"): split_by(moved, "g", ["1", "2"])
    assert len(split_by(table, "v", [0, 1])) == 3


@pytest.mark.parametrize("first, second", [("9007199254740992", "9007199254740993"), ("-9007199254740993", "-9007199254740992"), ("1700000000000000000.5", "1700000000000000001"), ("9" * 400, "9" * 401), ("1700000000.000000001", "1700000000.000000002")])
def test_long_labels_of_a_file_stay_apart(save, first, second):
    table = read_table(save("t.csv", f"g,v\n{first},1\n{second},2\n3,3\n,4\n"))[:3]
    assert [t["v"].tolist() for t in split_by(table, "g", [first, second])[:2]] == [[1], [2]]
    with pytest.raises(ValueError, match="`labels` must be among"): split_by(table, "g", [first, f"{second}9"])


def test_long_labels_of_parquet_stay_apart(tmp_path):
    pd.DataFrame({"g": pd.array([2**53, 2**53 + 1, None], dtype="Int64"), "v": [1, 2, 3]}).to_parquet(tmp_path / "t.parquet")
    first, second, labels = split_by(read_table(tmp_path / "t.parquet")[:2], "g", [f"0{2**53 + 1}", 2**53])
    assert labels == (2**53 + 1, 2**53) and first["v"].tolist() == [2] and second["v"].tolist() == [1]


# --- encoding -------------------------------------------------------------------------------------------------------------

def frames(**columns):
    "Two tables of one column each from name=(values of a, values of b)."
    return [pd.DataFrame({k: v[i] for k, v in columns.items()}) for i in (0, 1)]


def test_standardising_uses_the_pooled_rows():
    rng = np.random.default_rng(0)
    a, b = rng.normal(3, 2, (7, 3)), rng.normal(0, 5, (5, 3))
    e = encode_pair(pd.DataFrame(a), pd.DataFrame(b))
    z = np.vstack([a, b])
    assert_allclose(np.vstack([e.x, e.y]), (z - z.mean(0)) / z.std(0), atol=1e-14)
    assert e.names == ("0", "1", "2") and e.x.dtype == np.float64 and isinstance(e, Encoded)
    # the pooled encoded sample does not depend on who owns which row
    order = rng.permutation(12)
    again = encode_pair(z[order][:7], z[order][7:])
    assert_allclose(np.vstack([again.x, again.y]), np.vstack([e.x, e.y])[order], atol=1e-14)


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e16, 1e300])
def test_scale_does_not_matter(scale):
    a, b = np.array([[1.0], [2.0]]), np.array([[4.0]])
    assert_allclose(encode_pair(scale * a, scale * b).x, encode_pair(a, b).x, rtol=1e-12)


@pytest.mark.parametrize("offset, step", [(1e12, 1), (-1e12, 2), (1e16, 2), (1.7e18, 256), (-1.7e18, 512), (0, 2.0**-600), (0, 2.0**1019), (-(2.0**1023), 2.0**1019)])
def test_an_offset_does_not_matter(offset, step):
    a, b = np.array([[0.0], [1], [2], [3], [5], [8]]), np.array([[4.0], [6], [7], [9], [10]])
    plain, far = encode_pair(a, b), encode_pair(offset + step * a, offset + step * b)
    assert_array_equal(far.x, plain.x); assert_array_equal(far.y, plain.y)
    z = np.concatenate([a, b])
    assert_allclose(plain.x, (a - z.mean()) / z.std(), atol=1e-15)


@pytest.mark.parametrize("word", ["unknown", "-", "?"])
@pytest.mark.parametrize("values, what", [(["1", "2.5", "3"], "numbers"), (["1,000", "2%", "3"], "numbers"), (["2024-01-01", "2024-01-02", "2024-01-03"], "dates")])
def test_one_word_among_numbers_is_no_level(word, values, what):
    good = pd.DataFrame({"v": ["x", "y"]})
    for words in (1, 4, 40):
        bad = pd.DataFrame({"v": values + [word] * words})
        with pytest.raises(ValueError, match=f"column 'v' of `b` mixes {what} and text, such as '{re.escape(word)}'"): encode_pair(good, bad)
    for text in (values[:2] + [word] * 3, values + [word] * 3 + ["other"]):       # two numbers may be names, and so may more words
        assert len(encode_pair(good, pd.DataFrame({"v": text})).names) == 2 + len(set(text))


def test_constant_columns_and_raw():
    a, b = frames(v=([0.1, 0.1], [0.1]), w=([1, 2], [5]), t=([True, False], [True]))
    e = encode_pair(a, b)
    assert_array_equal(e.x[:, 0], 0)
    assert any("Constant" in n and "'v'" in n for n in e.notes)
    assert_array_equal(encode_pair(a, b, raw=True).x, [[0.1, 1, 1], [0.1, 2, 0]])


def test_text_and_categories():
    a, b = frames(c=(["r", "g"], ["b", "r"]), k=(pd.Categorical([3, 1]), pd.Categorical([1, 3])), v=([1.0, 2.0], [3.0, 4.0]))
    e = encode_pair(a, b)
    assert e.names == ("c=b", "c=g", "c=r", "k=1", "k=3", "v")
    assert_array_equal(e.y[:, :5], [[1, 0, 0, 1, 0], [0, 0, 1, 0, 1]])
    assert any("2 text columns" in n and "'c' (3), 'k' (2)" in n for n in e.notes)
    with pytest.raises(ValueError, match="`raw`.*'c', 'k'"): encode_pair(a, b, raw=True)


def test_equal_categories_of_different_type_are_one_level():
    a, b = frames(k=(pd.Categorical([3, 1]), pd.Categorical([1.0, 3.0])))
    assert encode_pair(a, b).names == ("k=1", "k=3")


def test_nullable_types_agree():
    a, b = frames(v=([1, 2], [3, 4]), w=([True, False], [True, True]))
    plain = encode_pair(a, b)
    for types in ({"v": "Int64", "w": "boolean"}, {"v": "float32", "w": "Float64"}, {"v": "int64[pyarrow]", "w": "bool[pyarrow]"}, {"v": object, "w": object}):
        e = encode_pair(a.astype(types), b.astype(types))
        assert_allclose(e.x, plain.x, rtol=1e-12)
        assert e.names == plain.names


def test_columns_are_matched_by_name():
    a, b = frames(v=([1.0, 2.0], [3.0, 4.0]), w=([5.0, 7.0], [5.0, 6.0]))
    assert_array_equal(encode_pair(a, b[["w", "v"]]).y, encode_pair(a, b).y)
    assert encode_pair(a, b, columns=["w"]).names == ("w",)
    assert encode_pair(a, b, columns=("w", "v", "w")).names == ("w", "v")
    with pytest.raises(ValueError, match="only `a` has 'w' and only `b` has 'u'"): encode_pair(a, b.rename(columns={"w": "u"}))
    with pytest.raises(ValueError, match="`columns` asks for 'q', but `a` has 'v', 'w'"): encode_pair(a, b, columns=["q", "v"])
    with pytest.raises(ValueError, match="`columns` is empty"): encode_pair(a, b, columns=[])
    assert encode_pair(a.assign(id="n"), b, columns=["v"]).names == ("v",)          # a column that is left out need not match


@pytest.mark.parametrize("bad, message", [
    ([1.0, np.nan], "`a` has missing values: 1 in column 'v' .first in row 1."), ([1.0, -np.inf], "`a` has infinite values: 1 in column 'v'"),
    ([np.inf, "x"], "infinite"), ([Decimal("-Infinity"), 1], "infinite values: 1 in column 'v'"), ([10**400, 1], "infinite"), ([Decimal(10) ** 400, Decimal(1)], "infinite"), ([np.float32("inf"), 1], "infinite"),
    (pd.array(pa.array([np.nan, 1.0]), dtype=pd.ArrowDtype(pa.float64())), "missing values: 1 in column 'v'"), (np.array([2, 3], dtype=np.longdouble) ** 10000, "infinite"), ([Decimal("sNaN"), Decimal(1)], "missing values: 1 in column 'v'"), ([Decimal("NaN"), np.inf], "missing"), (["1", "2"], "numbers written as text, such as '1'"), (["1,234", "2,345"], "numbers written as text"),
    (["1", "?"], "mixes numbers and text, such as '\\?'"), ([1, "x"], "mixes numbers and text"), (pd.to_datetime(["2024-01-01", "2024-01-02"]), "dates"),
    (["2024-01-01", "2024-01-02 10:00"], "dates"), (["1/12/2024", "31/12/2024"], "dates"), (["1.12.2024", "31.12.2024"], "dates"), (pd.to_timedelta([1, 2], unit="s"), "dates or times"), ([1 + 2j, 3j], "type complex"),
    ([[1], [2]], "type list"), (["x", None], "missing"), (["x", "y"], "holds text in `a` and numbers in `b`")])
def test_columns_that_cannot_be_encoded(bad, message):
    a, b = pd.DataFrame({"u": [1.0, 2.0], "v": bad}), pd.DataFrame({"u": [1.0], "v": [2.0]})
    with pytest.raises(ValueError, match=message): encode_pair(a, b)


START = 1_700_000_000_000_000_000                                       # time stamps in nanoseconds


@pytest.mark.parametrize("kind", ["int64", "Int64", "int64[pyarrow]", object, Decimal, "seconds", "negative", *[np.longdouble] * (np.finfo(np.longdouble).nmant > 52)])
@pytest.mark.parametrize("step", [1, 257])
def test_numbers_too_close_for_floats_are_refused(kind, step):
    def stamps(values):
        if kind == "negative": return pd.Series([-v for v in values])
        if kind == "seconds": return pd.Series([Decimal(v) / 10**9 for v in values])
        return pd.Series([Decimal(v) for v in values]) if kind is Decimal else pd.Series(values).astype(kind)
    a, b = [pd.DataFrame({"t": stamps([START + first + step * i for i in range(40)]), "v": np.arange(40) % 7}) for first in (0, 60)]
    for raw in (False, True):
        for pair in ((a, b), (a, b.astype({"t": float}))):
            with pytest.raises(ValueError, match="column 't' has numbers that differ by too little for double precision: subtract a constant first, or leave it out by naming the others in `columns`"): encode_pair(*pair, raw=raw)
    assert encode_pair(a, b, columns=["v"]).names == ("v",)
    assert "Constant in both samples, so of no effect: 't'." in encode_pair(a[1:2], a[1:2], columns=["t"]).notes


@pytest.mark.parametrize("first, step", [(START, 10**12), (Decimal(START), Decimal(10) ** 12), (0, Decimal(1) / 7), (0, Decimal("7E-200") / 3), (0, Decimal("7E+200") / 3)])
def test_numbers_far_enough_apart_for_floats_are_encoded(first, step):
    a, b = [pd.DataFrame({"t": [first + i * step for i in rows]}, dtype=object) for rows in (range(5), range(3, 7))]
    assert_array_equal(encode_pair(a, b, raw=True).y[:, 0], [float(v) for v in b["t"]])


def test_a_column_without_values_is_told_from_one_with_gaps():
    a, b = frames(u=([1.0, 2.0], [3.0, 4.0]), v=([np.nan, np.nan], [1.0, np.nan]))
    with pytest.raises(ValueError, match="`a` has no values in column 'v'; leave it out by naming the others in `columns`"): encode_pair(a, b)
    with pytest.raises(ValueError, match="`a` has missing values: 1 in column 'v'"): encode_pair(b, a)
    assert encode_pair(a, b, columns=["u"]).names == ("u",)


def test_messages_use_the_given_names():
    a, b = frames(v=([1.0, 2.0], [3.0, np.nan]))
    with pytest.raises(ValueError, match="^new.csv has missing values: 1 in column 'v'"): encode_pair(a, b, labels=("old.csv", "new.csv"))


def test_many_levels():
    a, b = frames(name=([f"n{i}" for i in range(700)], [f"m{i}" for i in range(700)]), v=(range(700), range(700)))
    with pytest.raises(ValueError, match="'name' has 1400 different texts.*`columns`"): encode_pair(a, b)
    e = encode_pair(a[:20], b[:20])
    assert sum("is it a name" in n for n in e.notes) == 1 and sum("is it a row number" in n for n in e.notes) == 1


def test_masked_values_are_refused():
    y, rows = np.ones((2, 2)), [np.ma.array([1e20, 1.0], mask=[1, 0]), [0.0, 2.0]]
    for x in (np.ma.array([[1e20, 1.0], [0.0, 2.0]], mask=[[1, 0], [0, 0]]), rows, [[np.ma.masked, 1.0], [0.0, 2.0]]):
        with pytest.raises(ValueError, match="`a` has 1 masked values"): encode_pair(x, y)
        with pytest.raises(ValueError, match="`old` has 1 masked values"): encode_pair(y, x, labels=("new", "old"))
    assert_array_equal(encode_pair(np.ma.array(y), y, raw=True).x, y)


class Polars:
    "A table of another package, which becomes an Arrow table."
    def __init__(self, table): self.table, self.columns = table, table.column_names
    def to_arrow(self): return self.table

Polars.__module__ = "polars"


@pytest.mark.parametrize("kind", [pa.Table, pa.RecordBatch, Polars])
def test_arrow_tables_are_matched_by_name(kind):
    def table(order, **columns):
        made = pa.table({c: columns[c] for c in order})
        return {pa.Table: made, Polars: Polars(made), pa.RecordBatch: made.to_batches()[0]}[kind]
    a = table("vkw", v=[1.0, 2.0], w=[5, 6], k=pa.array([7, 8]).dictionary_encode())
    b = table("wvk", v=[3.0, 4.0], w=[7, 8], k=pa.array([8, 7]).dictionary_encode())
    e = encode_pair(a, b)
    assert e.names == ("v", "k=7", "k=8", "w")
    assert_array_equal(encode_pair(a, b, columns=["w", "v"], raw=True).y, [[7, 3], [8, 4]])
    assert_array_equal(encode_pair(a, pd.DataFrame({"w": [7, 8], "v": [3.0, 4.0]}), columns=["v", "w"], raw=True).y, [[3, 7], [4, 8]])
    with pytest.raises(ValueError, match="only `a` has 'k'"): encode_pair(a, table("wv", v=[1.0], w=[2]))
    with pytest.raises(ValueError, match="column 't' has numbers that differ by too little"): encode_pair(*[table("t", t=[START + first + i for i in range(9)]) for first in (0, 60)])
    for gap in ([2**62, None], [np.nan, 1.0], [None, 1.0], pa.array([Decimal(1), None])):
        with pytest.raises(ValueError, match="`b` has missing values: 1 in column 't'"): encode_pair(table("t", t=[1]), table("t", t=gap))
    with pytest.raises(ValueError, match="'v' more than once"): encode_pair(pa.table([[1], [2]], names=["v", "v"]), a)


def test_lists_of_rows_have_columns_of_their_own_types():
    with pytest.raises(ValueError, match="column '0' has numbers that differ by too little"): encode_pair([[2**60 + i, 0.5 * i] for i in range(9)], [[2**60 + i, 0.5 * i] for i in range(9)])
    assert encode_pair([[1, "x"], [2, "y"]], [[3, "x"]]).names == ("0", "1=x", "1=y")


def test_shapes():
    for bad, word in ((scipy.sparse.eye(2), "pass its `.toarray()`"), ([[1], [2, 3]], "two-dimensional array, got list"), (None, "got NoneType"), (type("Frame", (), {"columns": ["v"]})(), "got Frame")):
        with pytest.raises(TypeError, match=re.escape(word)) as e: encode_pair(np.ones((2, 2)), bad)
        assert str(e.value).startswith("`b` ")
    with pytest.raises(TypeError, match="`columns` must be a list of names, got 3"): encode_pair(np.ones((2, 2)), np.ones((2, 2)), columns=3)
    for labels in (("only a",), 3, None):
        with pytest.raises(ValueError, match="`labels` must be two names, got"): encode_pair(np.ones((2, 2)), np.ones((2, 2)), labels=labels)
    with pytest.raises(TypeError, match="`a` must be a DataFrame"): encode_pair([1, 2], [[1]])
    with pytest.raises(ValueError, match="`b` has no rows"): encode_pair(np.ones((2, 1)), np.ones((0, 1)))
    with pytest.raises(ValueError, match="no columns"): encode_pair(np.ones((2, 0)), np.ones((2, 0)))
    with pytest.raises(ValueError, match="'v' more than once"): encode_pair(pd.DataFrame([[1, 2]], columns=["v", "v"]), np.ones((1, 2)))
    one = encode_pair([[1.0, 2.0]], [[3.0, 2.0]])
    assert_allclose(one.x, [[-1, 0]])
