"""Measure the paper's figures and tables again, with the public package alone.

    python bench/experiments.py                       everything for which there are data (hours: see the trials of each figure)
    python bench/experiments.py fig6 tables           only these
    python bench/experiments.py fig2 --only dataset=Iris solver=BCD
    python bench/experiments.py --data FOLDER         with mnist.npz (or mnist_68.npz), credit.npz, human_activity.npz in FOLDER
    python bench/experiments.py --quick               a small part of each, to a temporary folder, in about a minute

Each figure has a CSV file in bench/experiments/ (`--out`), and a unit of work that stands there is not done again: stop the command when you like
and give it again. `--fresh` measures anew. What needs data that are not here is skipped, and said so. One BLAS thread is best: OPENBLAS_NUM_THREADS=1.

Kernel of the paper's experiments: exp(-|x - y|^2 / s^2) with s the median distance of the training sample. Readings of what the text leaves open stand
in the chapters that show the results.
"""
import argparse
import itertools
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rows import STOP, read_rows, stop, write_rows

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # this tree, installed or not

from kms_nb import Gaussian, Laplace, Linear, kms_distance, kms_test, median_bandwidth  # noqa: E402
from kms_nb.baselines import baseline_test, bcd  # noqa: E402
from kms_nb.bundle import bundle  # noqa: E402
from kms_nb.data import blob, credit, human_activity, iris, mnist  # noqa: E402
from kms_nb.kernels import pooled_features  # noqa: E402
from kms_nb.mirror import Problem, gibbs, interior_point, matrix_factor, mirror_ascent, theorem_parameters  # noqa: E402
from kms_nb.oracles import inexact_algorithm_1, sinkhorn_plan  # noqa: E402
from kms_nb.rank import rank_bound, reduce_rank  # noqa: E402
from kms_nb.transport import optimal_coupling, wasserstein_1d  # noqa: E402


class Figure(NamedTuple):
    "A figure or table: columns that name a unit of work, a function args -> units (dicts), and one (unit, args) -> rows (dicts)."
    keys: tuple
    tasks: object
    measure: object


def grid(**values):
    "All combinations of the values as dicts; the first name varies slowest."
    return [dict(zip(values, v)) for v in itertools.product(*values.values())]


def paper_kernel(x, y, multiple=1.0):
    "exp(-|x - y|^2 / (multiple s^2)) with s the median distance."
    return Gaussian(median_bandwidth(x, y) * np.sqrt(multiple / 2))


def make_problem(x, y, kernel):
    F = pooled_features(kernel, x, y)
    return F, Problem(F.phi, F.psi, np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y)))


def leading(W):
    "The leading unit eigenvector (r,) of WW'."
    return np.linalg.svd(W, full_matrices=False)[0][:, 0]


def interval(x, y, kernel, tol=0.01, max_iter=60):
    "Distances: what the leading eigenvector of the relaxation's solution attains, the value of the relaxation, its certified bound; and the gap in squares."
    F, problem = make_problem(x, y, kernel)
    r = bundle(problem, tol=tol, max_iter=max_iter)
    omega = leading(r.factor)
    lower = wasserstein_1d(problem.phi @ omega, problem.psi @ omega)
    return dict(lower=lower, relaxation=max(lower, np.sqrt(r.value)), upper=np.sqrt(r.upper), gap=1 - max(lower**2, r.value) / r.upper, rank=r.factor.shape[1])


# ---------------------------------------------------------------- data of Fig. 2 and the tables


SIZES = {"blob": (10, 12, 16, 20, 26, 33, 42, 54), "Iris": (4, 8, 12, 16, 20, 24, 28, 32), "MNIST": (50, 100, 150, 200, 250, 300, 350, 400),
         "credit": (50, 100, 150, 200, 250, 300, 350, 400)}  # those of Tables 1 to 4


def unit_rows(x):
    "Rows divided by their 2-norm."
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def classes(dataset, data):
    "The two classes of a real data set, after the paper's preprocessing; ValueError if they are not here."
    if dataset == "Iris":
        return tuple(unit_rows(s.to_numpy()) for s in iris("versicolor", "virginica"))
    if dataset == "MNIST":
        try:
            pair = mnist(6, 8, path=data)
        except ValueError:
            pair = mnist(6, 8)
        return tuple(sigmoid(x / 255) for x in pair)
    return tuple(unit_rows(x) for x in credit(path=data))


