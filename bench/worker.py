"""One measurement in a process of its own: `python bench/worker.py TASK`, with the task and the answer in JSON.

The process is separate so that its peak memory belongs to one solver on one instance. Data, kernel and features are made before the clock
starts, and each solver first solves a tiny problem, so that imports are not timed either.
"""
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import ot

import peers
from kms_nb import Gaussian, kms_distance, median_bandwidth
from kms_nb.bundle import bundle
from kms_nb.data import blob, credit, iris, mnist
from kms_nb.kernels import pooled_features
from kms_nb.mirror import Problem, certified_upper, mirror_ascent, relative_gap, theorem_parameters
from peers import Point

UNLIMITED = 10**6  # iterations: the clock ends a run


class Unavailable(Exception):
    "The data of an instance are not here."


# ---------------------------------------------------------------- instances


def draw(pair, n, rng):
    "n rows of each of two tables, without replacement."
    return tuple(table[rng.choice(len(table), n, replace=False)] for table in pair)


def samples(instance, n, seed, folder):
    "The two samples of an instance."
    rng = np.random.default_rng(seed)
    if instance.startswith("blob"):
        _, d, hypothesis = instance.split()
        return blob(n, int(d), h1=hypothesis == "H1", variance=4 if int(d) > 2 else None, rng=seed)
    if instance == "Iris":
        return tuple(np.asarray(flowers) for flowers in iris("versicolor", "virginica"))
    try:
        if instance == "MNIST 6/8":
            has_file = folder and any((Path(folder) / name).exists() for name in ("mnist.npz", "mnist_68.npz"))
            return draw([table / 255.0 for table in mnist(6, 8, path=folder if has_file else None)], n, rng)
        return draw([table / np.linalg.norm(table, axis=1, keepdims=True) for table in credit(path=folder)], n, rng)  # as in the paper: rows of norm one
    except ValueError as reason:
        raise Unavailable(f"{instance} needs a file in --data FOLDER ({reason})") from None


def paper_kernel(x, y):
    "exp(-|x - y|^2 / s^2) with s the median distance."
    return Gaussian(median_bandwidth(x, y) / np.sqrt(2))


def make_problem(x, y):
    F = pooled_features(paper_kernel(x, y), x, y)
    return Problem(F.phi, F.psi, np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y)))


# ---------------------------------------------------------------- solvers


class OutOfTime(RuntimeError):
    "Raised by the oracle; the package's solvers then return the best bounds so far."


def clocked(problem, limit):
    "The problem with an oracle that notes when it is called, and refuses to answer once the limit is over; and the list of these times."
    times = []

    class Clocked(Problem):
        def coupling(self, W):
            times.append(time.perf_counter())
            if times[-1] - times[0] > limit:
                raise OutOfTime("out of time")
            return super().coupling(W)

    return Clocked(problem.phi, problem.psi, problem.a, problem.b), times


def run_mirror(problem, limit, tol):
    "The trace of `mirror_ascent`: its iteration k ends where iteration k + 1 calls the oracle."
    timed, times = clocked(problem, limit)
    start = time.perf_counter()
    result = mirror_ascent(timed, tol=tol, max_iter=UNLIMITED)
    times.append(time.perf_counter())
    return [Point(times[k] - start, *bounds, k) for k, bounds in enumerate(result.history, 1)]


PEERS = {"mirror ascent": run_mirror, "Algorithm 1": peers.algorithm_1, "supergradient": peers.supergradient,
         "cvxpy Clarabel": peers.clarabel, "cvxpy SCS": peers.scs}


def repeated(run):
    "The results of one run, or of three where the first takes less than a second, each with its seconds."
    out = []
    while len(out) < (3 if not out or out[0][0] < 1 else 1):
        start = time.perf_counter()
        result = run()
        out.append((time.perf_counter() - start, result))
    return out


def row(target, seconds, point, promised=""):
    reached = point is not None and point.gap <= target
    bounds = {} if point is None else dict(gap=point.gap, value=point.value, upper=point.upper, iterations=point.iterations)
    return dict(dict(gap="", value="", upper="", iterations=""), target=target, seconds=seconds, reached="yes" if reached else "no", promised=promised) | bounds


def first(trace, target):
    "The first point of a trace with a gap of at most the target, or None."
    return next((p for p in trace if p.gap <= target), None)


def peer_rows(problem, name, targets, limit):
    "A row per target from the trace of one run; the median time of three where the run is short."
    runs = repeated(lambda: PEERS[name](problem, limit, min(targets)))
    total, trace = runs[0]
    rows = []
    for target in targets:
        point, seconds = first(trace, target), min(total, limit)
        if point:
            seconds = float(np.median([p.seconds for _, again in runs if (p := first(again, target))]))
        elif trace:
            point = min(trace, key=lambda p: p.gap)
        promised = theorem_parameters(problem, target * point.upper).n_iter if name == "Algorithm 1" else ""
        rows.append(row(target, seconds, point, promised))
    return rows


def bundle_rows(problem, targets, limit):
    "A row per target, each from a run of its own; and the results."
    rows, results = [], []
    for target in targets:
        runs = repeated(lambda: bundle(clocked(problem, limit)[0], tol=target, max_iter=UNLIMITED))
        result = runs[0][1]
        results.append(result)
        point = Point(float(np.median([seconds for seconds, _ in runs])), result.value, result.upper, len(result.history))
        rows.append(row(target, point.seconds, point))
    return rows, results


