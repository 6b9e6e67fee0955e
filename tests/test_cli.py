"""The program `kms`, called in-process: what it prints, writes and refuses."""
import builtins
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from kms_nb import __version__
from kms_nb import cli
from kms_nb.cli import main

PNG = b"\x89PNG\r\n\x1a\n"


def normal(n, d=2, shift=0.0, seed=0):
    return pd.DataFrame(np.random.default_rng(seed).normal(shift, 1, (n, d)), columns=[f"f{i}" for i in range(d)])


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    "Run `kms ARGS` in an empty folder; give back status, output and error output."
    monkeypatch.chdir(tmp_path)
    def call(*args):
        status = main([str(a) for a in args])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return status, out, err
    return call


@pytest.fixture
def ab(tmp_path):
    "Files a.csv and b.csv that differ clearly."
    normal(20).to_csv(tmp_path / "a.csv", index=False)
    normal(15, shift=2, seed=1).to_csv(tmp_path / "b.csv", index=False)


def refused(result, *words):
    status, out, err = result
    assert status == 2 and out == "" and err.startswith("kms: error: ") and err.count("\n") == 1 and err.endswith("\n")
    for word in words: assert word in err, err
    return err


# --- what works -----------------------------------------------------------------------------------------------------------

def test_test(run, ab):
    status, out, err = run("test", "a.csv", "b.csv", "--n-resamples", 99)
    assert (status, err) == (0, "") and len(out.splitlines()) <= 20 and max(map(len, out.splitlines())) <= 110
    for words in ("a.csv (20 rows), b.csv (15 rows); 2 features", "standardised", "Gaussian, bandwidth", "<= KMS_2 <=", "seed 0", "threshold",
                  "The samples differ (p = 0.02 < 0.05)."):
        assert words in out
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
    assert "1 iteration," in run("distance", "a.csv", "b.csv", "--max-iter", 1)[1]
    assert "Linear" in run("distance", "a.csv", "b.csv", "--kernel", "linear")[1]


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


def test_by_with_three_labels(run, tmp_path):
    pd.concat([normal(9, seed=i).assign(g=f"k{i}") for i in range(3)]).to_csv(tmp_path / "t.csv", index=False)
    refused(run("test", "t.csv", "--by", "g"), "got 3: k0, k1, k2", "`labels`")
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
    refused(run("distance", "a.csv", "b.csv", "--raw"), "`raw`", "'site'")
    refused(run("distance", "a.csv", "b.csv", "--columns", "f0,q"), "'q'", "'f0', 'f1', 'site', 'id'")


def test_text_columns(run, tmp_path):
    (tmp_path / "a.csv").write_text("colour,size\n" + "red,1\n" * 9 + "blue,2\n")
    (tmp_path / "b.csv").write_text("colour,size\n" + "blue,1\n" * 9 + "green,2\n")
    status, out, _ = run("test", "a.csv", "b.csv", "--n-resamples", 99)
    assert status == 0 and "'colour' (3)" in out and "4 features" in out and "samples differ" in out


def test_header(run, tmp_path):
    for name in "ab": (tmp_path / f"{name}.csv").write_text("2019,2020\n1,2\n3,5\n5,1\n")
    assert "(4 rows)" in run("distance", "a.csv", "b.csv")[1]
    assert "(3 rows)" in run("distance", "a.csv", "b.csv", "--header", "yes")[1]
    (tmp_path / "iris.csv").write_text("".join(f"{i},{i % 3 + 0.5},{'new' if i % 2 else 'old'}\n" for i in range(9)))
    refused(run("test", "iris.csv", "--by", "2"), "read as column names", "--header")
    assert "2=new (4 rows), 2=old (5 rows)" in run("test", "iris.csv", "--by", "2", "--header", "no", "--n-resamples", 19)[1]


# --- degenerate samples ---------------------------------------------------------------------------------------------------

def test_x_equal_to_y(run, ab):
    got = json.loads(run("distance", "a.csv", "a.csv", "--json")[1])
    assert got["lower"] == 0 and 0 <= got["upper"] < 0.05
    got = json.loads(run("test", "a.csv", "a.csv", "--json", "--n-resamples", 19)[1])
    assert got["pvalue"] > 0.05 and not got["reject"]


def test_one_row(run, tmp_path):
    (tmp_path / "a.csv").write_text("u,v\n1,2\n")
    (tmp_path / "b.csv").write_text("u,v\n2,4\n")
    assert "a.csv (1 row), b.csv (1 row)" in run("distance", "a.csv", "b.csv")[1]
    refused(run("test", "a.csv", "b.csv", "--n-resamples", 19), "row")


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


def test_large_samples_skip_the_distance(run, ab, monkeypatch):
    monkeypatch.setattr(cli, "_MOST_ROWS", 30)
    assert "not computed for more than 30 rows" in run("test", "a.csv", "b.csv", "--n-resamples", 19)[1]
    assert json.loads(run("test", "a.csv", "b.csv", "--n-resamples", 19, "--json")[1])["distance"] is None


# --- bad input ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("text, words", [
    (None, "no such file"), ("", "is empty"), ("f0,f1\n", "no rows"), (b"\x89PNG\x00\x01", "binary"), ("f0,f1\n1,2\n3,\n5,6\n", "missing values: 1 in column 'f1' (first in row 2)"),
    ("f0,f1\n1,inf\n2,3\n", "infinite values"), ("f0,f1\n1,2\n3\n", "line 3 has 1 field"), ("f0,f2\n1,2\n", "only a.csv has 'f1' and only bad.csv has 'f2'"),
    ("f0,f1\n1,x\n2,y\n", "'f1' holds numbers in a.csv and text in bad.csv"), ("f0,f1\n1,2\n2,?\n", "mixes numbers and text, such as '?'")])
