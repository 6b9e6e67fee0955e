"""Small hostile samples for the property tests, and the checks that every result must pass.

Two Hypothesis profiles: "ci", the default, always draws the same few examples; "fuzz" draws many (`make fuzz`, or
`python -m pytest tests/test_properties.py --hypothesis-profile=fuzz --hypothesis-seed=N`)."""
import warnings
from contextlib import contextmanager
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import ot
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics.pairwise import rbf_kernel

from kms_nb import Gaussian, Laplace, Linear
from kms_nb.kernels import pooled_features
from kms_nb.samples import as_weights

COMMON = dict(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
              phases=[Phase.explicit, Phase.generate, Phase.target, Phase.shrink])
settings.register_profile("ci", settings(derandomize=True, max_examples=15, **COMMON))
settings.register_profile("fuzz", settings(derandomize=False, max_examples=300, **COMMON))
if settings.get_current_profile_name() == "default": settings.load_profile("ci")

SQRT_EPS = 1e-7             # square root of the rounding error of a Gram matrix of a few dozen rows with a unit diagonal


# --- what to draw ---------------------------------------------------------------------------------------------------------

GRID = st.integers(-2, 2).map(float)                                            # ties, repeated rows, singular Gram matrices
REALS = st.floats(-10, 10, allow_subnormal=False)                               # tiny and round numbers come often
ANY = st.floats(allow_nan=False, allow_infinity=False)                          # from 5e-324 to 1.8e308
NORMAL = st.integers(0, 2**32 - 1)


