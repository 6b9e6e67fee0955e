"Estimates of memory against what is used: by tracemalloc for numpy's arrays, by the peak of a process of its own where POT or LAPACK take it."
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from pandas.util import hash_pandas_object          # imports are not to be counted
from sklearn.metrics.pairwise import rbf_kernel

from kms_nb import Gaussian, Laplace, Linear, kms_test
from kms_nb import kernels, panel
from kms_nb.kernels import pooled_features

ROOT = Path(__file__).parents[1]
assert hash_pandas_object


def peak_and_estimate(monkeypatch, run):
    "The peak of the arrays that `run` makes, and the largest estimate given, in bytes."
    asked = []
    for module in (kernels, panel): monkeypatch.setattr(module, "check_memory", lambda size, what, remedy: asked.append(size))
    tracemalloc.start()
    try: run(); return tracemalloc.get_traced_memory()[1], max(asked)
    finally: tracemalloc.stop()


@pytest.mark.parametrize("kernel, N, d, n_features", [
    (Gaussian(3.0), 1500, 10, None), (Laplace(3.0), 1500, 10, None), (rbf_kernel, 1500, 10, None), (Gaussian(30.0), 800, 1000, None), (Linear(), 30_000, 10, None), (Linear(), 4000, 200, None),
    (Linear(), 200, 4000, None), (Gaussian(3.0), 10_000, 10, 300), (Gaussian(3.0), 55_000, 10, 100), (Gaussian(10.0), 30_000, 100, 20), (Gaussian(3.0), 2000, 10, 1000)])
def test_features_need_what_was_estimated(monkeypatch, kernel, N, d, n_features):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, N // 2, d))
    peak, estimate = peak_and_estimate(monkeypatch, lambda: pooled_features(kernel, x, y, n_features=n_features, rng=rng))
    assert estimate / 2 < peak < 1.1 * estimate


@pytest.mark.parametrize("N, d", [(4000, 10), (10_000, 100)])
def test_the_test_needs_what_was_estimated(monkeypatch, N, d):
    x, y = np.random.default_rng(0).normal(size=(2, N // 2, d))
    kms_test(x[:20], y[:20], n_resamples=9)
    peak, estimate = peak_and_estimate(monkeypatch, lambda: kms_test(x, y, n_resamples=19, rng=0))
    assert estimate / 2 < peak < 1.1 * estimate


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("method, kernel, n, d, max_iter", [
    ("bundle", "Linear()", 2500, 3, 2), ("bundle", "Gaussian(3.)", 700, 10, 6), ("mirror", "Gaussian(3.)", 700, 10, 2), ("local", "Gaussian(3.)", 700, 10, 2), ("local", "Linear()", 15_000, 60, 2)])
def test_solvers_need_what_was_estimated(method, kernel, n, d, max_iter):
    code = ("import numpy as np, kms_nb.distance as module; from pandas.util import hash_pandas_object; from kms_nb import Gaussian, Linear, kernels\n"
            "peak = lambda: next(int(line.split()[1]) * 1024 for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
            f"x, y = np.random.default_rng(0).normal(size=(2, {n}, {d})); asked = []; options = dict(kernel={kernel}, method={method!r}, max_iter={max_iter})\n"
            "module.kms_distance(x[:50], y[:50], **options)\n"
            "module.check_memory = kernels.check_memory = lambda size, what, remedy: asked.append(size)\n"
            "before = peak(); module.kms_distance(x, y, **options); print(peak() - before, max(asked))")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, env={"OPENBLAS_NUM_THREADS": "1", "PATH": ""})
    used, estimate = map(int, done.stdout.split())
    assert estimate / 3 < used < 1.2 * estimate