# ---------------------------------------------------------------- checks


def recheck(problem, result):
    """What is wrong with a result, computed without the solver's code: a list of sentences.

    Marginals and signs of the coupling; the largest eigenvalue of its moment, summed row by row, against `upper`; the trace of the factor; and
    the value against an exact transport of POT."""
    wrong, pi, W = [], result.coupling.toarray(), result.factor
    off = max(np.abs(pi.sum(1) - problem.a).max(), np.abs(pi.sum(0) - problem.b).max())
    if pi.min() < 0 or off > 1e-12:
        wrong.append(f"marginals off by {off:.1e}, least entry {pi.min():.1e}")
    V = np.zeros((problem.phi.shape[1],) * 2)
    for mass, phi in zip(pi, problem.phi):
        D = phi - problem.psi[mass > 0]
        V += (D.T * mass[mass > 0]) @ D
    top = np.linalg.eigvalsh(V)[-1]
    if top > result.upper * (1 + 1e-12):
        wrong.append(f"largest eigenvalue {top:.17g} above `upper` {result.upper:.17g}")
    if abs((W**2).sum() - 1) > 1e-9:
        wrong.append(f"trace of the factor {(W**2).sum():.17g}")
    value = ot.emd2(problem.a, problem.b, ot.dist(problem.phi @ W, problem.psi @ W), numItermax=10**8)
    if abs(value - result.value) > 1e-9 * top:
        wrong.append(f"value {result.value:.17g}, by POT {value:.17g}")
    if not result.value <= result.upper:
        wrong.append(f"value {result.value:.17g} above `upper` {result.upper:.17g}")
    return wrong


# ---------------------------------------------------------------- the two kinds of task


def peak_mb():
    "Peak memory of this process so far."
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10), 1)


def solve(task):
    "Time one solver on one instance."
    x, y = samples(task["instance"], task["n"], task["seed"], task["data"])
    problem = make_problem(x, y)
    tiny = make_problem(*blob(8, 2, rng=0))
    bundle(tiny) if task["solver"] == "bundle" else PEERS[task["solver"]](tiny, 0.05, 1e-2)
    before, check = peak_mb(), ""
    if task["solver"] == "bundle":
        rows, results = bundle_rows(problem, task["targets"], task["limit"])
    else:
        rows, results = peer_rows(problem, task["solver"], task["targets"], task["limit"]), None
    peak = peak_mb()
    if results:
        check = "; ".join(f"target {t:g}: {what}" for t, r in zip(task["targets"], results) for what in recheck(problem, r)) or "ok"
    return dict(rows=rows, features=problem.phi.shape[1], mb_before=before, mb_peak=peak, check=check)


def cholesky_proves(problem, pi, upper):
    "Whether upper I - V is positive definite for the moment V of a coupling."
    V = -problem.moment(pi)
    V[np.diag_indices(len(V))] += upper
    try:
        np.linalg.cholesky(V)
    except np.linalg.LinAlgError:
        return False
    return True


def grow(task):
    """Time `kms_distance`, features included: with sorting and a fixed number of features, or with exact transport and all features.

    `upper` is the certified bound for the exact kernel; `gap` is that of the kernel of the features, which is what the solver can close."""
    x, y = samples(task["instance"], task["n"], task["seed"], task["data"])
    kernel = paper_kernel(x, y)
    options = dict(kernel=kernel, method="local" if task["features"] else "bundle", n_features=task["features"], max_seconds=task["limit"])
    kms_distance(x[:50], y[:50], **options | dict(n_features=20 if task["features"] else None))
    before, start = peak_mb(), time.perf_counter()
    result = kms_distance(x, y, tol=min(task["targets"]), **options)
    seconds, peak = time.perf_counter() - start, peak_mb()
    u, v = np.sort(result.projector(x)), np.sort(result.projector(y))
    attained = np.sqrt(np.mean((u - v) ** 2))
    check = "ok" if abs(attained / result.lower - 1) < 1e-6 else f"lower {result.lower:.12g}, by sorting {attained:.12g}"
    F = pooled_features(kernel, x, y, n_features=task["features"], rng=np.random.default_rng(0))
    problem = Problem(F.phi, F.psi, result.coupling.sum(1), result.coupling.sum(0))
    gap = relative_gap(attained**2, certified_upper(problem, result.coupling)) if task["features"] else result.gap
    if not task["features"] and not cholesky_proves(problem, result.coupling, result.upper**2):
        check = "`upper` not proved by a Cholesky factorisation"
    one = dict(target=min(task["targets"]), seconds=seconds, reached="yes" if gap <= min(task["targets"]) else "no", gap=gap, value=result.lower**2,
               upper=result.upper**2, iterations=result.n_iter, promised="")
    return dict(rows=[one], features=F.phi.shape[1], mb_before=before, mb_peak=peak, check=check)


def main():
    task = json.loads(sys.argv[1])
    try:
        answer = (grow if task["solver"].startswith("kms_distance") else solve)(task)
    except Unavailable as reason:
        answer = dict(unavailable=str(reason))
    print(json.dumps(answer, default=float))


if __name__ == "__main__":
    main()
