"The benchmark command: a small run of it, what it keeps, and that its checks notice faults."
import csv
import importlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kms_nb.bundle import bundle
from kms_nb.data import blob
from rows import read_rows

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, str(ROOT / "bench/bench_solvers.py")]


def run(*args):
    return subprocess.run([*COMMAND, *map(str, args)], text=True, capture_output=True, timeout=120)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    "A run of one small instance: the finished process and its file."
    path = tmp_path_factory.mktemp("bench") / "new folder" / "results.csv"
    return run("--quick", "--out", path), path


@pytest.fixture(scope="module")
def worker():
    return importlib.import_module("worker")


def test_quick_run(quick):
    done, path = quick
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    rows = read_rows(path)
    solvers = {row["solver"] for row in rows}
    assert solvers == {"bundle", "supergradient", "mirror ascent", "Algorithm 1", "cvxpy SCS", "cvxpy Clarabel", "kms_distance", "kms_distance exact"}
    assert all(name.split(" exact")[0] in done.stdout for name in solvers) and "exact transport" in done.stdout and "cores" in done.stdout
    ours = [row for row in rows if row["solver"] == "bundle"]
    assert [float(row["target"]) for row in ours] == [1e-2, 1e-3, 1e-4]
    for row in ours:
        assert row["check"] == "ok" and row["reached"] == "yes" and float(row["gap"]) <= float(row["target"]) and 0 < float(row["seconds"]) < 5
        assert float(row["mb_peak"]) > 20 and "numpy" in row["machine"] and str(ROOT) not in str(row)


def test_stored_rows_are_kept(quick):
    _, path = quick
    before, start = path.read_bytes(), time.perf_counter()
    again = run("--quick", "--out", path)
    assert again.returncode == 0 and "8 measurements were there already" in again.stdout and path.read_bytes() == before
    assert time.perf_counter() - start < 5


def test_rows_of_another_machine_are_not(quick, tmp_path):
    _, path = quick
    (other := tmp_path / "results.csv").write_text(path.read_text("utf-8").replace(" cores", "0 cores"), "utf-8")
    done = run("--quick", "--out", other, "--solvers", "mirror ascent", "--no-growth")
    assert done.returncode == 0 and "already" not in done.stdout
    assert {row["solver"] for row in read_rows(other) if row["machine"] == read_rows(path)[0]["machine"]} == {"mirror ascent"}


def test_a_failed_check_fails_the_command(quick, tmp_path):
    _, path = quick
    rows = path.read_text("utf-8").splitlines(keepends=True)
    (wrong := tmp_path / "results.csv").write_text("".join([*rows[:2], rows[2].replace(",ok,", ",marginals off,"), *rows[3:]]), "utf-8")
    done = run("--quick", "--out", wrong)
    assert done.returncode == 1 and "FAILED: bundle on blob 2 H1, n = 15: marginals off" in done.stdout


