"""The program `kms`, called in-process: what it prints, writes and refuses."""
import builtins
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from kms_nb import __version__
from kms_nb import cli, distance, kernels, panel, testing
from kms_nb.cli import main

PNG = b"\x89PNG\r\n\x1a\n"


def normal(n, d=2, shift=0.0, seed=0):
    return pd.DataFrame(np.random.default_rng(seed).normal(shift, 1, (n, d)), columns=[f"f{i}" for i in range(d)])


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    "Run `kms ARGS` in an empty folder on a terminal of 80 columns; give back status, output and error output."
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    def call(*args):
        status = main([str(a) for a in args])
        out, err = capsys.readouterr()
        assert "Traceback" not in err and "`" not in out + err
        if "--json" in args and status == 0: assert out.endswith("}\n") and out[:-1].isprintable() and json.loads(out)
        if "--json" not in args: assert not (long := [line for line in out.splitlines() if len(line) > 80 and max(map(len, line.split())) < 68]), long
        return status, out, err
    return call


@pytest.fixture
def ab(tmp_path):
    "Files a.csv and b.csv that differ clearly."
    normal(20).to_csv(tmp_path / "a.csv", index=False)
    normal(15, shift=2, seed=1).to_csv(tmp_path / "b.csv", index=False)


def joined(out):
    "The output without its line breaks."
    return " ".join(out.split())


def refused(result, *words):
    status, out, err = result
    assert status == 2 and out == "" and err.startswith("kms: error: ") and err.count("\n") == 1 and err.endswith("\n")
    for word in words: assert word in err, err
    return err


# --- what works -----------------------------------------------------------------------------------------------------------

def test_test(run, ab):
    status, out, err = run("test", "a.csv", "b.csv", "--n-resamples", 99)
    assert (status, err) == (0, "") and len(out.splitlines()) <= 20
    for words in ("a.csv (20 rows), b.csv (15 rows); 2 features", "standardised", "Gaussian, bandwidth", "<= KMS_2 <=", "threshold",
                  f"{5 * len(panel.STATISTICS)} members of the panel (kernels and witnesses), 99 relabellings; seed 0", "The samples differ (p = 0.0"):
        assert words in joined(out)
    assert run("test", "a.csv", "b.csv", "--n-resamples", 99)[1] == out                      # the seed is fixed


def test_same_law_gives_no_evidence(run, tmp_path):
    for name, seed in (("a", 0), ("b", 1)): normal(20, seed=seed).to_csv(tmp_path / f"{name}.csv", index=False)
    status, out, _ = run("test", "a.csv", "b.csv", "--n-resamples", 99)
    assert status == 0 and "No evidence of a difference (p = " in out and "> 0.05)." in out


def test_distance(run, ab):
    status, out, err = run("distance", "a.csv", "b.csv")
    assert (status, err) == (0, "") and "<= KMS_2 <=" in out and "iteration" in out and "differ" not in out
    status, out, err = run("distance", "a.csv", "b.csv", "--kernel", "laplace", "--bandwidth", 2.5, "--tol", 0.1)
    assert status == 0 and "Laplace, bandwidth 2.5\n" in out
    out = joined(run("distance", "a.csv", "b.csv", "--max-iter", 1)[1])
    assert "1 iteration," in out and "1 iterations" not in out
    assert "Linear" in run("distance", "a.csv", "b.csv", "--kernel", "linear")[1]


def test_the_distance_is_explained(run, ab):
    for command in ("test", "distance"):
        out = joined(run(command, "a.csv", "b.csv")[1])
        assert "the largest Wasserstein distance of order 2 between the samples' values under one function of norm 1, between 0 and sqrt(2) whatever" in out
        assert "between 0 and sqrt(2)" in joined(run(command, "a.csv", "b.csv", "--kernel", "laplace", "--raw")[1])
        assert "under one function of norm 1, in units of the standardised data" in joined(run(command, "a.csv", "b.csv", "--kernel", "linear")[1])
        assert "under one function of norm 1, in units of the data" in joined(run(command, "a.csv", "b.csv", "--kernel", "linear", "--raw")[1])


@pytest.mark.parametrize("rank, words", [(1, "rank 1: the relaxation is exact up to the gap"), (3, "rank 3: the relaxation need not be exact")])
def test_the_rank_is_explained(run, ab, monkeypatch, rank, words):
    monkeypatch.setattr(distance.KMSResult, "rank", rank)
    for command in ("test", "distance", "demo"):
        assert words in joined(run(command, *["a.csv", "b.csv"] * (command != "demo"), *["--n-resamples", 9] * (command != "distance"))[1])


def test_order_of_the_distance(run, tmp_path):
    (tmp_path / "a.csv").write_text("v\n0\n1\n5\n")
    (tmp_path / "b.csv").write_text("v\n2\n4\n8\n")
    for p, right in ((1, 8 / 3), (1.5, (2 * 2**0.5 / 3 + 2 * 3**1.5 / 3 - 2**0.5 * 2 / 3 + 2**1.5 / 3) ** (2 / 3)), (2, (22 / 3) ** 0.5)):
        got = json.loads(run("distance", "a.csv", "b.csv", "--kernel", "linear", "--raw", "--json", "--p", p)[1])
        assert got["p"] == p and got["lower"] == pytest.approx(right, rel=1e-6) and right * (1 - 1e-9) <= got["upper"] <= right * 1.002
    assert "<= KMS_1.5 <=" in run("distance", "a.csv", "b.csv", "--p", 1.5)[1]
    out = joined(run("distance", "a.csv", "b.csv", "--p", 3)[1])
    assert "order 3" in out and "the upper bound" in out and "relaxation" not in out
    refused(run("distance", "a.csv", "b.csv", "--p", 0.5), "--p must be a finite number of at least 1, got 0.5")
    refused(run("distance", "a.csv", "b.csv", "--p", "nan"), "--p must")
    refused(run("distance", "a.csv", "b.csv", "--p", 1, "--method", "mirror"), "--method mirror is for --p 2")


def test_json(run, ab):
    status, out, err = run("test", "a.csv", "b.csv", "--json", "--n-resamples", 19, "--alpha", 0.1)
    got = json.loads(out)
    assert (status, err) == (0, "") and out.count("\n") == 1
    assert got["samples"] == [{"label": "a.csv", "rows": 20}, {"label": "b.csv", "rows": 15}] and got["features"] == ["f0", "f1"]
    assert got["pvalue"] == 0.05 and got["reject"] is True and got["n_resamples"] == 19 and got["seed"] == 0 and got["plot"] is None
    assert 0 < got["distance"]["lower"] <= got["distance"]["upper"] and got["kernel"] == "Gaussian" and got["bandwidth"] > 0
    got = json.loads(run("distance", "a.csv", "b.csv", "--json")[1])
    assert got["lower"] <= got["upper"] and got["converged"] is True and got["command"] == "distance"


def test_json_and_text_agree(run, ab):
    got = json.loads(run("distance", "a.csv", "b.csv", "--json")[1])
    assert f"{got['lower']:.6g} <= KMS_2 <= {got['upper']:.6g}" in run("distance", "a.csv", "b.csv")[1]


@pytest.fixture
def letters(tmp_path):
    "Files whose names and columns are not ASCII."
    for seed, name in enumerate(("größe", "数据")): normal(9, 1, seed=seed).set_axis(["\U0001f600 é"], axis=1).to_csv(tmp_path / f"{name}.csv", index=False)