def train_and_test(dataset, n, seed, data):
    "Training samples of n rows from 70 % of each class, and the other 30 %, at most 1000 rows of each; of the mixture, 1000 new rows."
    if dataset == "blob":
        return *blob(n, 2, rng=seed), *blob(1000, 2, rng=10_000 + seed)
    rng = np.random.default_rng(seed)
    train, test = [], []
    for rows in classes(dataset, data):
        order = rng.permutation(len(rows))
        cut = int(0.7 * len(rows))
        if n > cut:
            raise ValueError(f"{dataset} has {cut} training rows of a class, fewer than {n}")
        train.append(rows[order[:n]])
        test.append(rows[order[cut:cut + 1000]])
    return *train, *test


# ---------------------------------------------------------------- Fig. 1: the bound of Theorem 4.7


def fig1(task, args):
    n = task["n"]
    return [dict(bound=rank_bound(n), printed=1 + int(np.floor(np.sqrt(2 * n + 9 / 4) - 3 / 2)), trivial=2 * n)]


# ---------------------------------------------------------------- Fig. 2: time and held-out quality


T = 100  # iterations of Algorithm 1, for which Lemma 4.5 has a step


def oracle(n):
    "The oracle of Algorithm 1: exact up to 50 rows as in the paper, beyond it entropic, to 5 % of the mean cost."
    if n <= 50:
        return optimal_coupling
    return lambda cost, a, b: sinkhorn_plan(cost, a, b, 0.05 * cost.mean()).coupling


def algorithm_1(problem):
    "Averaged iterate and next iterate (r, r) of Algorithm 1 with the step of Lemma 4.5, and the moment of the averaged coupling."
    log = np.log(len(problem.phi) + len(problem.psi))
    C = np.sqrt(theorem_parameters(problem, 1.0).n_iter / (16 * log))
    step = log / (C * np.sqrt(T))
    mean, V = inexact_algorithm_1(problem, T, step, oracle(len(problem.phi)))
    w, U = gibbs(step * T * V)
    return mean, (U * w) @ U.T, V


def by_algorithm_1(x, y, kernel, seed):
    F, problem = make_problem(x, y, kernel)
    return F.map.witness(leading(matrix_factor(algorithm_1(problem)[0])))


def by_mirror(x, y, kernel, seed):
    F, problem = make_problem(x, y, kernel)
    return F.map.witness(leading(mirror_ascent(problem, tol=1e-2, max_iter=500).factor))


def by_naive(x, y, kernel, seed):
    F, problem = make_problem(x, y, kernel)
    return F.map.witness(leading(interior_point(problem).factor))


SOLVERS = {"Algorithm 1": by_algorithm_1, "mirror ascent": by_mirror, "SDR-Naive": by_naive,
           "BCD": lambda x, y, kernel, seed: bcd(x, y, kernel=kernel, rng=seed).projector,
           "BCD entropic": lambda x, y, kernel, seed: bcd(x, y, kernel=kernel, regularization=0.01, rng=seed).projector,
           "kms_distance": lambda x, y, kernel, seed: kms_distance(x, y, kernel=kernel).projector}


def fig2_tasks(args):
    sizes = {"blob": SIZES["blob"], "Iris": SIZES["Iris"], "MNIST": (50, 100, 200, 400), "credit": (50, 100, 200, 400)}
    if args.quick:
        sizes = {"blob": (10, 16), "Iris": (8,)}
    tasks = [dict(dataset=d, n=n, seed=s, solver=m) for s in range(args.trials or (2 if args.quick else 10)) for d in sizes for n in sizes[d] for m in SOLVERS]
    return [t for t in tasks if not (t["solver"] == "SDR-Naive" and (t["n"] > 26 or t["n"] > 16 and t["seed"] > 0 or t["dataset"] in ("MNIST", "credit")))
            and not (t["solver"] == "Algorithm 1" and (t["n"] > 200 or t["n"] > 100 and t["seed"] > 0)) and not (t["n"] > 200 and t["seed"] > 0)]