@pytest.mark.parametrize("command", ["test", "distance"])
def test_bad_files(run, ab, tmp_path, text, words, command):
    if text is not None: (tmp_path / "bad.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(run(command, "a.csv", "bad.csv"), words, "bad.csv")


def test_missing_value_in_a_split_table_gives_the_row_of_the_file(run, tmp_path):
    (tmp_path / "t.csv").write_text("v,g\n1,a\n2,b\n3,a\n,b\n")
    refused(run("test", "t.csv", "--by", "g"), "g=b has missing values: 1 in column 'v' (first in row 4)")


@pytest.mark.parametrize("options, words", [
    (["--alpha", 1.5], "`alpha`"), (["--alpha", 0], "`alpha`"), (["--alpha", "nan"], "`alpha`"), (["--alpha", "5%"], "--alpha"), (["--seed", -1], "--seed"), (["--seed", "x"], "--seed"),
    (["--n-resamples", 0], "`n_resamples`"), (["--n-resamples", 2.5], "--n-resamples"), (["--bandwidth", 0], "`bandwidth`"), (["--bandwidth", "inf"], "`bandwidth`"),
    (["--kernel", "linear", "--bandwidth", 1], "--bandwidth"), (["--kernel", "cosine"], "cosine"), (["--wrong"], "--wrong"), (["--head", "no"], "--head"),
    (["--columns", ""], "`columns` is empty"), (["--plot", "x.txt"], "--plot"), (["--plot", "none/x.png"], "--plot"), (["--plot", "."], "--plot"), (["c.csv"], "two files")])
def test_bad_options(run, ab, options, words):
    refused(run("test", "a.csv", "b.csv", *options), words)


@pytest.mark.parametrize("options, words", [(["--tol", 0], "`tol`"), (["--tol", "x"], "--tol"), (["--method", "magic"], "magic"), (["--max-iter", 0], "`max_iter`"), (["--alpha", 0.1], "--alpha")])
def test_bad_options_of_distance(run, ab, options, words):
    refused(run("distance", "a.csv", "b.csv", *options), words)


def test_bad_commands(run):
    refused(run(), "kms demo")
    refused(run("compare", "a.csv"), "compare")
    refused(run("test"), "FILE")


def test_help_and_version(run):
    assert run("--version") == (0, f"kms_nb {__version__}\n", "")
    for args in (["--help"], ["test", "--help"], ["distance", "-h"], ["demo", "-h"]):
        status, out, err = run(*args)
        assert status == 0 and "usage: kms" in out and err == ""


def test_interrupt(run, ab, monkeypatch):
    def stop(*args, **kwargs): raise KeyboardInterrupt
    monkeypatch.setattr(cli, "kms_test", stop)
    assert run("test", "a.csv", "b.csv") == (130, "", "kms: interrupted\n")


def test_interrupt_of_a_fit_ends_the_test(run, ab, monkeypatch):
    import signal
    import kms_nb.distance as distance
    before = signal.getsignal(signal.SIGINT)
    def stop(*args, **kwargs):
        try: signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt: raise AssertionError("would be taken for a request of a partial result")
    monkeypatch.setattr(distance, "_solve", stop)
    for command in ("test", "demo"):
        assert run(command, *["a.csv", "b.csv"] * (command == "test")) == (130, "", "kms: interrupted\n")
    assert signal.getsignal(signal.SIGINT) is before


def test_interrupted_distance_still_gives_bounds(run, ab, monkeypatch):
    import kms_nb.distance as distance
    solve = distance._solve
    monkeypatch.setattr(distance, "_solve", lambda *args: replace(solve(*args), converged=False, message="interrupted"))
    status, out, err = run("distance", "a.csv", "b.csv", "--tol", 1e-9)
    assert status == 130 and "<= KMS_2 <=" in out and "interrupted" in out


def test_errors_of_the_system_are_one_line(run, ab, monkeypatch):
    def refuse(*args, **kwargs): raise PermissionError(13, "Permission denied\non two lines", "a.csv")
    monkeypatch.setattr(cli, "read_table", refuse)
    refused(run("test", "a.csv", "b.csv"), "Permission denied")


# --- pictures -------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("command", ["test", "distance"])
def test_picture(run, ab, tmp_path, command):
    args = [command, "a.csv", "b.csv", "--plot", "my picture.png"] + (["--n-resamples", 19] if command == "test" else [])
    status, out, err = run(*args)
    path = tmp_path / "my picture.png"
    assert (status, err) == (0, "") and "my picture.png" in out and path.read_bytes()[:8] == PNG
    path.write_bytes(b"mine")
    refused(run(*args), "exists already", "--force")
    assert path.read_bytes() == b"mine"
    assert run(*args, "--force")[0] == 0 and path.read_bytes()[:8] == PNG
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "b.csv", "my picture.png"]


def test_no_picture_when_the_input_is_bad(run, ab, tmp_path):
    refused(run("test", "a.csv", "none.csv", "--plot", "t.png"))
    assert not (tmp_path / "t.png").exists()


def test_demo(run, tmp_path):
    status, out, err = run("demo", "--n-resamples", 99)
    assert (status, err) == (0, "") and len(out.splitlines()) <= 22
    for words in ("versicolor (50 rows), virginica (50 rows); 4 features", "<= KMS_2 <=", "The samples differ (p = 0.01 < 0.05).", "sepal length (cm)", "kms_demo.png"):
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