def test_letters_stand_for_themselves_in_json(run, letters):
    status, out, err = run("distance", "größe.csv", "数据.csv", "--json")
    assert (status, err) == (0, "") and '["größe.csv", "数据.csv"]' in out and '"\U0001f600 é"' in out
    assert json.loads(out)["files"] == ["größe.csv", "数据.csv"] and json.loads(out)["features"] == ["\U0001f600 é"]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8", "utf-16"])
def test_json_is_json_in_any_encoding(letters, tmp_path, root, encoding):
    env = os.environ | {"PYTHONPATH": str(root), "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-m", "kms_nb.cli", "distance", "größe.csv", "数据.csv", "--json"], cwd=tmp_path, env=env, capture_output=True, timeout=60)
    text = done.stdout.decode(encoding)
    assert done.returncode == 0 and done.stderr == b"" and ("größe.csv" in text) == (encoding != "ascii") and ("数据" in text) == encoding.startswith("utf")
    assert json.loads(text)["files"] == ["größe.csv", "数据.csv"] and json.loads(text)["features"] == ["\U0001f600 é"]


def test_json_escapes_what_could_command_a_terminal():
    odd = "".join(map(chr, (*range(32), 0x7F, 0x9B, 0xA0, 0x202E, 0x2028, 0xFEFF, 0xD800, 0xE000, 0x10FFFF))) + "\"\\ ö"
    for encoding in ("utf-8", "ascii", "cp1252"):
        text = cli._json({odd: [odd]}, encoding)
        assert text.isprintable() and text.encode(encoding) and json.loads(text) == {odd: [odd]} and ("ö" in text) == (encoding != "ascii")


def test_by(run, tmp_path):
    table = pd.concat([normal(12).assign(g="new, better"), normal(14, shift=3, seed=1).assign(g="old")])
    table.sample(frac=1, random_state=0).to_csv(tmp_path / "all.csv")                       # with pandas' row names
    status, out, _ = run("test", "all.csv", "--by", "g", "--n-resamples", 99)
    assert status == 0 and "g=new, better (12 rows), g=old (14 rows); 2 features" in out and "row names" in out and "samples differ" in out
    refused(run("test", "all.csv", "--by", "h"), "'f0', 'f1', 'g'", "got 'h'")
    refused(run("test", "all.csv", "--by", "f0"), "exactly two labels", "got 26")
    refused(run("test", "all.csv", "all.csv", "--by", "g"), "one file")
    refused(run("test", "all.csv"), "two files", "--by")
    refused(run("test", "all.csv", "--labels", "old,new"), "--labels needs --by")


def test_labels_are_those_of_the_file(run, tmp_path):
    rows = normal(12).assign(g=["0", "1", "2"] * 4)
    rows.to_csv(tmp_path / "t.csv", index=False)
    right = json.loads(run("distance", "t.csv", "--by", "g", "--labels", "1,0", "--json")[1])
    (tmp_path / "gap.csv").write_text((tmp_path / "t.csv").read_text() + "5,5,\n")          # makes the column one of floats
    got = json.loads(run("distance", "gap.csv", "--by", "g", "--labels", "1,0", "--omit-missing", "--json")[1])
    assert got["upper"] == right["upper"] and [s["label"] for s in got["samples"]] == ["g=1.0", "g=0.0"]
    rows.assign(g=["1,5", "2,5", "3,5"] * 4).to_csv(tmp_path / "comma.csv", index=False, sep=";", decimal=",")
    got = json.loads(run("distance", "comma.csv", "--by", "g", "--labels", '"2,5","1,5"', "--json")[1])
    assert got["upper"] == right["upper"]
    rows.assign(g=["01", "1", "2"] * 4).to_csv(tmp_path / "t.csv", index=False)
    refused(run("distance", "t.csv", "--by", "g", "--labels", "1,2"), "column 'g' holds the labels 01 and 1, which are one number")


def test_a_first_row_of_text_above_text_is_noted(run, tmp_path):
    for name, last in (("a", "green"), ("b", "blue")): (tmp_path / f"{name}.csv").write_text(f"red,big\nblue,small\n{last},big\nred,big\n")
    note = "The first row, red, big, was read as column names (--header no reads it as data)."
    assert note in joined(run("distance", "a.csv", "b.csv")[1]) and note not in joined(run("distance", "a.csv", "b.csv", "--header", "no")[1])
    normal(9).assign(g="x").to_csv(tmp_path / "a.csv", index=False)
    assert "first row" not in run("distance", "a.csv", "a.csv")[1]


def test_by_with_three_labels(run, tmp_path):
    pd.concat([normal(9, seed=i).assign(g=f"k{i}") for i in range(3)]).to_csv(tmp_path / "t.csv", index=False)
    refused(run("test", "t.csv", "--by", "g"), "got 3: k0, k1, k2", "--labels must name two")
    assert "g=k2 (9 rows), g=k0 (9 rows)" in run("distance", "t.csv", "--by", "g", "--labels", "k2,k0")[1]
    refused(run("test", "t.csv", "--by", "g", "--labels", "k2,k9"), "k9")


def test_formats_agree(run, tmp_path):
    a, b = normal(8), normal(9, seed=1)
    for t, name in ((a, "a"), (b, "b")):
        t.to_csv(tmp_path / f"{name}.csv", index=False)
        t.to_csv(tmp_path / f"{name}h.csv", index=False, header=False)
        t.to_csv(tmp_path / f"{name} ö.tsv.gz", index=False, sep="\t")
        t.to_csv(tmp_path / f"{name}s.csv", index=False, sep=";", decimal=",", encoding="utf-8-sig")
        t.to_parquet(tmp_path / f"{name}.parquet")
    lines = {}
    for end in (".csv", "h.csv", " ö.tsv.gz", "s.csv", ".parquet"):
        status, out, _ = run("distance", f"a{end}", f"b{end}")
        assert status == 0
        lines[end] = [line for line in out.splitlines() if "KMS_2" in line]
        assert ("semicolons" in out) == (end == "s.csv")
    assert len(set(map(str, lines.values()))) == 1
    assert run("distance", "a.csv", "b.parquet")[0] == 0


def test_columns_and_raw(run, tmp_path):
    for t, name in ((normal(8), "a"), (normal(9, seed=1), "b")): t.assign(site="here", id=range(len(t))).to_csv(tmp_path / f"{name}.csv", index=False)
    status, out, _ = run("distance", "a.csv", "b.csv")
    assert status == 0 and "1 text column" in out and "'site'" in out
    got = json.loads(run("distance", "a.csv", "b.csv", "--columns", "f1, f0", "--raw", "--json")[1])
    assert got["features"] == ["f1", "f0"] and "as they are" in " ".join(got["notes"])
    refused(run("distance", "a.csv", "b.csv", "--raw"), "--raw takes numbers as they are", "'site'")
    refused(run("distance", "a.csv", "b.csv", "--columns", "f0,q"), "'q'", "'f0', 'f1', 'site', 'id'")


def test_text_columns(run, tmp_path):
    (tmp_path / "a.csv").write_text("colour,size\n" + "red,1\n" * 29 + "blue,2\n")
    (tmp_path / "b.csv").write_text("colour,size\n" + "blue,1\n" * 29 + "green,2\n")
    status, out, _ = run("test", "a.csv", "b.csv", "--n-resamples", 99)
    assert status == 0 and "'colour' (3)" in joined(out) and "4 features" in out and "samples differ" in out