def fig2(task, args):
    x, y, x_test, y_test = train_and_test(task["dataset"], task["n"], task["seed"], args.data)
    kernel, solver = paper_kernel(x, y), SOLVERS[task["solver"]]
    solver(x[:4], y[:4], kernel, 0)  # imports are not timed
    start = time.process_time()  # of this process: other work on the machine does not count
    f = solver(x, y, kernel, task["seed"])
    seconds = time.process_time() - start
    return [dict(seconds=seconds, train=wasserstein_1d(f(x), f(y)), held_out=wasserstein_1d(f(x_test), f(y_test)), norm=f.norm)]


# ---------------------------------------------------------------- Tables 1 to 4: ranks


def count(eigenvalues, tol, absolute=False):
    return int((eigenvalues > (tol if absolute else tol * eigenvalues.max())).sum())


SLOW = 200  # rows beyond which Algorithm 1 and mirror ascent are left out: minutes each


def tables_tasks(args):
    if args.quick:
        return grid(seed=[0], dataset=["blob", "Iris"], n=[8])
    tasks = [dict(dataset=d, n=n, seed=s) for s in range(args.trials or 10) for d in SIZES for n in SIZES[d]]
    return [t for t in tasks if t["n"] < 100 or t["seed"] == 0]


def tables(task, args):
    "Ranks of Algorithm 1 (average and next iterate), mirror ascent and the bundle method, counted in two ways, before and after the safe reduction."
    x, y, _, _ = train_and_test(task["dataset"], task["n"], task["seed"], args.data)
    F, problem = make_problem(x, y, paper_kernel(x, y))
    best = bundle(problem, tol=1e-4)
    reduced = reduce_rank(problem, best.factor, tol=1e-5)
    rank_one = leading(reduced.factor)[:, None]
    row = dict(features=problem.phi.shape[1], bound=rank_bound(task["n"]), bundle=count(spectrum(best.factor), 1e-6), reduced=reduced.rank_after,
               face=reduced.dimension, value=best.value, value_reduced=reduced.value_after, value_rank_one=problem.value(rank_one, problem.coupling(rank_one)),
               upper=best.upper)
    if task["n"] > SLOW:
        return [row]
    mean, last, V = algorithm_1(problem)
    spectra = {"average": np.linalg.eigvalsh(mean), "last": np.linalg.eigvalsh(last), "mirror": spectrum(mirror_ascent(problem, tol=1e-2, max_iter=500).factor)}
    W = matrix_factor(mean)
    return [row | {name: count(e, 1e-6) for name, e in spectra.items()} | {f"{name}_1e-20": count(e, 1e-20, True) for name, e in spectra.items()}
            | dict(value_algorithm_1=problem.value(W, problem.coupling(W)), upper_algorithm_1=np.linalg.eigvalsh(V)[-1])]


def spectrum(W):
    "Eigenvalues of WW'."
    return np.linalg.svd(W, compute_uv=False) ** 2


# ---------------------------------------------------------------- Fig. 4: power


TESTS = {"panel": lambda x, y, s: kms_test(x, y, method="panel", n_resamples=199, rng=s).pvalue,
         "split, median": lambda x, y, s: kms_test(x, y, kernel=paper_kernel(x, y), method="split", n_resamples=199, rng=s).pvalue,
         "split, 0.05": lambda x, y, s: kms_test(x, y, kernel=paper_kernel(x, y, 0.05), method="split", n_resamples=199, rng=s).pvalue}
TESTS |= {name.upper(): (lambda x, y, s, name=name: baseline_test(name, x, y, n_resamples=199, rng=s).pvalue) for name in ("mmd", "mmd-o", "me", "ms")}


def fig4_tasks(args):
    seeds = range(2 if args.quick else args.trials or 100)
    sizes = {1: [20] if args.quick else [20, 40, 80, 160, 180, 200], 0: [20] if args.quick else [40, 160]}  # level at two sizes only
    return [t for s in seeds for h1 in (1, 0) for t in grid(seed=[s], h1=[h1], n=sizes[h1], method=list(TESTS))]


def fig4(task, args):
    x, y = blob(task["n"], 20, h1=bool(task["h1"]), variance=3 if task["h1"] else None, rng=task["seed"])
    return [dict(pvalue=TESTS[task["method"]](x, y, 10**6 + task["seed"]))]  # not the numbers that made the data


# ---------------------------------------------------------------- Fig. 6: decay and limit


