"The command behind the evidence pages: a small run, what it keeps, its data, and the stored results."
import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rows import read_rows

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, str(ROOT / "bench/experiments.py"), "--no-progress"]
STORED = ROOT / "bench/experiments"


def run(*args):
    return subprocess.run([*COMMAND, *map(str, args)], text=True, capture_output=True, timeout=900)


@pytest.fixture(scope="module")
def experiments():
    return importlib.import_module("experiments")


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    "A small run of every figure: the finished process and its folder."
    out = tmp_path_factory.mktemp("experiments") / "new"
    return run("--quick", "--out", out), out


def test_quick_run(quick, experiments):
    done, out = quick
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert {p.stem for p in out.glob("*.csv")} == set(experiments.FIGURES) - {"activity"}
    assert "needs human_activity.npz in --data FOLDER" in done.stdout
    rows = read_rows(out / "fig2.csv")
    assert {r["solver"] for r in rows} == set(experiments.SOLVERS)
    assert all(abs(float(r["norm"]) - 1) < 1e-3 and 0 < float(r["held_out"]) < 1.5 for r in rows)


def test_what_is_done_is_kept(quick):
    _, out = quick
    before = {p: p.read_bytes() for p in out.glob("*.csv")}
    again = run("--quick", "--out", out)
    assert again.returncode == 0 and before == {p: p.read_bytes() for p in out.glob("*.csv")}
    lines, old = (out / "fig6.csv").read_text("utf-8").splitlines(keepends=True), read_rows(out / "fig6.csv")[-1]
    (out / "fig6.csv").write_text("".join(lines[:-1]), "utf-8")
    assert run("fig6", "--quick", "--out", out).returncode == 0
    assert (out / "fig6.csv").read_text("utf-8").splitlines(keepends=True)[:-1] == lines[:-1]
    new = read_rows(out / "fig6.csv")[-1]
    assert all(new[k] == old[k] for k in ("seed", "h1", "D", "n"))
    assert float(new["lower"]) <= float(old["upper"]) * (1 + 1e-5) and float(old["lower"]) <= float(new["upper"]) * (1 + 1e-5)  # both are certified


def test_unknown_figure():
    done = run("fig5")
    assert done.returncode == 2 and "unknown figure fig5" in done.stderr


def test_solvers_agree(quick):
    "The relaxation's solvers and the local ones on the same training rows: none exceeds the certified value of the default by much."
    _, out = quick
    train = {}
    for r in read_rows(out / "fig2.csv"):
        train.setdefault((r["dataset"], r["n"], r["seed"]), {})[r["solver"]] = float(r["train"])
    for values in train.values():
        assert max(values.values()) <= values["kms_distance"] * 1.01 and values["Algorithm 1"] <= values["kms_distance"]


def test_certified_intervals(quick):
    _, out = quick
    for name in ("fig6", "fig7"):
        for r in read_rows(out / f"{name}.csv"):
            assert 0 < float(r["lower"]) <= float(r["relaxation"]) * (1 + 1e-5) and float(r["relaxation"]) <= float(r["upper"]) * (1 + 1e-5)
    for r in read_rows(out / "tables.csv"):
        assert int(r["reduced"]) <= int(r["bundle"]) <= int(r["features"]) and float(r["value_algorithm_1"]) <= float(r["upper"]) <= float(r["upper_algorithm_1"])


def test_kernel_of_the_paper(experiments):
    x, y = experiments.blob(20, 3, rng=0)
    z = np.vstack([x, y])
    D = np.linalg.norm(z[:, None] - z, axis=2)
    s = np.median(D[np.triu_indices(40, 1)])
    np.testing.assert_allclose(experiments.paper_kernel(x, y, 0.5)(z), np.exp(-D**2 / (0.5 * s**2)), rtol=1e-9)


def test_splits_do_not_share_rows(experiments):
    x, y, x_test, y_test = experiments.train_and_test("Iris", 32, 1, None)
    assert x.shape == y.shape == (32, 4) and len(x_test) == len(y_test) == 15
    np.testing.assert_allclose(np.linalg.norm(np.vstack([x, y, x_test, y_test]), axis=1), 1)
    flowers = [tuple(r) for r in experiments.classes("Iris", None)[0]]
    assert all(tuple(r) in flowers for r in x)
    again = experiments.train_and_test("Iris", 8, 1, None)
    np.testing.assert_array_equal(again[0], x[:8])
    np.testing.assert_array_equal(again[2], x_test)
    with pytest.raises(ValueError, match="fewer than 36"):
        experiments.train_and_test("Iris", 36, 0, None)