def test_a_header_of_years_in_both_files(run, tmp_path):
    for name, rows in (("a", "1,2\n3,5\n5,1\n"), ("b", "2,2\n3,4\n5,0\n")): (tmp_path / f"{name}.csv").write_text("2019,2020\n" + rows)
    out = joined(run("distance", "a.csv", "b.csv")[1])
    assert "(3 rows)" in out and "a.csv, b.csv: The first row is the same in both files; it was read as column names (--header no reads it as data)." in out
    lines = {h: [line for line in run("distance", "a.csv", "b.csv", "--header", h)[1].splitlines() if "KMS_2" in line] for h in ("auto", "yes", "no")}
    assert lines["auto"] == lines["yes"] != lines["no"]
    assert "(4 rows)" in run("distance", "a.csv", "b.csv", "--header", "no")[1]


def test_a_first_row_of_numbers_is_never_data_in_silence(run, tmp_path):
    for name, rows in (("a", "1.5,2\n3,5\n5,1\n"), ("b", "2,2\n3,4\n5,0\n"), ("c", "f,g\n2,2\n3,4\n")): (tmp_path / f"{name}.csv").write_text(rows)
    for command in ("distance", "test"):
        out = joined(run(command, "a.csv", "b.csv")[1])
        assert "a.csv, b.csv: No column names were found; the first row was read as data (--header yes reads it as names)." in out and "(3 rows)" in out
        assert "column names" not in run(command, "a.csv", "b.csv", "--header", "no")[1]
    refused(run("distance", "a.csv", "c.csv"), "only a.csv has '0', '1'", "a.csv: No column names were found; the first row was read as data (--header yes")
    (tmp_path / "by.csv").write_text("2019,1\n1,1\n3,2\n5,2\n")
    assert "by.csv: No column names were found" in run("distance", "by.csv", "--by", "1")[1]


def test_header_that_mixes_names_and_numbers(run, tmp_path):
    (tmp_path / "iris.csv").write_text("".join(f"{i},{i % 3 + 0.5},{'new' if i % 2 else 'old'}\n" for i in range(9)))
    refused(run("test", "iris.csv", "--by", "2"), "--by must be one of", "read as column names", "(--header no reads it as data)")
    assert "2=new (4 rows), 2=old (5 rows)" in run("test", "iris.csv", "--by", "2", "--header", "no", "--n-resamples", 19)[1]


# --- missing values -------------------------------------------------------------------------------------------------------

def test_rows_with_missing_values_are_left_out_on_request(run, tmp_path):
    a, b = normal(20).assign(t="u"), normal(15, shift=2, seed=1).assign(t="v")
    a.to_csv(tmp_path / "a.csv", index=False), b.to_csv(tmp_path / "b.csv", index=False)
    gaps = a.astype({"t": object})
    for row, column in ((3, "f0"), (7, "f1"), (7, "t"), (19, "t")): gaps.loc[row, column] = None
    gaps.to_csv(tmp_path / "gaps.csv", index=False), a.drop(index=[3, 7, 19]).to_csv(tmp_path / "kept.csv", index=False), a.drop(index=3).to_csv(tmp_path / "kept0.csv", index=False)
    for command, options in (("distance", []), ("test", ["--n-resamples", 19])):
        refused(run(command, "gaps.csv", "b.csv", *options), "gaps.csv has missing values: 1 in column 'f0' (first in row 4)", "(--omit-missing leaves out such rows)")
        assert "gaps.csv: 3 of 20 rows left out for missing values." in joined(run(command, "gaps.csv", "b.csv", "--omit-missing", *options)[1])
        for columns, kept, left_out in (([], "kept.csv", "3 of 20 rows"), (["--columns", "f0"], "kept0.csv", "1 of 20 rows")):        # only gaps in columns that are used count
            got, expected = (json.loads(run(command, name, "b.csv", *more, *columns, *options, "--json")[1]) for name, more in (("gaps.csv", ["--omit-missing"]), (kept, [])))
            assert got["notes"][0] == f"gaps.csv: {left_out} left out for missing values." and got["notes"][1:] == expected["notes"]
            for key in set(got) - {"files", "samples", "notes"}: assert got[key] == expected[key], key
            assert got["samples"][0]["rows"] == expected["samples"][0]["rows"] < 20
        complete = [run(command, "a.csv", "b.csv", *more, *options)[1] for more in ([], ["--omit-missing"])]
        assert complete[0] == complete[1]


def test_missing_values_in_a_split_table_are_left_out_on_request(run, tmp_path):
    (tmp_path / "t.csv").write_text("v,w,g\n1,,a\n2,5,b\n3,1,\n,2,b\n4,2,a\n7,2,b\n5,3,a\n")
    refused(run("distance", "t.csv", "--by", "g"), "lacks a label in 1 row (--omit-missing leaves out such rows)")
    got = json.loads(run("distance", "t.csv", "--by", "g", "--omit-missing", "--json")[1])
    assert [s["rows"] for s in got["samples"]] == [2, 2] and got["notes"][:3] == [f"{who} left out for missing values." for who in ("t.csv: 1 of 7 rows", "g=a: 1 of 3 rows", "g=b: 1 of 3 rows")]
    got = json.loads(run("distance", "t.csv", "--by", "g", "--columns", "v", "--omit-missing", "--json")[1])
    assert [s["rows"] for s in got["samples"]] == [3, 2]


def test_what_leaving_out_rows_cannot_mend(run, ab, tmp_path):
    (tmp_path / "empty.csv").write_text("f0,f1\n1,\n2,\n")
    assert "--omit-missing" not in refused(run("distance", "a.csv", "empty.csv"), "empty.csv has no values in column 'f1'")
    refused(run("distance", "a.csv", "empty.csv", "--omit-missing"), "empty.csv has no values in column 'f1'; leave it out by naming the others in --columns")
    assert run("distance", "a.csv", "empty.csv", "--omit-missing", "--columns", "f0")[0] == 0
    (tmp_path / "each.csv").write_text("f0,f1\n1,\n,2\n")
    refused(run("distance", "each.csv", "a.csv", "--omit-missing"), "each.csv has no row without missing values")
    (tmp_path / "inf.csv").write_text("f0,f1\n1,inf\n3,2\n,1\n")
    assert "--omit-missing" not in refused(run("distance", "a.csv", "inf.csv", "--omit-missing"), "inf.csv has infinite values: 1 in column 'f1' (first in row 1)")
    (tmp_path / "label.csv").write_text("v,g\n1,\n2,\n")
    assert "--omit-missing" not in refused(run("distance", "label.csv", "--by", "g", "--omit-missing"), "lacks a label")
    refused(run("distance", "a.csv", "b.csv", "--omit-missing", "--columns", "q"), "'q'")


# --- tables of every type -------------------------------------------------------------------------------------------------

GRID = pd.DataFrame({"u": [1, 0, 2, 2, 5, 1, 0, 3], "v": [0, 1, 1, 0, 1, 0, 1, 1]})
TYPES = {"int8": "int8", "uint64": "uint64", "float32": "float32", "nullable": {"u": "Int64", "v": "Float32"}, "Arrow": {"u": "int64[pyarrow]", "v": "double[pyarrow]"},
         "truth values": {"v": bool}, "nullable truth values": {"v": "boolean"}, "mixed": {"u": "int16", "v": "float64"}}


@pytest.mark.parametrize("kind", TYPES)
def test_numbers_of_every_type_give_the_same_result(run, kind):
    for t, name in ((GRID[:5], "a"), (GRID[5:], "b")): t.to_csv(f"{name}.csv", index=False), t.astype(TYPES[kind]).to_parquet(f"{name}.parquet")
    for command, options in (("distance", []), ("test", ["--n-resamples", 19]), ("distance", ["--raw", "--kernel", "linear"])):
        one, other = (json.loads(run(command, f"a.{end}", f"b.{end}", *options, "--json")[1]) for end in ("csv", "parquet"))
        for key in set(one) - {"files", "samples", "notes"}: assert one[key] == other[key], key