def fig6_tasks(args):
    if args.quick:
        return grid(seed=range(2), h1=[0, 1], D=[2, 5], n=[5, 10, 50])
    return grid(seed=range(args.trials or 20), h1=[0, 1], D=[2, 5, 10, 20], n=[5, 10, 50, 100, 200, 500])


def fig6(task, args):
    x, y = blob(task["n"], task["D"], h1=bool(task["h1"]), variance=4 if task["h1"] else None, rng=task["seed"])
    return [interval(x, y, paper_kernel(x, y))]


# ---------------------------------------------------------------- Fig. 7: kernel and bandwidth


def fig7_tasks(args):
    seeds, n = (range(2), 30) if args.quick else (range(args.trials or 10), 500)
    return [t | dict(n=n) for t in grid(seed=seeds, kernel=["Gaussian", "exponential"], c=[0.1, 0.5, 1, 5, 10], h1=[1, 0])]


def fig7(task, args):
    x, y = blob(task["n"], 20, h1=bool(task["h1"]), variance=4 if task["h1"] else None, rng=task["seed"])
    kernel = paper_kernel(x, y, task["c"]) if task["kernel"] == "Gaussian" else Laplace(task["c"] * median_bandwidth(x, y))
    return [interval(x, y, kernel)]


# ---------------------------------------------------------------- change detection on human activity


def mmd(x, y, kernel):
    "The biased estimate of the maximum mean discrepancy."
    return float(np.sqrt(max(kernel(x).mean() + kernel(y).mean() - 2 * kernel(x, y).mean(), 0)))


def sliced(x, y, seed=0, n_slices=100):
    "Sliced W_2 over fixed random directions."
    u = np.random.default_rng(seed).normal(size=(x.shape[1], n_slices))
    u /= np.linalg.norm(u, axis=0)
    return float(np.sqrt(np.mean([wasserstein_1d(a, b) ** 2 for a, b in zip((x @ u).T, (y @ u).T)])))


def wasserstein(x, y):
    "W_2 in all dimensions."
    import ot
    return float(np.sqrt(ot.emd2(np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y)), ot.dist(x, y))))


STATISTICS = {"KMS": lambda x, y, k: interval(x, y, k)["relaxation"], "MS": lambda x, y, k: interval(x, y, Linear())["relaxation"],
              "SW": lambda x, y, k: sliced(x, y), "W": lambda x, y, k: wasserstein(x, y), "MMD": mmd}


def activity_tasks(args):
    if args.quick:
        return grid(seed=[0], person=[1], window=[20], method=["MS", "MMD"])
    return grid(seed=range(args.trials or 5), person=[1, 2, 3, 4], window=[50], method=list(STATISTICS))


def activity(task, args):
    """Delay at a false-alarm rate of 5 % and of none: the reference is 100 random rows of frames 0 to 249, the statistic is watched over windows that end
    in frames 250 + window to 500, where the change is; its 95 % quantile and its maximum there are the thresholds. `later`: share of the windows after
    frame 400 above the 95 % quantile of those before. Bandwidth: from the frames before 250."""
    if args.data is None:
        raise ValueError("needs human_activity.npz in --data FOLDER")
    before, after = human_activity(args.data, task["person"])
    series, change, w = np.vstack([before, after]), len(before), task["window"]
    reference = before[np.sort(np.random.default_rng(task["seed"]).choice(250, 100, replace=False))]
    kernel, statistic = paper_kernel(before[:250:2], before[1:250:2]), STATISTICS[task["method"]]

    def at(end):
        return statistic(reference, series[end - w:end], kernel)

    ends = np.arange(250 + w, change + 1, 3)
    calm = np.array([at(end) for end in ends])
    thresholds, delays, end = {"delay": np.quantile(calm, 0.95), "delay_no_alarm": calm.max()}, {}, change
    while len(delays) < 2 and end < len(series):
        end += 1
        value = at(end)
        delays |= {k: end - change for k, level in thresholds.items() if value > level and k not in delays}
    later = (calm[ends > 400] > np.quantile(calm[ends <= 400], 0.95)).mean()
    return [dict(delay=delays.get("delay", len(after)), delay_no_alarm=delays.get("delay_no_alarm", len(after)), later=later)]


# ---------------------------------------------------------------- the command


