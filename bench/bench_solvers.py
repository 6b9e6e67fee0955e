"""Time solvers of the relaxation against each other, in one run, and check every result of the package's own.

    python bench/bench_solvers.py                  everything that needs no data (about a quarter of an hour)
    python bench/bench_solvers.py --data FOLDER    also MNIST 6 against 8 and credit, from mnist_68.npz and credit.npz (arrays X and y) in FOLDER
    python bench/bench_solvers.py --quick          one small instance, to see that it works

The table shows, per instance and solver, the seconds to a certified relative gap of 1e-2, 1e-3 and 1e-4, (upper - value) / upper in squared
distances, with the ratio to the bundle method in brackets. `>20` means not within 20 seconds. Algorithm 1, far from every target, gets half of the
limit, or 25 times what the bundle method took to 1e-2 if that is more. Kernel: exp(-|x - y|^2 / s^2) with s the median distance. Its features are
made before the clock starts. One BLAS thread. A run shorter than a second is repeated twice, and the median counts. Each solver runs in a process
of its own, whose peak memory, Python and packages included, stands beside the times.

Every result of the bundle method is checked outside of it: marginals of the coupling, dense eigenvalues of its moment, an independent transport
solver. The intervals of all solvers must overlap. The command ends with status 1 if a check fails.

Rows go to a CSV file as they come (`--out`), and what stands there is not measured again if it was measured on a machine with the same description,
and either reached its target or had a limit as long. `--fresh` measures everything again: use it after a change of a solver.
"""
import argparse
import datetime
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from rows import read_rows, write_rows

# Only the standard library here: Linux counts the parent's memory in the peak of a child that it starts.

HERE = Path(__file__).resolve().parent
COLUMNS = ("instance n features seed solver target seconds reached gap value upper iterations promised mb_before mb_peak check limit load date "
           "machine").split()
KEY = ("instance", "n", "seed", "solver")
TARGETS = [1e-2, 1e-3, 1e-4]
WHOLE = {"kms_distance": "local", "kms_distance exact": "bundle"}  # what is timed with its features, and its method
SOLVERS = ["bundle", "supergradient", "mirror ascent", "Algorithm 1", "cvxpy SCS", "cvxpy Clarabel"]
CVXPY_ROWS = 30  # beyond, its program takes minutes and gigabytes


# ---------------------------------------------------------------- what to measure


def instances(args):
    "Pairs (name, n) of the instances."
    if args.quick:
        return [("blob 2 H1", 15)]
    blobs = [(f"blob {d} {h}", n) for n in args.sizes for d in (2, 20) for h in ("H0", "H1") if n > CVXPY_ROWS or h == "H1"]  # one is enough for cvxpy
    return blobs + [("Iris", 50), ("MNIST 6/8", 200), ("credit", 400)]


def tasks(args):
    "All measurements: dicts that `worker.py` understands."
    out, common = [], dict(targets=TARGETS, data=args.data)
    for seed in range(args.seeds):
        for instance, n in instances(args):
            if instance == "Iris" and seed:
                continue  # nothing random in it
            for solver in args.solvers:
                if solver.startswith("cvxpy") and n > CVXPY_ROWS:
                    continue
                limit = args.cvxpy_limit if solver.startswith("cvxpy") else args.limit
                out.append(common | dict(instance=instance, n=n, seed=seed, solver=solver, limit=limit))
    sizes = [500] if args.quick else [10**3, 10**4, 10**5] + [10**6] * args.large
    if not args.no_growth:
        whole = common | dict(seed=0, limit=600, targets=[1e-3])
        exact = [("blob 20 H1", 100)] if args.quick else [("blob 20 H1", 1000), ("blob 20 H0", 1000), ("blob 20 H1", 2000)]
        exact += [("blob 20 H0", 2000), ("blob 20 H1", 5000)] * args.large
        out += [whole | dict(instance=name, n=n, solver="kms_distance exact", features=None) for name, n in exact]
        out += [whole | dict(instance="blob 20 H1", n=n, solver="kms_distance", features=300) for n in sizes]
    return out


def patience(limit, base):
    "The limit of Algorithm 1: half of the usual one, or 25 times the seconds of the bundle method to the first target if that is more."
    return max(limit / 2, *(round(25 * float(row["seconds"]), 1) for row in base or [] if float(row["target"]) == TARGETS[0]), 0)


