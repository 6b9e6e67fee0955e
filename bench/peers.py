"""Ways to solve the relaxation that the package is compared with: written for the benchmark, and not part of the package.

Each takes a `Problem` and returns a trace: `Point`s in order of time, with the best certified bounds so far, as squared distances.
"""
import time
import warnings
from typing import NamedTuple

import numpy as np
from scipy import sparse

from kms_nb.mirror import certified_upper, matrix_factor, relative_gap, theorem_parameters, top_eigenvalue
from kms_nb.transport import round_to_marginals


class Point(NamedTuple):
    "State of a solver: seconds since its start, best value of the relaxation, best upper bound, iterations."
    seconds: float
    value: float
    upper: float
    iterations: int

    @property
    def gap(self):
        return relative_gap(self.value, self.upper)


def follow(method, limit, tol):
    """The trace of an iterative method until its relative gap is at most tol or the limit in seconds is over.

    method.step() is one iteration, method.certify() a value and an upper bound, asked for at iterations 1 to 20, then every 5 % more, and at the end."""
    start, trace, best, mark, k, seconds = time.perf_counter(), [], (-np.inf, np.inf), 1, 0, 0
    while not trace or seconds < limit and trace[-1].gap > tol:
        method.step()
        k, seconds = k + 1, time.perf_counter() - start
        if k < mark and seconds < limit:
            continue
        mark = max(k + 1, int(1.05 * k))
        value, upper = method.certify()
        best = max(best[0], value), min(best[1], upper)
        trace.append(Point(time.perf_counter() - start, *best, k))
    return trace


class Algorithm1:
    """Algorithm 1 of the paper with an exact oracle, and a certificate that the paper does not have.

    The factor of an iterate is taken from the eigenvectors that the step needs anyway."""

    def __init__(self, problem, step_size):
        r = problem.phi.shape[1]
        self.problem, self.step_size, self.k = problem, step_size, 0
        self.W, self.S_sum, self.V_sum = np.eye(r) / np.sqrt(r), np.zeros((r, r)), np.zeros((r, r))

    def step(self):
        self.k += 1
        self.S_sum += self.W @ self.W.T
        self.V_sum += self.problem.moment(self.problem.coupling(self.W))
        e, U = np.linalg.eigh(self.step_size * self.V_sum)
        w = np.exp(e - e[-1])
        self.W = U * np.sqrt(w / w.sum())

    def certify(self):
        W = matrix_factor(self.S_sum / self.k)
        terms = self.k + len(self.problem.a) + len(self.problem.b)
        return self.problem.value(W, self.problem.coupling(W)), top_eigenvalue(self.V_sum / self.k, terms)


def algorithm_1(problem, limit, tol):
    "Algorithm 1 with the step of Theorem 4.6 for as many iterations as the limit has room for. The four that measure this are not counted."
    pilot = Algorithm1(problem, 1.0)
    pilot.step()
    start = time.perf_counter()
    for _ in range(3):
        pilot.step()
    horizon = max(3 * limit / (time.perf_counter() - start), 1)
    one = theorem_parameters(problem, 1.0)
    return follow(Algorithm1(problem, one.step * np.sqrt(one.n_iter / horizon)), limit, tol)  # the theorem's step goes with 1 / sqrt(horizon)


def simplex_projection(v):
    "The nearest point to v (r,) in the probability simplex."
    u = np.sort(v)[::-1]
    excess = (np.cumsum(u) - 1) / np.arange(1, len(v) + 1)
    return np.maximum(v - excess[u > excess][-1], 0)


class Supergradient:
    """Projected supergradient ascent on the spectrahedron, the method of subspace-robust Wasserstein distances for k = 1 (Paty and Cuturi 2019).

    Exact transport; eigenvalues projected on the simplex; step 0.3 / (L sqrt(t)) with L the spectral norm of the first supergradient. The constant is
    the best of several that were tried on the mixtures: steps divided by the norm of each supergradient, for one, are far slower. As in
    `mirror_ascent`, the best value counts, and iteration t has weight t in the averaged coupling that proves the upper bound."""

    def __init__(self, problem):
        r = problem.phi.shape[1]
        self.problem, self.t, self.value, self.W, self.V_mean = problem, 0, -np.inf, np.eye(r) / np.sqrt(r), np.zeros((r, r))

    def step(self):
        self.t += 1
        pi = self.problem.coupling(self.W)
        V = self.problem.moment(pi)
        if self.t == 1:
            self.norm = np.linalg.norm(V, 2)
        self.value = max(self.value, self.problem.value(self.W, pi))
        self.V_mean += 2 / (self.t + 1) * (V - self.V_mean)
        e, U = np.linalg.eigh(self.W @ self.W.T + 0.3 / (self.norm * np.sqrt(self.t)) * V)
        e = simplex_projection(e)
        self.W = U[:, e > 0] * np.sqrt(e[e > 0])

    def certify(self):
        return self.value, top_eigenvalue(self.V_mean, self.t + len(self.problem.a) + len(self.problem.b))


def supergradient(problem, limit, tol):
    return follow(Supergradient(problem), limit, tol)


def semidefinite_program(problem, solver, limit, **options):
    "Problem (14) by cvxpy: a trace of one point, or none where the solver gives nothing. Compilation is counted."
    import cvxpy as cp

    start = time.perf_counter()
    (n, r), m = problem.phi.shape, len(problem.psi)
    S, f, g = cp.Variable((r, r), PSD=True), cp.Variable((n, 1)), cp.Variable((1, m))
    x, y = (cp.sum(cp.multiply(P @ S, P), axis=1) for P in (problem.phi, problem.psi))
    cost = cp.reshape(x, (n, 1), order="C") + cp.reshape(y, (1, m), order="C") - 2 * problem.phi @ S @ problem.psi.T
    dual = f + g <= cost
    program = cp.Problem(cp.Maximize(problem.a @ f + g @ problem.b), [cp.trace(S) == 1, dual])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # reduced accuracy shows in the certificate
        try:
            program.solve(solver=solver, **options, **{"time_limit" if solver == "CLARABEL" else "time_limit_secs": limit})
        except cp.error.SolverError:
            return []
    if S.value is None or dual.dual_value is None:
        return []
    W = matrix_factor(S.value)
    value = problem.value(W, problem.coupling(W))
    upper = certified_upper(problem, sparse.csr_array(round_to_marginals(np.asarray(dual.dual_value), problem.a, problem.b)))
    return [Point(time.perf_counter() - start, value, upper, int(program.solver_stats.num_iters or 0))]


def clarabel(problem, limit, tol):
    "cvxpy with Clarabel and its own tolerances, which are far below any target."
    return semidefinite_program(problem, "CLARABEL", limit)


def scs(problem, limit, tol):
    "cvxpy with SCS at tolerances 1e-3, 1e-4, ... until the gap is small enough: each run starts anew, and its time is its own."
    start, trace = time.perf_counter(), []
    for eps in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7):
        left = limit - (time.perf_counter() - start)
        if left <= 0 or trace and min(p.gap for p in trace) <= tol:
            break
        trace += semidefinite_program(problem, "SCS", left, eps_abs=eps, eps_rel=eps)
    return trace