def test_categories_are_text_and_text_is_one_hot(run):
    for t, name in ((GRID[:5], "a"), (GRID[5:], "b")):
        t.assign(v=pd.Categorical(t["v"].astype(str))).to_parquet(f"{name}.parquet"), t.assign(v=t["v"].map({0: "no", 1: "yes"})).to_csv(f"{name}.csv", index=False)
    one, other = (json.loads(run("distance", f"a.{end}", f"b.{end}", "--json")[1]) for end in ("csv", "parquet"))
    assert one["features"] == ["u", "v=no", "v=yes"] and other["features"] == ["u", "v=0", "v=1"] and one["upper"] == other["upper"]


# --- degenerate samples ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("n, m", [(1, 1), (1, 3), (2, 1), (2, 2), (3, 2), (3, 3)])
def test_a_few_rows(run, n, m):
    for t, name in ((GRID[:n], "a"), (GRID[5:5 + m], "b")): t.to_csv(f"{name}.csv", index=False)
    got = json.loads(run("distance", "a.csv", "b.csv", "--json")[1])
    assert 0 <= got["lower"] <= got["upper"] <= 2**0.5 + 1e-9 and (got["upper"] == 0) == (n == m < 3)       # rows 5 and 6 equal rows 0 and 1
    if min(n, m) < 2: refused(run("test", "a.csv", "b.csv"), "needs at least 2 rows")
    else: assert 1 / 20 < json.loads(run("test", "a.csv", "b.csv", "--n-resamples", 99, "--json")[1])["pvalue"] <= 1


def test_rows_in_any_order_and_files_in_either(run):
    "Repeated rows within the samples and across them."
    a, b = pd.concat([GRID, GRID[:3]]), pd.concat([GRID[4:], GRID[6:], GRID[6:]])
    for t, name in ((a, "a"), (b, "b"), (a[::-1], "c"), (b.sample(frac=1, random_state=0), "d")): t.to_csv(f"{name}.csv", index=False)
    for command, keys in (("distance", ["lower", "upper"]), ("test", ["pvalue", "statistic"])):
        first, *others = ([json.loads(run(command, f"{x}.csv", f"{y}.csv", "--json")[1])[k] for k in keys] for x, y in ("ab", "cd", "ba"))
        for other in others: assert other == pytest.approx(first, rel=1e-3)
        if command == "test": assert others[0][0] == others[1][0] == first[0]


def test_an_outlier_among_equal_rows_proves_nothing(run, tmp_path):
    "Whoever owns it, every relabelling looks alike."
    (tmp_path / "a.csv").write_text("u,v\n" + "1,1\n" * 4)
    (tmp_path / "b.csv").write_text("u,v\n" + "1,1\n" * 3 + "9,1\n")
    for options in ([], ["--raw"], ["--kernel", "linear"]):
        assert json.loads(run("test", "a.csv", "b.csv", "--n-resamples", 99, "--json", *options)[1])["pvalue"] > 0.4


def test_the_bandwidth_when_most_rows_are_equal(run, tmp_path):
    for name, last in (("a", 0), ("b", 3)): (tmp_path / f"{name}.csv").write_text(f"u\n0\n0\n{last}\n")
    assert json.loads(run("distance", "a.csv", "b.csv", "--raw", "--json")[1])["bandwidth"] == 3


def test_the_bandwidth_is_the_standard_deviation_of_the_bell(run, tmp_path):
    for name, value in (("a", 0), ("b", 1)): (tmp_path / f"{name}.csv").write_text(f"u\n{value}\n")
    for kernel, k in (("gaussian", np.exp(-1 / (2 * 2**2))), ("laplace", np.exp(-1 / 2))):
        got = json.loads(run("distance", "a.csv", "b.csv", "--raw", "--header", "yes", "--kernel", kernel, "--bandwidth", 2, "--json")[1])
        assert [got["lower"], got["upper"]] == pytest.approx([np.sqrt(2 - 2 * k)] * 2, rel=1e-6)


def test_a_solver_that_stops_early_says_so(run, ab):
    options = ["distance", "a.csv", "b.csv", "--method", "mirror", "--max-iter", 1, "--tol", 1e-9]
    got, tight = (json.loads(run(*args, "--json")[1]) for args in (options, options[:3]))
    assert got["converged"] is False and "stopped after 1 iteration" in got["message"] and got["lower"] <= tight["upper"] and tight["lower"] <= got["upper"]
    assert "stopped after 1 iteration" in joined(run(*options)[1])


def test_what_would_not_fit_into_memory(run, ab, monkeypatch):
    monkeypatch.setattr(kernels, "MEMORY_LIMIT", 7000)
    refused(run("distance", "a.csv", "b.csv", "--method", "bundle", "--kernel", "linear"), "GB: use --method local, or subsample a.csv and b.csv\n")
    refused(run("distance", "a.csv", "b.csv"), "the Gram matrix of 35 distinct rows needs about", "GB: subsample a.csv and b.csv\n")


def test_one_relabelling(run, ab):
    assert json.loads(run("test", "a.csv", "b.csv", "--n-resamples", 1, "--json")[1])["pvalue"] in (0.5, 1)



def test_x_equal_to_y(run, ab):
    got = json.loads(run("distance", "a.csv", "a.csv", "--json")[1])
    assert got["lower"] == 0 and 0 <= got["upper"] < 0.05
    got = json.loads(run("test", "a.csv", "a.csv", "--json", "--n-resamples", 19)[1])
    assert got["pvalue"] > 0.05 and not got["reject"]


def test_one_row(run, tmp_path):
    (tmp_path / "a.csv").write_text("u,v\n1,2\n")
    (tmp_path / "b.csv").write_text("u,v\n2,4\n")
    assert "a.csv (1 row), b.csv (1 row)" in run("distance", "a.csv", "b.csv")[1]
    refused(run("test", "a.csv", "b.csv", "--n-resamples", 19), "error: a.csv needs at least 2 rows")
    (tmp_path / "t.csv").write_text("u,g\n1,p\n2,q\n3,q\n")
    refused(run("test", "t.csv", "--by", "g"), "error: g=p needs at least 2 rows")


def test_constant_columns(run, tmp_path):
    (tmp_path / "a.csv").write_text("u,v\n" + "1,2\n" * 8)
    for command in ("distance", "test"):
        status, out, _ = run(command, "a.csv", "a.csv", *(["--n-resamples", 19] if command == "test" else []))
        assert status == 0 and "Constant in both samples, so of no effect: 'u', 'v'." in out and "0 <= KMS_2 <= 0" in out and "nan" not in out


def test_one_feature(run, tmp_path):
    for t, name in ((normal(8, 1), "a"), (normal(9, 1, seed=1), "b")): t.to_csv(tmp_path / f"{name}.csv", index=False)
    for command in ("distance", "test"):
        assert run(command, "a.csv", "b.csv", "--plot", f"{command}.png", *(["--n-resamples", 19] if command == "test" else []))[0] == 0


def test_too_few_resamples_are_pointed_out(run, ab):
    assert "no p-value is below 0.1" in " ".join(run("test", "a.csv", "b.csv", "--n-resamples", 9)[1].split())


def test_infinite_threshold(run, ab, tmp_path):
    assert run("test", "a.csv", "b.csv", "--n-resamples", 9, "--plot", "t.png")[0] == 0 and (tmp_path / "t.png").exists()
    assert json.loads(run("test", "a.csv", "b.csv", "--n-resamples", 9, "--json")[1])["threshold"] is None