def machine():
    "A description of the machine and of what decides the speed."
    model = platform.machine()
    if Path("/proc/cpuinfo").exists():
        found = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        model = found[0] if found else model
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "POT", "clarabel"))
    return f"{os.cpu_count()} cores ({model}), Python {platform.python_version()}, {packages}, 1 BLAS thread"


def load():
    "Mean number of processes that wanted to run in the last minute."
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


# ---------------------------------------------------------------- the file


def key(row):
    return tuple(str(row[k]) for k in KEY)


class Store:
    "The rows of the CSV file, by measurement."

    def __init__(self, path):
        self.path, self.rows = path, {}
        for row in read_rows(path):
            self.rows.setdefault(key(row), []).append(row)

    def has(self, task, here):
        "Whether a measurement need not be made again."
        rows = self.rows.get(key(task), [])
        done = {float(row["target"]) for row in rows if row["reached"] == "yes" or float(row["limit"]) >= task["limit"]}
        return done >= set(task["targets"]) and all(row["machine"] == here for row in rows)

    def put(self, task, rows):
        "Replace the rows of a measurement, and the file in one step."
        self.rows[key(task)] = rows
        write_rows(self.path, COLUMNS, (row for name in sorted(self.rows, key=order) for row in self.rows[name]))


def order(name):
    "Rows of one instance together, solvers in the order of the table."
    instance, n, seed, solver = name
    return (solver in WHOLE, instance, int(n), int(seed), [*SOLVERS, *WHOLE].index(solver))


# ---------------------------------------------------------------- measuring


def measure(task, here):
    "Run the worker: rows for the file, or a sentence that says why there are none, and whether that is a failure."
    env = os.environ | {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "NUMEXPR")}
    env["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])  # this tree, installed or not
    busy = load()
    too_long = 4 * len(task["targets"]) * task["limit"] + 120
    try:
        done = subprocess.run([sys.executable, str(HERE / "worker.py"), json.dumps(task)], env=env, text=True, capture_output=True, timeout=too_long,
                              start_new_session=True)  # so that Ctrl-C reaches this process only, which then ends the other
    except subprocess.TimeoutExpired:
        return [], f"no answer in {too_long:.0f} s", True
    if done.returncode:
        return [], (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1], True
    answer = json.loads(done.stdout.splitlines()[-1])
    if "unavailable" in answer:
        return [], f"not available: {answer['unavailable']}", False
    common = {k: task[k] for k in (*KEY, "limit")} | {k: answer[k] for k in ("features", "mb_before", "mb_peak", "check")}
    common |= dict(load=round(busy, 2), date=datetime.date.today().isoformat(), machine=here)
    return [{k: written(k, v) for k, v in (common | row).items()} for row in answer["rows"]], "", False


def written(name, value):
    "A value as the file has it: bounds to twelve digits, other numbers to four."
    return str(value) if not isinstance(value, float) else f"{value:.12g}" if name in ("value", "upper") else f"{value:.4g}"


# ---------------------------------------------------------------- showing


def short(x):
    return f"{x:.0f}" if x >= 10 else f"{x:.2g}"


def cell(row, base):
    "Seconds to a target, or the limit that was not enough, with the ratio to the bundle method."
    more, seconds = "" if row["reached"] == "yes" else ">", float(row["seconds"])
    compared = base and base is not row and base["reached"] == "yes"
    return f"{more}{short(seconds)}" + (f" ({more}{short(seconds / float(base['seconds']))}x)" if compared else "")


def line(rows, base):
    "One line of the table."
    if rows[0]["solver"] in WHOLE:
        row = rows[0]
        lower, upper = float(row["value"]) ** 0.5, float(row["upper"]) ** 0.5
        return (f"  {row['instance']}, n = {int(row['n']):<9,} {float(row['seconds']):8.2f} s {float(row['mb_peak']):8.0f} MB   gap of the solver {float(row['gap']):.1e}, "
                f"exact kernel [{lower:.4f}, {upper:.4f}]   {row['check']}")
    by_target = {float(row["target"]): row for row in base or []}
    cells = [cell(row, by_target.get(float(row["target"]))) for row in rows]
    gap = f"{float(rows[-1]['gap']):.1e}" if rows[-1]["gap"] else "none"
    return f"  {rows[0]['solver']:<15}" + "".join(f"{c:>18}" for c in cells) + f"{gap:>10}{float(rows[0]['mb_peak']):8.0f}   {rows[0]['check']}".rstrip()


def title(task, rows):
    if task["solver"] in WHOLE:
        return "\nkms_distance, " + (f"sorting only, {task['features']} features" if task["features"] else "exact transport, all features") + " (time with features)"
    head = f"{task['instance']}, n = {task['n']}" + (f", seed {task['seed']}" if task["seed"] else "") + (f", {rows[0]['features']} features" if rows else "")
    return f"\n{head}\n  {'solver':<15}" + "".join(f"{f's to {t:g}':>18}" for t in task["targets"]) + f"{'last gap':>10}{'MB':>8}   check"


def overlaps(store):
    "Sentences on instances where the certified intervals of two solvers, measured on the same machine, do not overlap."
    wrong, groups = [], {}
    for row in (row for rows in store.rows.values() for row in rows if row["value"] and row["solver"] not in WHOLE):
        groups.setdefault((row["instance"], row["n"], row["seed"], row["machine"]), []).append(row)
    for (instance, n, seed, _), rows in groups.items():
        low, high = max(rows, key=lambda r: float(r["value"])), min(rows, key=lambda r: float(r["upper"]))
        if float(low["value"]) > float(high["upper"]) * (1 + 1e-10):  # the file has twelve digits
            wrong.append(f"{instance}, n = {n}, seed {seed}: {low['solver']} attains {low['value']}, above the bound {high['upper']} of {high['solver']}")
    return wrong


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[30, 50, 200, 500], help="rows per sample of the mixtures; up to 30 also for cvxpy")
    parser.add_argument("--solvers", nargs="+", default=SOLVERS, choices=SOLVERS, metavar="NAME", help=f"some of: {', '.join(SOLVERS)}")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds, from 0")
    parser.add_argument("--limit", type=float, help="seconds that a solver may take (default 20)")
    parser.add_argument("--cvxpy-limit", type=float, help="the same for cvxpy (default 120)")
    parser.add_argument("--data", help="folder with mnist_68.npz and credit.npz")
    parser.add_argument("--out", type=Path, help="the CSV file (default bench/results.csv; with --quick a temporary one)")
    parser.add_argument("--fresh", action="store_true", help="measure again what the file has")
    parser.add_argument("--large", action="store_true", help="growth up to a million rows per sample, and exact transport up to 5000 (6 GB, half an hour)")
    parser.add_argument("--no-growth", action="store_true", help="leave out the growth of kms_distance")
    parser.add_argument("--quick", action="store_true", help="one small instance, short limits")
    args = parser.parse_args(argv)
    args.limit = args.limit or (1 if args.quick else 20)
    args.cvxpy_limit = args.cvxpy_limit or (10 if args.quick else 120)
    args.out = args.out or (Path(tempfile.mkdtemp()) if args.quick else HERE) / "results.csv"
    args.data = str(Path(args.data).resolve()) if args.data else None
    return args