def test_data_from_a_folder(experiments, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "mnist.npz", X=rng.integers(0, 256, (40, 784)), y=np.repeat([6, 8], 20))
    np.savez(tmp_path / "credit.npz", X=rng.normal(size=(40, 3)), y=np.arange(40) % 2)
    x, _, _, _ = experiments.train_and_test("MNIST", 5, 0, tmp_path)
    assert x.shape == (5, 784) and 0.5 <= x.min() and x.max() <= 1 / (1 + np.exp(-1))
    x, _, x_test, _ = experiments.train_and_test("credit", 14, 0, tmp_path)
    assert not {tuple(r) for r in x} & {tuple(r) for r in x_test}
    frames = np.cumsum(rng.normal(size=(520, 60)), axis=0) * 0.01
    np.savez(tmp_path / "human_activity.npz", bending_1=frames[:500] % 1, throwing_1=5 + frames[:100])
    task = dict(seed=0, person=1, window=20, method="MMD")
    row = experiments.activity(task, SimpleNamespace(data=tmp_path))[0]
    assert row["delay"] <= row["delay_no_alarm"] <= 20  # a jump: noticed before the window has left the old frames
    with pytest.raises(ValueError, match="there is no file"):
        experiments.classes("credit", tmp_path / "nothing")


@pytest.mark.parametrize("name, columns", [("fig2", "dataset n seed solver seconds train held_out"), ("fig4", "seed h1 n method pvalue"), ("fig6", "h1 D n relaxation upper"),
                                           ("fig7", "kernel c h1 lower upper"), ("tables", "dataset n bundle reduced bound"), ("activity", "person method delay")])
def test_stored_results_are_complete(experiments, name, columns):
    "The files that the pages read: no gap, no double, and every unit one of the command's."
    rows = read_rows(STORED / f"{name}.csv")
    assert rows and all(r[c] for r in rows for c in columns.split())
    figure = experiments.FIGURES[name]
    keys = [tuple(r[k] for k in figure.keys) for r in rows]
    assert len(set(keys)) == len(keys)
    args = SimpleNamespace(quick=False, trials=None)
    assert set(keys) <= {tuple(experiments.written(t[k]) for k in figure.keys) for t in figure.tasks(args)}


def test_interrupt_between_units_keeps_what_is_done(experiments, tmp_path, monkeypatch, capsys):
    "Rows that are there stay, and the same command goes on from them."
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.default_int_handler)        # a job in the background ignores it
    interval, calls, command = experiments.interval, [], ["fig6", "--quick", "--no-progress", "--only", "n=5", "--out", str(tmp_path)]
    def interrupted(*args):
        calls.append(1)
        if len(calls) == 4: signal.raise_signal(signal.SIGINT)
        return interval(*args)
    monkeypatch.setattr(experiments, "interval", interrupted)
    assert experiments.main(command) == 130 and "stopped; what is done is kept" in capsys.readouterr().out
    before = (tmp_path / "fig6.csv").read_text("utf-8")
    assert len(read_rows(tmp_path / "fig6.csv")) == 3 and [p.name for p in tmp_path.iterdir()] == ["fig6.csv"]
    assert experiments.main(command) == 0 and len(calls) == 4 + 8 - 3
    assert (tmp_path / "fig6.csv").read_text("utf-8").startswith(before) and len(read_rows(tmp_path / "fig6.csv")) == 8


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_interrupt_inside_a_unit_keeps_what_is_done(tmp_path):
    "Rows that are there stay, whole, and the same command goes on from them."
    path, only = tmp_path / "fig6.csv", ["fig6", "--trials", "1", "--out", str(tmp_path)]
    process = subprocess.Popen([*COMMAND, *only], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), start_new_session=True)
    try:
        deadline = time.monotonic() + 100
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130 and "stopped; what is done is kept" in out and err == ""
    rows, before = read_rows(path), path.read_bytes()
    assert rows and all(float(r["lower"]) <= float(r["upper"]) for r in rows) and [p.name for p in tmp_path.iterdir()] == ["fig6.csv"]
    done = run(*only, "--only", *(f"{k}={rows[0][k]}" for k in ("seed", "h1", "D", "n")))
    assert done.returncode == 0 and "1 of 1 units of work" in done.stdout and path.read_bytes() == before