def test_odd_names_in_the_picture(run, tmp_path):
    for seed, name in enumerate(("cost $x$ and $", "数据" * 40)): normal(9, seed=seed).set_axis(["a$b_{", "_c^$"], axis=1).to_csv(tmp_path / f"{name}.csv", index=False)
    assert run("distance", "cost $x$ and $.csv", "数据" * 40 + ".csv", "--plot", "t.svg")[::2] == (0, "")


@pytest.mark.parametrize("limit, value, words", [("_MOST_ROWS", 30, "not computed for more than 30 rows"), ("_MOST_ENTRIES", 99, "for 35 rows with a kernel matrix of rank 35")])
def test_large_samples_skip_the_distance(run, ab, monkeypatch, limit, value, words):
    assert cli._MOST_ROWS == 2000
    monkeypatch.setattr(cli, limit, value)
    assert words in joined(run("test", "a.csv", "b.csv", "--n-resamples", 19)[1])
    assert json.loads(run("test", "a.csv", "b.csv", "--n-resamples", 19, "--json")[1])["distance"] is None


def test_six_hundred_rows_have_a_distance(run, tmp_path):
    for name, shift in (("a", 0), ("b", 0.5)): normal(300, 1, shift, seed=int(2 * shift)).to_csv(tmp_path / f"{name}.csv", index=False)
    got = json.loads(run("test", "a.csv", "b.csv", "--n-resamples", 19, "--json")[1])
    assert 0 < got["distance"]["lower"] <= got["distance"]["upper"] < 2**0.5


# --- bad input ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("text, words", [
    (None, "no such file"), ("", "is empty"), ("f0,f1\n", "no rows"), (b"\x89PNG\x00\x01", "binary"), ("f0,f1\n1,2\n3,\n5,6\n", "missing values: 1 in column 'f1' (first in row 2)"),
    ("f0,f1\n1,inf\n2,3\n", "infinite values"), ("f0,f1\n1,2\n3\n", "line 3 has 1 field"), ("f0,f2\n1,2\n", "only a.csv has 'f1' and only bad.csv has 'f2'"),
    ("f0,f1\n1,x\n2,y\n", "'f1' holds numbers in a.csv and text in bad.csv"), ("f0,f1\n1,2\n2,?\n", "mixes numbers and text, such as '?'")])
@pytest.mark.parametrize("command", ["test", "distance"])
def test_bad_files(run, ab, tmp_path, text, words, command):
    if text is not None: (tmp_path / "bad.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(run(command, "a.csv", "bad.csv"), words, "bad.csv")


@pytest.mark.parametrize("spelled", ["{}", "-{}", "{}.5", "{}00000"])
@pytest.mark.parametrize("gap", ["", ",1\n"])
def test_numbers_too_close_for_floats_are_no_constant(run, tmp_path, spelled, gap):
    for name, first in (("a", 0), ("b", 60)): (tmp_path / f"{name}.csv").write_text("t,v\n" + gap + "".join(f"{spelled.format(1_700_000_000_000_000_000 + first + i)},{i % 7}\n" for i in range(9)))
    words = "column 't' has numbers that differ by too little for double precision: subtract a constant first, or leave it out by naming the others in --columns"
    for options in ([], ["--raw"]): refused(run("test", "a.csv", "b.csv", "--omit-missing", *options), words)
    assert run("distance", "a.csv", "b.csv", "--columns", "v")[0] == 0


def test_long_labels_stay_apart(run, tmp_path):
    labels = ["1700000000000000000", "1700000000000000001"]
    (tmp_path / "t.csv").write_text("g,v\n" + "".join(f"{labels[i % 2]},{i * i % 7 + 3 * (i % 2)}\n" for i in range(20)))
    for options in ([], ["--labels", ",".join(labels)]): assert "g=1700000000000000000 (10 rows), g=1700000000000000001 (10 rows)" in joined(run("distance", "t.csv", "--by", "g", *options)[1])


def test_a_point_beside_decimal_commas_is_explained(run, tmp_path):
    (tmp_path / "a.csv").write_text("a;b\n999;1,5\n1.234;1,6\n")
    refused(run("test", "a.csv", "a.csv"), "column 'a' of a.csv holds numbers written as text, such as '1.234'", "(a.csv: Column 'a' was left as text: next to decimal commas, the point in '1.234' may be one that sets thousands apart.)")
    assert run("distance", "a.csv", "a.csv", "--columns", "b")[0] == 0


def test_missing_value_in_a_split_table_gives_the_row_of_the_file(run, tmp_path):
    (tmp_path / "t.csv").write_text("v,g\n1,a\n2,b\n3,a\n,b\n")
    refused(run("test", "t.csv", "--by", "g"), "g=b has missing values: 1 in column 'v' (first in row 4)")


@pytest.mark.parametrize("options, words", [
    (["--alpha", 1.5], "error: --alpha must"), (["--alpha", 0], "--alpha must"), (["--alpha", "nan"], "--alpha must"), (["--alpha", "5%"], "--alpha"), (["--seed", -1], "--seed"), (["--seed", "x"], "--seed"),
    (["--n-resamples", 0], "--n-resamples: must be a whole number, from 1 to 10000000, got '0'"), (["--n-resamples", 2.5], "--n-resamples"),
    (["--n-resamples", 10_000_001], "from 1 to 10000000"), (["--n-resamples", "9" * 5000], "from 1 to 10000000"), (["--bandwidth", 0], "error: --bandwidth must"), (["--bandwidth", "inf"], "--bandwidth must"), (["--bandwidth", "1_0"], "--bandwidth: must be a number, got '1_0'"), (["--alpha", "1_0e-2"], "--alpha: must be a number, got '1_0e-2'"), (["--bandwidth", "\uff11"], "--bandwidth: must"),
    (["--kernel", "linear", "--bandwidth", 1], "--bandwidth"), (["--kernel", "cosine"], "cosine"), (["--wrong"], "--wrong"), (["--head", "no"], "--head"),
    (["--columns", ""], "error: --columns is empty"), (["--columns", "f0\nf1"], "--columns"), (["--plot", "x.txt"], "--plot"), (["--plot", "none/x.png"], "--plot"), (["--plot", "."], "--plot"), (["c.csv"], "two files")])
def test_bad_options(run, ab, options, words):
    refused(run("test", "a.csv", "b.csv", *options), words)


@pytest.mark.parametrize("options, words", [(["--tol", 0], "error: --tol must"), (["--tol", "x"], "--tol: must be a number, got 'x'"), (["--tol", "1_0e-4"], "--tol: must be a number"), (["--p", "1_0"], "--p: must be a number"), (["--method", "magic"], "magic"), (["--max-iter", 0], "--max-iter: must be a whole number, from 1 to 1000000000, got '0'"), (["--max-iter", "1_0"], "--max-iter: must"), (["--max-iter", "9" * 5000], "--max-iter: must"), (["--max-iter", 2.5], "--max-iter: must"), (["--alpha", 0.1], "--alpha")])
def test_bad_options_of_distance(run, ab, options, words):
    refused(run("distance", "a.csv", "b.csv", *options), words)


def test_messages_speak_of_files_and_options(run, ab, monkeypatch):
    for name, words in (("x", "a.csv"), ("y", "b.csv"), ("column", "--by"), ("labels", "--labels"), ("columns", "--columns"), ("header", "--header"), ("raw", "--raw"), ("p", "--p"),
                        ("n_resamples", "--n-resamples"), ("alpha", "--alpha"), ("tol", "--tol"), ("max_iter", "--max-iter"), ("method", "--method"), ("rng", "--seed"), ("kernel", "the kernel")):
        def fail(*args, **kwargs): raise ValueError(f"`{name}` is wrong")
        monkeypatch.setattr(testing, "kms_test", fail)
        assert refused(run("test", "a.csv", "b.csv")) == f"kms: error: {words} is wrong\n"


def test_the_label_column_cannot_be_a_feature(run, tmp_path):
    pd.concat([normal(9, seed=i).assign(g=f"k{i}") for i in range(2)]).to_csv(tmp_path / "t.csv", index=False)
    refused(run("test", "t.csv", "--by", "g", "--columns", "f0,g"), "the label column 'g' cannot be a feature: leave it out of --columns")
    assert run("distance", "t.csv", "--by", "g", "--columns", "f0")[0] == 0


def test_file_names_that_look_like_options(run, tmp_path):
    for seed, name in enumerate(("-a", "b")): normal(9, seed=seed).to_csv(tmp_path / f"{name}.csv", index=False)
    refused(run("distance", "-a.csv", "b.csv"), "-a.csv looks like an option; write ./-a.csv")
    refused(run("distance", "b.csv", "./-a.csv", "--plot", "-p.png"), "./-p.png")
    assert run("distance", "./-a.csv", "b.csv")[0] == run("distance", "--", "-a.csv", "b.csv")[0] == 0


@pytest.mark.parametrize("plot", [[], ["--plot", "p.png", "--force"]])
def test_numbers_near_the_largest(run, tmp_path, plot):
    (tmp_path / "a.csv").write_text("u\n1e308\n-1e308\n5e307\n1e307\n")
    (tmp_path / "b.csv").write_text("u\n1.7e308\n0\n5e307\n2e307\n")
    for command in ("distance", "test"):
        for kernel in (["gaussian"], ["laplace"], ["gaussian", "--raw"], ["laplace", "--raw"], ["linear"]):
            status, out, err = run(command, "a.csv", "b.csv", "--kernel", *kernel, *plot)
            assert (status, err) == (0, "") and "nan" not in out and "inf" not in out
        refused(run(command, "a.csv", "b.csv", "--kernel", "linear", "--raw", *plot), "1.7e+308 (leave out --raw)")


def test_a_column_without_values(run, tmp_path):
    for name in "ab": (tmp_path / f"{name}.csv").write_text("u,v\n1,\n2,\n")
    refused(run("distance", "a.csv", "b.csv"), "a.csv has no values in column 'v'; leave it out by naming the others in --columns")
    assert run("distance", "a.csv", "b.csv", "--columns", "u")[0] == 0


def test_bad_commands(run):
    refused(run(), "kms demo")
    refused(run("compare", "a.csv"), "compare")
    refused(run("test"), "FILE")


def test_errors_of_the_parser_are_one_printable_line(run, ab):
    for args in (["test", "a.csv", "b.csv", "--\x1b[31mred"], ["\x1b[2J\nx"], ["distance", "a.csv", "b.csv", "--kernel", "\x07\n\n\udcff"], ["test", "a.csv", "b.csv", "--columns", '"\x1b'], ["distance", "-\x1b.csv"]):
        err = refused(run(*args))
        assert err[:-1].isprintable() and ("\\x1b" in err or "\\x07" in err or "\\\\x07" in err)


def test_the_picture_of_the_demo_is_named_in_printable_letters(run, tmp_path):
    out = run("demo", "--n-resamples", 9, "--plot", "p\x1b.png")[1]
    assert out.endswith("witness: p\\x1b.png\n") and (tmp_path / "p\x1b.png").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="needs file names that are bytes")