def run(args):
    "Measure what is missing and print everything; the sentences on what failed."
    here, store, failed, heading, kept, absent = machine(), Store(args.out), [], None, 0, set()
    print(f"{here}, load {load():.1f}")
    for task in tasks(args):
        group, instance = key(task)[:3], (task["instance"], task["n"])
        if task["solver"] == "Algorithm 1":
            task["limit"] = patience(args.limit, store.rows.get((*group, "bundle")))
        rows, message, failure = store.rows.get(key(task), []), "", False
        if instance in absent:
            continue
        if not args.fresh and store.has(task, here):
            kept += 1
        else:
            rows, message, failure = measure(task, here)
            store.put(task, rows) if rows else None
        if (head := task["solver"] if task["solver"] in WHOLE else group) != heading:
            print(title(task, rows))
            heading = head
        if rows:
            print(line(rows, store.rows.get((*group, "bundle"))), flush=True)
        elif failure:
            print(f"  {task['solver']:<15}   {message}", flush=True)
            failed.append(f"{task['solver']} on {task['instance']}, n = {task['n']}: {message}")
        else:
            absent.add(instance)
            print(f"  {message}", flush=True)
        failed += [f"{task['solver']} on {task['instance']}, n = {task['n']}: {c}" for c in {row["check"] for row in rows} - {"", "ok"}]
    print(f"\n{sum(map(len, store.rows.values()))} rows in {args.out}" + (f"; {kept} measurements were there already (--fresh measures again)" if kept else ""))
    return failed + overlaps(store)


def main(argv=None):
    args = parse(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C: end the worker, keep the rows
    try:
        failed = run(args)
    except KeyboardInterrupt:
        print(f"\nstopped; {args.out} keeps what is done, and the same command goes on from there")
        sys.exit(130)
    for sentence in failed:
        print("FAILED:", sentence)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