@st.composite
def pairs(draw, max_rows=8, max_columns=3, min_rows=1, same_size=False, numbers=(GRID, REALS)):
    "Two samples (n, d), (m, d): normal draws or arrays of such numbers, often with a constant column, repeated rows or rows in common."
    d = draw(st.integers(1, max_columns))
    n = draw(st.integers(min_rows, max_rows))
    m = n if same_size else draw(st.integers(min_rows, max_rows))
    if draw(st.integers(0, 2)) == 0:
        rng = np.random.default_rng(draw(NORMAL))
        x, y = rng.normal(size=(n, d)), rng.normal(draw(st.sampled_from([0.0, 1.0])), 1, size=(m, d))
    else:
        cells = draw(st.sampled_from(numbers))
        x, y = draw(arrays(float, (n, d), elements=cells)), draw(arrays(float, (m, d), elements=cells))
    if draw(st.integers(0, 4)) == 0: x[:, 0] = y[:, 0] = draw(GRID)
    if draw(st.integers(0, 3)) == 0: y[: min(n, m) // 2 + 1] = x[: min(n, m) // 2 + 1]
    if draw(st.integers(0, 3)) == 0: x[draw(st.integers(0, n - 1)):] = x[0]
    return x, y


def weights(n):
    "None, whole numbers (some 0) or floats of very different sizes."
    whole = arrays(float, n, elements=st.integers(0, 3).map(float)).map(lambda w: w if w.any() else w + 1)
    return st.one_of(st.none(), whole, arrays(float, n, elements=st.floats(1e-9, 1.0)))


def rbf(x, y): return rbf_kernel(x, y, gamma=0.7)                               # a kernel that the package knows nothing about


KERNELS = st.sampled_from([Gaussian(1.0), Gaussian(0.3), Laplace(0.7), Linear(), rbf])
INVARIANT = st.sampled_from([Gaussian(1.0), Gaussian(0.3), Laplace(0.7), Linear()])
ORDERS = st.one_of(st.sampled_from([1, 1.5, 2]), st.floats(1, 2))


# --- what must hold -------------------------------------------------------------------------------------------------------

@contextmanager
def strict(*inputs):
    "No warning of any kind, no change of the inputs, no use of the global random state."
    before, state = [i.copy() for i in inputs if i is not None], np.random.get_state()[1].copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    for old, new in zip(before, (i for i in inputs if i is not None)): np.testing.assert_array_equal(old, new)
    np.testing.assert_array_equal(state, np.random.get_state()[1])


def centred_gram(kernel, x, y):
    "The pooled Gram matrix, for `Linear` of the centred rows, which have the same differences."
    z = np.vstack([x, y])
    if isinstance(kernel, Linear): z = z - z.mean(0)
    K = kernel(z, z)
    return (K + K.T) / 2


def size(kernel, x, y):
    "The size of the feature vectors: what rounding errors are relative to."
    return np.sqrt(max(np.diag(centred_gram(kernel, x, y)).max(), np.finfo(float).tiny))


def wasserstein(u, v, a, b, p):
    "W_p on the line by POT, in units in which no power leaves the range of floats."
    both = np.concatenate([u, v])
    scale = np.ptp(both) or 1.0
    return scale * float(ot.wasserstein_1d((u - both.min()) / scale, (v - both.min()) / scale, a, b, p=p)) ** (1 / p)


def by_fractions(u, v, a, b, p):
    "W_p on the line for the weights as they are stored, in rational numbers; the root in 60 digits."
    sides = []
    for values, w in ((u, a), (v, b)):
        w = [Fraction(float(x)) for x in w]
        sides.append([[Fraction(float(values[k])), w[k] / sum(w)] for k in np.argsort(values, kind="stable") if w[k] > 0])
    with localcontext() as context:
        context.prec = 60
        total, decimal = Decimal(0), lambda x: Decimal(x.numerator) / Decimal(x.denominator)
        while all(sides):
            (x, left), (y, right) = sides[0][0], sides[1][0]
            if x != y: total += decimal(min(left, right)) * decimal(abs(x - y)) ** Decimal(p)
            for side in sides:
                side[0][1] -= min(left, right)
                if side[0][1] == 0: side.pop(0)
        return float(total ** (1 / Decimal(p))) if total else 0.0


def feature_distances(kernel, x, y):
    "|K_x - K_y|, shape (n, m)."
    K, n = centred_gram(kernel, x, y), len(x)
    return np.sqrt(np.maximum(np.diag(K)[:n, None] + np.diag(K)[n:] - 2 * K[:n, n:], 0))


def largest_displacement(kernel, x, y, pi):
    "The root of the largest mean square displacement of a coupling along one function of norm one, straight from the Gram matrix."
    K = centred_gram(kernel, x, y)
    laplacian = np.block([[np.diag(pi.sum(1)), -pi], [-pi.T, np.diag(pi.sum(0))]])
    e, U = np.linalg.eigh(laplacian)
    root = U * np.sqrt(np.maximum(e, 0))
    return np.sqrt(max(np.linalg.eigvalsh(root.T @ K @ root)[-1], 0))


def check(res, x, y, kernel, x_weights=None, y_weights=None, tol=0.01):
    "Re-check a result by code that shares nothing with the solver: values by POT, eigenvalues of the Gram matrix, marginals, bounds from both sides."
    a, b, p = as_weights(x_weights, len(x)), as_weights(y_weights, len(y)), res.p
    small = SQRT_EPS * size(kernel, x, y)
    assert 0 <= res.lower <= res.relaxation <= res.upper < np.inf and 0 <= res.gap <= 1 and res.rank >= 1
    gap = 1 - (res.relaxation / res.upper) ** p if res.upper > 0 else 0.0
    assert res.converged == (gap <= tol) == (res.message.split(";")[0] == "converged") or abs(gap - tol) < 1e-9
    # the lower value is attained by a function of norm one
    u, v = res.projector(x), res.projector(y)
    np.testing.assert_allclose(wasserstein(u, v, a, b, p), res.lower, rtol=1e-6, atol=5 * small)
    z, c = res.projector.points, res.projector.coef
    gram = kernel(z, z)
    assert c @ gram @ c <= 1 + 1e-6 + 4 * np.finfo(float).eps * np.abs(c).sum() ** 2 * gram.max()              # coefficients of near-equal rows are large
    # the coupling is one, and proves the upper bound
    pi = res.coupling.toarray()
    assert (pi >= 0).all()
    np.testing.assert_allclose(pi.sum(1), a, rtol=0, atol=1e-9)
    np.testing.assert_allclose(pi.sum(0), b, rtol=0, atol=1e-9)
    if p == 2 and "proved by cells" not in res.message: assert largest_displacement(kernel, x, y, pi) <= res.upper * (1 + 1e-9) + 3 * small
    # from below: no function of norm one does better than the upper bound, and the mean embeddings are such a function's doing
    K, rng, w = centred_gram(kernel, x, y), np.random.default_rng(0), np.concatenate([a, -b])
    for c in (w, *rng.normal(size=(5, len(w))), *np.eye(len(w))[:3]):
        norm = np.sqrt(max(c @ K @ c, 0))
        if norm <= 10 * small: continue
        f = K @ c / norm
        assert wasserstein(f[:len(x)], f[len(x):], a, b, p) <= res.upper * (1 + 1e-9) + small
    # from above: transport in the feature space itself
    distances = feature_distances(kernel, x, y)
    scale = distances.max() or 1.0
    above = scale * ot.emd2(a / a.sum(), b / b.sum(), (distances / scale) ** p) ** (1 / p)
    assert res.lower <= above * (1 + 1e-6) + small
    # the relaxation's value is attained by its factor
    if p <= 2 and res.relaxation > 10 * small:
        F = pooled_features(kernel, x, y)
        W = res.factor / np.linalg.norm(res.factor)
        cost = ((F.phi @ W)[:, None] - F.psi @ W) ** 2
        scale = cost.sum(2).max() or 1.0
        value = (scale ** (p / 2) * ot.emd2(a / a.sum(), b / b.sum(), (cost.sum(2) / scale) ** (p / 2))) ** (1 / p)
        assert res.relaxation <= value * (1 + 1e-6) + small


def overlap(first, second, small=0.0):
    "Two certified intervals of the same distance have a point in common."
    assert first.lower <= second.upper * (1 + 1e-9) + small and second.lower <= first.upper * (1 + 1e-9) + small