@pytest.mark.parametrize("end", ["png", "pdf", "svg"])
def test_file_names_that_cannot_be_drawn(run, ab, tmp_path, end):
    for name in (b"\xff.csv", b"\x1b[1m.csv"):
        other = os.fsdecode(name)
        os.rename(tmp_path / "a.csv", tmp_path / other)
        for command in ("test", "distance"):
            status, out, err = run(command, other, "b.csv", "--plot", f"t.{end}", "--force", *["--n-resamples", 9] * (command == "test"))
            assert (status, err) == (0, "") and out.isprintable() is False and all(c.isprintable() or c == "\n" for c in out)
            assert (tmp_path / f"t.{end}").stat().st_size > 1000
        os.rename(tmp_path / other, tmp_path / "a.csv")
    if end == "svg": assert all(ord(c) > 31 or c in "\n\t\r" for c in (tmp_path / "t.svg").read_text())


@pytest.mark.parametrize("value", [0, -1, "nan", "inf", "x", "1_0", ""])
def test_a_time_is_a_positive_number(run, ab, value):
    for command in ("test", "distance"): refused(run(command, "a.csv", "b.csv", "--max-seconds", value), f"--max-seconds: must be a {'' if value in ('x', '1_0', '') else 'positive '}number, got '{value}'")


def test_a_test_that_is_cut_short_says_so(run, ab, monkeypatch):
    def args(): return "test", "a.csv", "b.csv", "--n-resamples", 999, "--max-seconds", "1e-9"
    out = joined(run(*args())[1])
    assert "note Test: stopped after 99 of 999 relabellings: --max-seconds is over." in out and "99 relabellings; seed 0" in out
    assert "distance not computed, as the time of --max-seconds is over; see kms distance" in out and "The samples differ (p = 0.01 <" in out
    got = json.loads(run(*args(), "--json")[1])
    assert got["message"] == "stopped after 99 of 999 relabellings: --max-seconds is over" and got["n_resamples"] == 99 and got["distance"] is None and got["pvalue"] == 1 / 100
    out = joined(run(*args(), "--alpha", 0.001)[1])
    assert "raise --max-seconds to reject at 0.001" in out and "with 99" not in out


def test_time_enough_changes_nothing(run, ab):
    for command in (["test", "a.csv", "b.csv", "--n-resamples", 99], ["distance", "a.csv", "b.csv"]):
        one, other = json.loads(run(*command, "--json")[1]), json.loads(run(*command, "--max-seconds", 1000, "--json")[1])
        assert one == other and (command[0] == "distance" or one["message"] == "")
        assert run(*command)[1] == run(*command, "--max-seconds", 1000)[1]


def test_a_distance_that_is_cut_short_says_so(run, tmp_path):
    for seed, name in enumerate("ab"): normal(40, 5, seed=seed).to_csv(tmp_path / f"{name}.csv", index=False)
    for value, words in (("1e-9", "1e-09 seconds"), ("0.001", "0.001 seconds")):
        assert f"note Solver: stopped after {words}." in joined(run("distance", "a.csv", "b.csv", "--tol", "1e-9", "--max-seconds", value)[1])
        got = json.loads(run("distance", "a.csv", "b.csv", "--tol", "1e-9", "--max-seconds", value, "--json")[1])
        assert f"stopped after {words}" in got["message"] and not got["converged"] and got["lower"] <= got["upper"]


def test_what_the_test_leaves_of_the_time_is_for_the_distance(run, ab, monkeypatch):
    seen, bound = [], distance.kms_distance
    monkeypatch.setattr(distance, "kms_distance", lambda *args, **kwargs: seen.append(kwargs["max_seconds"]) or bound(*args, **kwargs))
    for options in (["--max-seconds", 100], []): run("test", "a.csv", "b.csv", "--n-resamples", 9, *options)
    assert 90 < seen[0] <= 100 and seen[1] is None