def test_intervals_that_do_not_overlap_fail_the_command(quick, tmp_path):
    _, path = quick
    rows = read_rows(path)
    next(row for row in rows if row["solver"] == "cvxpy SCS")["value"] = "1"
    with (wrong := tmp_path / "results.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    done = run("--quick", "--out", wrong)
    assert done.returncode == 1 and "cvxpy SCS attains 1, above the bound" in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_keeps_what_is_done(tmp_path, sent):
    path = tmp_path / "results.csv"
    process = subprocess.Popen([*COMMAND, "--sizes", "31", "--solvers", "bundle", "Algorithm 1", "--out", str(path)], text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    try:
        deadline = time.monotonic() + 60
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        process.send_signal(sent)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130 and "stopped" in out and err == ""
    assert [row["solver"] for row in read_rows(path)] == ["bundle"] * 3


def test_recheck_notices_faults(worker):
    problem = worker.make_problem(*blob(12, 2, rng=0))
    good = bundle(problem)
    assert worker.recheck(problem, good) == []
    top = np.linalg.eigvalsh(problem.moment(good.coupling))[-1]
    moved = good.coupling.tolil()
    moved[0, 0] += 1e-9
    for fault, words in ((dict(upper=top * (1 - 1e-9)), "above `upper`"), (dict(value=good.value * (1 + 1e-6)), "by POT"), (dict(factor=good.factor * 1.001), "trace"),
                         (dict(coupling=moved.tocsr()), "marginals"), (dict(upper=good.value * 0.99), "above `upper`")):
        assert any(words in sentence for sentence in worker.recheck(problem, replace(good, **fault))), fault


def test_peers_prove_what_they_say(worker):
    problem = worker.make_problem(*blob(10, 2, rng=0))
    reference = bundle(problem, tol=1e-6)
    for name, solver in worker.PEERS.items():
        trace = solver(problem, 0.3 if name == "Algorithm 1" else 10, 1e-2)
        assert trace and (name == "Algorithm 1" or min(p.gap for p in trace) <= 1e-2), name
        for point in trace:
            assert point.value <= reference.upper * (1 + 1e-9) and reference.value <= point.upper * (1 + 1e-9) and point.seconds > 0, name


def test_simplex_projection(worker):
    rng = np.random.default_rng(0)
    for _ in range(50):
        v = rng.normal(size=rng.integers(1, 8)) * 3
        p = worker.peers.simplex_projection(v)
        assert np.isclose(p.sum(), 1) and p.min() >= 0
        shift = (v - p)[p > 0]  # optimal: v - p is constant where p > 0, and not larger elsewhere
        assert np.ptp(shift) < 1e-12 and (v[p == 0] <= shift[0] + 1e-12).all()


def test_missing_data_are_named(worker, tmp_path):
    with pytest.raises(worker.Unavailable, match=r"credit needs a file in --data"):
        worker.samples("credit", 5, 0, None)
    with pytest.raises(worker.Unavailable, match=r"credit needs a file in --data"):
        worker.samples("credit", 5, 0, str(tmp_path))
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "credit.npz", X=rng.normal(size=(30, 4)), y=np.arange(30) % 2)
    x, y = worker.samples("credit", 5, 0, str(tmp_path))
    assert x.shape == y.shape == (5, 4) and np.allclose(np.linalg.norm(x, axis=1), 1)


def test_a_million_rows_stay_below_four_gigabytes():
    "What the stored measurements say of the largest sample."
    rows = [row for row in read_rows(ROOT / "bench/results.csv") if int(row["n"]) == 10**6]
    assert rows and all(row["solver"] == "kms_distance" and row["check"] == "ok" and 0 < float(row["mb_peak"]) < 4000 and 0 < float(row["value"]) <= float(row["upper"]) for row in rows)


def test_command_itself_is_small():
    "Its memory would be counted in the peaks of the processes that it starts."
    code = "import sys; sys.path.insert(0, 'bench'); import bench_solvers; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True).stdout.strip() == "False"


def test_an_interrupt_while_rows_are_written_leaves_the_old_file_alone(tmp_path):
    from rows import read_rows, write_rows

    write_rows(tmp_path / "r.csv", ["a"], [{"a": "1"}])
    def interrupted():
        yield {"a": "2"}
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt): write_rows(tmp_path / "r.csv", ["a"], interrupted())
    assert read_rows(tmp_path / "r.csv") == [{"a": "1"}] and [p.name for p in tmp_path.iterdir()] == ["r.csv"]


def test_rows_are_written_beside_files_of_any_name(tmp_path):
    from rows import read_rows, write_rows

    (tmp_path / "r.part").write_text("precious")
    for name in ("r.csv", "s.part", "t"):
        write_rows(tmp_path / name, ["a"], [{"a": "1"}])
        assert read_rows(tmp_path / name) == [{"a": "1"}]
    assert (tmp_path / "r.part").read_text() == "precious" and sorted(p.name for p in tmp_path.iterdir()) == ["r.csv", "r.part", "s.part", "t"]