FIGURES = {
    "fig1": Figure(("n",), lambda args: grid(n=[10, 100] if args.quick else [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000]), fig1),
    "fig2": Figure(("dataset", "n", "seed", "solver"), fig2_tasks, fig2),
    "fig4": Figure(("seed", "h1", "n", "method"), fig4_tasks, fig4),
    "fig6": Figure(("seed", "h1", "D", "n"), fig6_tasks, fig6),
    "fig7": Figure(("seed", "kernel", "c", "h1", "n"), fig7_tasks, fig7),
    "tables": Figure(("dataset", "n", "seed"), tables_tasks, tables),
    "activity": Figure(("seed", "person", "window", "method"), activity_tasks, activity),
}


def written(value):
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)


class Store:
    "The rows of a CSV file, by unit of work."

    def __init__(self, path, keys):
        self.path, self.keys, self.rows = path, keys, {}
        for row in read_rows(path):
            self.rows.setdefault(self.key(row), []).append(row)

    def key(self, task):
        return tuple(written(task[k]) for k in self.keys)

    def put(self, task, rows):
        "Add the rows of a unit of work, and replace the file in one step."
        self.rows[self.key(task)] = [{k: written(v) for k, v in (task | row).items()} for row in rows]
        flat = [row for rows in self.rows.values() for row in rows]
        write_rows(self.path, list(dict.fromkeys(k for row in flat for k in row)), flat)


def run(name, args):
    "Do what is missing of a figure; the sentences on what could not be done."
    from tqdm import tqdm
    figure = FIGURES[name]
    store = Store(args.out / f"{name}.csv", figure.keys)
    tasks = [t for t in figure.tasks(args) if all(str(t.get(k)) == v for k, v in args.only)]
    missing = [t for t in tasks if args.fresh or store.key(t) not in store.rows]
    skipped = {}
    with tqdm(total=len(tasks), initial=len(tasks) - len(missing), desc=name, unit="", disable=None if args.progress else True, file=sys.stderr) as bar:
        for task in missing:
            bar.set_postfix_str(" ".join(written(v) for v in task.values()), refresh=False)
            try:
                rows = figure.measure(task, args)
                if STOP:
                    raise KeyboardInterrupt  # without the unit that was disturbed
                store.put(task, rows)
            except ValueError as reason:
                skipped[str(reason)] = skipped.get(str(reason), 0) + 1
            bar.update()
    done = len(tasks) - sum(skipped.values())
    print(f"{name}: {done} of {len(tasks)} units of work in {store.path}", flush=True)
    return [f"{name}: {number} left out: {reason}" for reason, number in skipped.items()]


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"some of: {', '.join(FIGURES)}")
    parser.add_argument("--data", help="folder with mnist.npz, credit.npz and human_activity.npz")
    parser.add_argument("--trials", type=int, help="number of seeds, where a figure has any (default: as in the paper, or what its chapter says)")
    parser.add_argument("--only", nargs="+", default=[], metavar="COLUMN=VALUE", type=lambda s: tuple(s.split("=", 1)), help="only such units, as in --only dataset=Iris n=8")
    parser.add_argument("--out", type=Path, help="folder for the CSV files (default bench/experiments; with --quick a temporary one)")
    parser.add_argument("--fresh", action="store_true", help="measure again what is there")
    parser.add_argument("--quick", action="store_true", help="a small part of each figure")
    parser.add_argument("--no-progress", dest="progress", action="store_false", help="no bar")
    args = parser.parse_args(argv)
    unknown = [f for f in args.figures if f not in FIGURES]
    if unknown:
        parser.error(f"unknown figure {unknown[0]}; known: {', '.join(FIGURES)}")
    args.out = args.out or (Path(tempfile.mkdtemp()) if args.quick else HERE / "experiments")
    return args


def main(argv=None):
    args, skipped = parse(argv), []
    STOP.clear()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, answer in before.items():
        if answer != signal.SIG_IGN:  # nohup and background jobs ignore Ctrl-C
            signal.signal(number, stop)
    try:
        for name in args.figures or FIGURES:
            skipped += run(name, args)
    except KeyboardInterrupt:
        print("\nstopped; what is done is kept, and the same command goes on from there")
        return 130
    finally:
        for number, answer in before.items():
            signal.signal(number, answer or signal.SIG_DFL)
    print("\n".join(skipped))
    return 0


if __name__ == "__main__":
    sys.exit(main())