def test_help_and_version(run):
    assert run("--version") == (0, f"kms_nb {__version__}\n", "")
    for args in (["--help"], ["test", "--help"], ["distance", "-h"], ["demo", "-h"]):
        status, out, err = run(*args)
        assert status == 0 and "usage: kms" in out and err == ""
    assert "The p-value depends on random relabellings: fix the seed beforehand and do not try several." in joined(run("test", "--help")[1])
    assert cli._SOLVERS == distance.METHODS and cli._KERNELS == tuple(kernels.NAMES)


def test_help_explains_the_words_that_are_printed(run, ab):
    for command, words in (("test", ("panel", "strongest", "statistic", "distance")), ("distance", ("distance", "rank"))):
        out, shown = (run(command, *more)[1] for more in (["--help"], ["a.csv", "b.csv"]))
        meanings = out.partition("words in the output:")[2]
        for word in words: assert f"\n  {word} " in meanings and re.search(rf"\b{word}\b", shown)


def test_kernels_by_name(run, ab):
    for name in ("gaussian", "laplace", "linear"):
        got = json.loads(run("distance", "a.csv", "b.csv", "--kernel", name, "--json")[1])
        x, y = (pd.concat([pd.read_csv(f) for f in ("a.csv", "b.csv")]).pipe(lambda t: (t - t.mean()) / t.std(ddof=0)).to_numpy()[rows] for rows in (slice(20), slice(20, None)))
        assert got["kernel"].lower() == name and [got["lower"], got["upper"]] == pytest.approx([(r := distance.kms_distance(x, y, kernel=name)).lower, r.upper], rel=1e-6)


@pytest.mark.parametrize("columns, width", [(80, 80), (70, 70), (100, 100), (200, 100), (1, 80)])
def test_the_output_fits_the_terminal(run, ab, monkeypatch, capsys, columns, width):
    monkeypatch.setenv("COLUMNS", str(columns))
    for args in (["test", "a.csv", "b.csv", "--n-resamples", "9"], ["distance", "a.csv", "b.csv"], ["test", "--help"], ["distance", "--help"]):
        main(args)
        assert max(map(len, capsys.readouterr().out.splitlines())) <= width


def test_interrupt(run, ab, monkeypatch):
    def stop(*args, **kwargs): raise KeyboardInterrupt
    monkeypatch.setattr(testing, "kms_test", stop)
    assert run("test", "a.csv", "b.csv") == (130, "", "kms: interrupted\n")


def test_interrupt_of_a_fit_ends_the_test(run, ab, monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    def stop(*args, **kwargs):
        try: signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt: raise AssertionError("would be taken for a request of a partial result")
    monkeypatch.setattr(distance, "_solve", stop)
    for command in ("test", "demo"):
        assert run(command, *["a.csv", "b.csv"] * (command == "test")) == (130, "", "kms: interrupted\n")
    assert signal.getsignal(signal.SIGINT) is before


def test_interrupt_of_a_distance_reaches_the_solver(run, ab, monkeypatch):
    def stop(*args, **kwargs):
        with pytest.raises(KeyboardInterrupt): signal.raise_signal(signal.SIGINT)
        raise ValueError("it did")
    monkeypatch.setattr(distance, "kms_distance", stop)
    refused(run("distance", "a.csv", "b.csv"), "it did")


def test_interrupted_distance_still_gives_bounds(run, ab, monkeypatch):
    solve = distance._solve
    monkeypatch.setattr(distance, "_solve", lambda *args: replace(solve(*args), converged=False, message="interrupted"))
    status, out, err = run("distance", "a.csv", "b.csv", "--tol", 1e-9)
    assert status == 130 and "<= KMS_2 <=" in out and "interrupted" in out


def test_errors_of_the_system_are_one_line(run, ab, monkeypatch):
    def refuse(*args, **kwargs): raise PermissionError(13, "Permission denied\non two lines", "a.csv")
    monkeypatch.setattr("kms_nb.data._read_bytes", refuse)
    refused(run("test", "a.csv", "b.csv"), "Permission denied")


def test_the_program_imports_nothing_heavy_before_it_needs_it(root):
    code = """
import sys
from kms_nb.cli import main
assert main(["test", "--help"]) == 0 and main(["test", "--wrong"]) == main(["distance", "a", "--method", "magic"]) == 2
print([m for m in ("numpy", "scipy", "pandas", "matplotlib", "sklearn") if m in sys.modules])"""
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(root)}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.endswith("\n[]\n"), done.stderr


INTERRUPTED = ["numpy", "scipy", "scipy.linalg", "scipy.sparse", "pandas", "kms_nb.kernels", "kms_nb.distance", "clarabel", "matplotlib"]


@pytest.mark.parametrize("module", INTERRUPTED)
def test_interrupt_of_the_program_during_an_import(ab, tmp_path, root, module):
    "As the command line runs it: also where Python ignores an exception, as it does one that is raised in a callback."
    code = f"""
import signal, sys
from kms_nb.cli import main
class Careless:
    def __del__(self): signal.raise_signal(signal.SIGINT)
class Interrupt:
    def find_spec(self, name, *_):
        if name == {module!r}: sys.meta_path.remove(self); Careless()
sys.meta_path.insert(0, Interrupt())
sys.argv = ["kms", {"'test', 'a.csv', 'b.csv'" if module != "clarabel" else "'demo'"}, "--plot", "p.png"]
sys.exit(main())"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(root)}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "kms: interrupted\n") and ("samples  " in done.stdout if module == "matplotlib" else not done.stdout)         # the picture comes last


@pytest.mark.parametrize("module", [m for m in INTERRUPTED if m != "clarabel"])
def test_interrupt_during_an_import(run, ab, tmp_path, root, module):
    code = f"""
import signal, sys
from kms_nb.cli import main
class Interrupt:
    def find_spec(self, name, *_):
        if name == {module!r}: sys.meta_path.remove(self); signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.exit(main(["distance", "a.csv", "b.csv", "--plot", "p.png"]))"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(root)}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "kms: interrupted\n") and ("samples  " in done.stdout if module == "matplotlib" else not done.stdout)         # the picture comes last


