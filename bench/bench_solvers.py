"""Time the methods of `kms_distance` against each other in one run.

    python bench/bench_solvers.py --sizes 20 50 100 --dims 2 20 --repeats 3

Each method runs on the same two Gaussian blobs in a process of its own, so that the peak memory is its own. The table shows the
median seconds, their ratio to the peer (`--peer`, the first method by default), the certified gap (upper^p - relaxation^p) / upper^p,
the bounds, and the memory that the call added at its peak. `cvxpy` runs up to `--cvxpy-max` points per sample.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

COLUMNS = "d n method seconds ratio gap lower upper iterations converged MB".split()


def blobs(n, d, seed):
    "Two samples of size n: three Gaussian blobs with common centres, and the second sample stretched along one axis."
    import numpy as np

    rng = np.random.default_rng(seed)
    centres = 2 * rng.standard_normal((3, d))
    x, y = (centres[rng.integers(3, size=n)] + 0.5 * rng.standard_normal((n, d)) for _ in range(2))
    y[:, 0] *= 1.5
    return x, y


def peak_mb():
    "The peak of this process's memory so far, in MB."
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)


def measure(task):
    "Run one method on one instance, in this process; the row of the table as a dict."
    from kms_nb import Gaussian, kms_distance, median_bandwidth

    x, y = blobs(task["n"], task["d"], task["seed"])
    kernel = Gaussian(median_bandwidth(x, y))
    arguments = dict(p=2, kernel=kernel, method=task["method"], tol=task["tol"], max_iter=task["max_iter"], rng=task["seed"])
    small = blobs(6, task["d"], task["seed"])
    kms_distance(*small, **arguments)  # imports and caches are not the solver's time
    before, seconds = peak_mb(), []
    for _ in range(task["repeats"]):
        start = time.perf_counter()
        result = kms_distance(x, y, **arguments)
        seconds.append(time.perf_counter() - start)
    return {"seconds": statistics.median(seconds), "gap": result.gap, "lower": result.lower, "upper": result.upper,
            "iterations": result.n_iter, "converged": bool(result.converged), "MB": peak_mb() - before}


def run(task, limit):
    "Run `measure` in a fresh process; the row, or what went wrong."
    try:
        done = subprocess.run([sys.executable, __file__, "--task", json.dumps(task)], text=True, capture_output=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"error": f"over {limit:.0f} s"}
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def line(values):
    "One line of the table."
    widths = (4, 6, 8, 10, 8, 9, 10, 10, 10, 9, 8)
    return " ".join(str(v).rjust(w) for v, w in zip(values, widths))


def cells(task, row, base):
    "The values of one row as text."
    head = (task["d"], task["n"], task["method"])
    if "error" in row:
        return line(head) + "  " + row["error"]
    ratio = f"{row['seconds'] / base:.2f}" if base else "-"
    return line((*head, f"{row['seconds']:.4f}", ratio, f"{row['gap']:.1e}", f"{row['lower']:.6f}", f"{row['upper']:.6f}",
                 row["iterations"], "yes" if row["converged"] else "no", f"{row['MB']:.1f}"))


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 50, 100], help="points per sample")
    parser.add_argument("--dims", type=int, nargs="+", default=[2, 20], help="dimensions of the points")
    parser.add_argument("--methods", nargs="+", default=["mirror", "local", "cvxpy"])
    parser.add_argument("--peer", help="method that the ratios refer to (default: the first)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tol", type=float, default=1e-3, help="relative gap asked of the solvers")
    parser.add_argument("--max-iter", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cvxpy-max", type=int, default=20, help="largest sample that cvxpy gets")
    parser.add_argument("--limit", type=float, default=300, help="seconds that one row may take")
    parser.add_argument("--json", action="store_true", help="print one JSON object per row instead of the table")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv=None):
    args = parse(argv)
    if args.task:
        print(json.dumps(measure(json.loads(args.task))))
        return
    peer = args.peer or args.methods[0]
    methods = sorted(args.methods, key=lambda m: m != peer)  # the peer first, so that each ratio is known when its row prints
    if not args.json:
        threads = os.environ.get("OPENBLAS_NUM_THREADS", "default")
        print(f"median of {args.repeats} runs, tol {args.tol:g}, ratio to {peer}, {os.cpu_count()} cores, BLAS threads {threads}")
        print(line(COLUMNS))
    for d in args.dims:
        for n in args.sizes:
            base = None
            for method in methods:
                if method == "cvxpy" and n > args.cvxpy_max:
                    continue
                task = dict(d=d, n=n, method=method, repeats=args.repeats, tol=args.tol, max_iter=args.max_iter, seed=args.seed)
                row = run(task, args.limit)
                base = row.get("seconds") if method == peer else base
                print(json.dumps({**task, **row}) if args.json else cells(task, row, base), flush=True)


if __name__ == "__main__":
    main()