def test_interrupt_that_a_module_turns_into_another_error(run, ab, monkeypatch):
    def stop(*args, **kwargs):
        try: signal.raise_signal(signal.SIGINT)
        except SystemExit: raise ImportError("bad install")
    monkeypatch.setattr("kms_nb.data.read_pair", stop)
    assert run("test", "a.csv", "b.csv") == (130, "", "kms: interrupted\n")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize("shell, status, err", [
    (">&-", 0, ""), (">&- 2>&-", 0, ""), ("2>&-", 0, None), ("| head -c 5 >/dev/null; exit ${PIPESTATUS[0]}", 0, ""),
    pytest.param(">/dev/full", 2, "standard output: No space left on device", marks=pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full"))])
@pytest.mark.parametrize("command", ["distance a.csv b.csv", "distance a.csv b.csv --json", "test --help"])
def test_closed_and_full_outputs(ab, tmp_path, root, shell, status, err, command):
    done = subprocess.run(["bash", "-c", f"{sys.executable} -m kms_nb.cli {command} {shell}"], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(root)},
                          capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr and done.returncode in ((0, 2) if "help" in command else (status,))
    if err is not None and "help" not in command: assert done.stderr.count("\n") == bool(err) and err in done.stderr


def test_errors_without_streams(ab, tmp_path, root):
    done = subprocess.run(["bash", "-c", f"{sys.executable} -m kms_nb.cli distance a.csv c.csv >&- 2>&-"], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(root)}, timeout=60)
    assert done.returncode == 2


def test_streams_that_are_none(ab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("stdout", "stderr"): monkeypatch.setattr(sys, name, None)
    assert main(["distance", "a.csv", "b.csv"]) == 0 and main(["distance", "a.csv", "c.csv"]) == 2


# --- pictures -------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("command", ["test", "distance"])
def test_picture(run, ab, tmp_path, command):
    args = [command, "a.csv", "b.csv", "--plot", "my picture.png"] + (["--n-resamples", 19] if command == "test" else [])
    status, out, err = run(*args)
    path = tmp_path / "my picture.png"
    assert (status, err) == (0, "") and path.read_bytes()[:8] == PNG
    path.write_bytes(b"mine")
    refused(run(*args), "exists already", "--force")
    assert path.read_bytes() == b"mine"
    assert run(*args, "--force")[0] == 0 and path.read_bytes()[:8] == PNG
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "b.csv", "my picture.png"]


@pytest.mark.parametrize("command, done, json", [("test", "The samples differ", []), ("test", "{", ["--json"]), ("distance", "KMS_2", []), ("distance", "{", ["--json"]), ("demo", "The samples differ", [])])
def test_a_result_outlives_its_picture(run, ab, tmp_path, monkeypatch, command, done, json):
    "Whatever happens to the file between the first check and the last step: the result is printed, and what was there stays."
    from matplotlib.figure import Figure
    folder, save = tmp_path / "pictures", Figure.savefig
    args = [command, *["a.csv", "b.csv"] * (command != "demo"), "--plot", "pictures/p.png", *json, *["--n-resamples", 19] * (command != "distance")]
    def meanwhile(happens):
        def draw(*a, **kw): save(*a, **kw); happens()
        monkeypatch.setattr(Figure, "savefig", draw)
    folder.mkdir()
    meanwhile(lambda: (folder / "p.png").write_bytes(b"precious"))
    status, out, err = run(*args)
    assert status == 2 and done in out and "exists already" in err and err.count("\n") == 1 and (folder / "p.png").read_bytes() == b"precious"
    overwrite, calls = cli._overwrite, []
    def full(file, data):
        calls.append(1)
        if len(calls) > 1: return overwrite(file, data)
        file.seek(0); file.write(data[:5])
        raise OSError(28, "No space left on device")
    meanwhile(lambda: None); monkeypatch.setattr(cli, "_overwrite", full)
    status, out, err = run(*args, "--force")
    assert status == 2 and done in out and "--plot: " in err and "No space left" in err and (folder / "p.png").read_bytes() == b"precious"
    assert [p.name for p in folder.iterdir()] == ["p.png"]
    calls.clear(); (folder / "p.png").unlink()
    assert run(*args)[0] == 2 and not list(folder.iterdir())
    meanwhile(lambda: shutil.rmtree(folder))
    status, out, err = run(*args, "--force")
    assert status == 2 and done in out and "was not saved: No such file" in err


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_pictures_of_an_output_that_is_not_read(ab, tmp_path, root):
    "`| head` may close the pipe before the picture is drawn. A link is followed, and a limit of the size of files leaves the old picture."
    (tmp_path / "link.png").symlink_to("real.png")
    kms, env = f"{sys.executable} -m kms_nb.cli distance a.csv b.csv", os.environ | {"PYTHONPATH": str(root)}
    subprocess.run(["bash", "-c", f"{kms} --plot link.png | head -c 5"], cwd=tmp_path, env=env, capture_output=True, timeout=60)
    before = (tmp_path / "real.png").read_bytes(); assert before[:8] == PNG and (tmp_path / "link.png").is_symlink()
    done = subprocess.run(["bash", "-c", f"ulimit -f 8; {kms} --plot link.png --force"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "KMS_2" in done.stdout and "was not saved: File too large" in done.stderr and (tmp_path / "real.png").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "b.csv", "link.png", "real.png"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")
def test_a_picture_that_is_replaced_keeps_its_place(run, ab, tmp_path):
    path, args = tmp_path / "old.png", ["distance", "a.csv", "b.csv", "--force", "--plot"]
    path.write_bytes(b"x" * 10**6); path.chmod(0o600); os.link(path, tmp_path / "other.png")
    assert run(*args, "old.png")[0] == 0 and path.stat().st_mode & 0o777 == 0o600
    data = path.read_bytes(); assert data[:8] == PNG and len(data) < 10**6 and (tmp_path / "other.png").read_bytes() == data
    assert run(*args, "q" * 246 + ".png")[0] == 0
    os.mkfifo(tmp_path / "pipe.png"); refused(run(*args, "pipe.png"), "not a file")
    (tmp_path / "loop.png").symlink_to("loop.png")
    for extra in ([], ["--force"]):
        status, out, err = run(*args[:3], *extra, "--plot", "loop.png")
        assert status == 2 and err.count("\n") == 1


def test_a_picture_that_is_locked_is_not_replaced(run, ab, tmp_path, monkeypatch):
    (tmp_path / "old.png").write_bytes(b"mine")
    writable = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: "old.png" not in str(path) and writable(path, mode))       # root may write everywhere
    refused(run("distance", "a.csv", "b.csv", "--force", "--plot", "old.png"), "cannot be written")
    assert (tmp_path / "old.png").read_bytes() == b"mine"


@pytest.mark.parametrize("plot, words", [("none/x.png", "existing folder"), ("x.txt", ".png, .pdf or .svg"), ("x", ".png, .pdf or .svg"), ("folder.png", "existing folder"), ("", "--plot"),
                                         ("old.png", "exists already"), ("locked/x.png", "writable")])
@pytest.mark.parametrize("command", ["test", "distance", "demo"])
def test_the_picture_is_checked_before_anything_is_read(run, ab, tmp_path, monkeypatch, plot, words, command):
    (tmp_path / "folder.png").mkdir(); (tmp_path / "locked").mkdir(); (tmp_path / "old.png").touch()
    writable = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: "locked" not in str(path) and writable(path, mode))       # root may write everywhere
    monkeypatch.setattr("kms_nb.data.read_pair", None); monkeypatch.setattr("kms_nb.data.iris", None)
    refused(run(command, *["a.csv", "b.csv"] * (command != "demo"), "--plot", plot), words)


def test_demo_in_a_folder_that_is_not_writable(run, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr("kms_nb.data.iris", None)
    refused(run("demo"), "kms_demo.png", "writable")


def test_no_picture_when_the_input_is_bad(run, ab, tmp_path):
    refused(run("test", "a.csv", "none.csv", "--plot", "t.png"))
    assert not (tmp_path / "t.png").exists()


def test_demo(run, tmp_path):
    status, out, err = run("demo", "--n-resamples", 99)
    assert (status, err) == (0, "") and len(out.splitlines()) <= 24
    for words in ("versicolor (50 rows), virginica (50 rows); 4 features", "<= KMS_2 <=", "The samples differ (p = 0.01 < 0.05).", "sepal length", "petal width", "in cm", "kms_demo.png"):
        assert words in out
    assert (tmp_path / "kms_demo.png").read_bytes()[:8] == PNG
    (tmp_path / "kms_demo.png").write_bytes(b"mine")
    assert "kms_demo-1.png" in run("demo", "--n-resamples", 9)[1] and (tmp_path / "kms_demo.png").read_bytes() == b"mine"
    refused(run("demo", "--plot", "kms_demo.png"), "exists already")
    assert run("demo", "--n-resamples", 9, "--force", "--seed", 3)[0] == 0 and (tmp_path / "kms_demo.png").read_bytes()[:8] == PNG
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kms_demo-1.png", "kms_demo.png"]


def test_nothing_else_is_printed(run, ab, monkeypatch):
    monkeypatch.setattr(builtins, "input", None)
    with np.errstate(all="raise"):
        assert run("test", "a.csv", "b.csv", "--n-resamples", 19)[2] == ""
