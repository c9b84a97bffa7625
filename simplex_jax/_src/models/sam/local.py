"""The local step of the spherical admixture model: topic proportions given the topics."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import gammaln

from simplex_jax._src import arguments, draws
from simplex_jax._src.draws.keys import by_native_code
from simplex_jax._src.models.sam import joint
from simplex_jax._src.models.sam.joint import Evidence, Hyperparameters, UnitDocuments

# The posterior of topic proportions given topics and a document, and its Laplace approximation.
#
# With cosines :math:`c = \beta v` of the topics with the document and their Gram matrix
# :math:`G = \beta \beta^\top`, proportions :math:`\theta \sim Dir(\alpha)` of a document
# :math:`v \sim vMF(\beta^\top \theta / \|\beta^\top \theta\|, \kappa_1)` have the density
#
# .. math:: \log p(\theta | \beta, v) = \kappa_1 \frac{\theta^\top c}{\sqrt{\theta^\top G \theta}}
#           + (\alpha - 1) \sum_k \log \theta_k + const
#
# on the simplex: it needs only K numbers of a document. The functions here use centred log-ratios
# y, :math:`\theta = softmax(y)` and :math:`\sum_k y_k = 0`, which have no boundary; the change of
# variables turns :math:`\alpha - 1` into :math:`\alpha`.

_ITERATIONS = 100
_PROMISE = 1e-3
_SOLVING = 20
_POWERS = 8

# The default precision of products is below float32 on some devices.
_einsum = partial(jnp.einsum, precision=lax.Precision.HIGHEST)


class Target(NamedTuple):
    """The posterior of the proportions of B documents."""

    cosines: jax.Array  # inner products of documents and topics, [B, K]
    gram: jax.Array  # inner products of the topics, [K, K]
    alpha: jax.Array  # concentration of the proportions, a scalar
    kappa: jax.Array  # concentration kappa_1 of the documents, a scalar


class Laplace(NamedTuple):
    """A multivariate t distribution of centred log-ratios, centred at the mode of the target.

    It is a good proposal for alpha of 3 or more; below 1, the posterior of many proportions is too
    far from this shape.
    """

    mode: jax.Array  # [B, K]
    # lower Cholesky factor of the precision at the mode, plus 1 along the vector of ones, [B, K, K]
    factor: jax.Array
    inverse: jax.Array  # the inverse of the factor, [B, K, K]
    freedom: jax.Array  # degrees of freedom, a scalar


def target_of(topics: jax.Array, rows: jax.Array, alpha: jax.Array, kappa: jax.Array) -> Target:
    """Return the posterior of the proportions of documents [B, V] given topics [K, V]."""
    dtype = topics.dtype
    return Target(
        _einsum("bv,kv->bk", rows, topics),
        _einsum("kv,lv->kl", topics, topics),
        jnp.asarray(alpha, dtype),
        jnp.asarray(kappa, dtype),
    )


def cosine(target: Target, theta: jax.Array) -> jax.Array:
    """Return the cosines of documents and their mean directions, [..., B], theta [..., B, K]."""
    squares = jnp.sum(_einsum("...k,kl->...l", theta, target.gram) * theta, axis=-1)
    # Avoid division by zero for a vanishing mean direction.
    squares = jnp.maximum(squares, jnp.finfo(squares.dtype).tiny)
    return jnp.sum(theta * target.cosines, axis=-1) * lax.rsqrt(squares)


def log_posterior(target: Target, ratios: jax.Array) -> jax.Array:
    """Return the log density [..., B] of log-ratios [..., B, K], up to a constant."""
    log_theta = jax.nn.log_softmax(ratios)
    return target.kappa * cosine(target, jnp.exp(log_theta)) + target.alpha * jnp.sum(
        log_theta, axis=-1
    )


def log_constant(target: Target) -> jax.Array:
    """Return log p(v, y) minus `log_posterior`, without log c_V(kappa_1), a scalar.

    This is the normaliser of the Dirichlet distribution plus log(K) / 2: log-ratios to the last
    proportion are sqrt(K) times as dense as centred ones.
    """
    k = target.gram.shape[0]
    return gammaln(k * target.alpha) - k * gammaln(target.alpha) + 0.5 * math.log(k)


class Derivatives(NamedTuple):
    """Parts of the derivatives of `log_posterior` at log-ratios.

    Here r^2 = theta'G theta, and h = kappa c'theta / r is the height of the fit. Its gradient has
    no component along theta, because the fit does not depend on the length of theta.
    """

    theta: jax.Array  # proportions, [B, K]
    force: jax.Array  # gradient of the fit, [B, K]
    share: jax.Array  # theta * (G theta) / r^2, which sums to 1, [B, K]
    height: jax.Array  # [B, 1]
    squares: jax.Array  # r^2, [B, 1]


def derivatives_at(target: Target, ratios: jax.Array) -> Derivatives:
    """Return the parts of the derivatives at log-ratios [B, K]."""
    theta = jax.nn.softmax(ratios)
    turned = _einsum("bk,kl->bl", theta, target.gram)
    squares = _sum(turned * theta)
    squares = jnp.maximum(squares, jnp.finfo(theta.dtype).tiny)
    scale = target.kappa * lax.rsqrt(squares)
    height = _sum(theta * target.cosines) * scale
    share = theta * turned / squares
    return Derivatives(
        theta, theta * target.cosines * scale - height * share, share, height, squares
    )


def gradient(target: Target, point: Derivatives) -> jax.Array:
    """Return the gradient of `log_posterior`, [B, K]."""
    return point.force + target.alpha * (1 - point.theta.shape[-1] * point.theta)


def curvature_times(target: Target, point: Derivatives, x: jax.Array) -> jax.Array:
    """Return the product of the negative Hessian of `log_posterior` with x, [B, K]."""
    theta, force, share, height, squares = point
    moved = theta * x
    prior = theta.shape[-1] * target.alpha * (moved - theta * _sum(moved))
    along = _sum(share * x)
    between = theta * _einsum("bk,kl->bl", moved, target.gram) / squares
    data = height * (between - share * along) + force * along + share * _sum(force * x) - force * x
    return prior + data


def curvature(target: Target, point: Derivatives) -> tuple[jax.Array, jax.Array]:
    """Return the negative Hessian of `log_posterior`, and a positive semidefinite matrix near it.

    The latter is the Fisher information plus the magnitude of the force on every log-ratio. Both
    are [B, K, K] and map the vector of ones to 0, or nearly so.
    """
    theta, force, share, height, squares = point
    k = theta.shape[-1]
    eye, outer = jnp.eye(k, dtype=theta.dtype), _outer(theta, theta)
    mixed = _outer(force, share)
    spread = outer * target.gram / squares[..., None] - _outer(share, share)
    prior = k * target.alpha * (theta[..., None] * eye - outer)
    height = height[..., None]
    return (
        prior + height * spread + mixed + jnp.swapaxes(mixed, -1, -2) - force[..., None] * eye,
        prior + jnp.maximum(height, 0) * spread + jnp.abs(force)[..., None] * eye,
    )


def _sum(x: jax.Array) -> jax.Array:
    return jnp.sum(x, axis=-1, keepdims=True)


def _outer(a: jax.Array, b: jax.Array) -> jax.Array:
    return a[..., :, None] * b[..., None, :]


def approximate(target: Target) -> Laplace:
    """Find the mode of every document and the curvature there.

    The result depends only on the target, so it is a valid Metropolis proposal even if the search
    for the mode has not converged.
    """
    mode = _mode(target)
    k = mode.shape[-1]
    ones = jnp.full((k, k), 1 / k, mode.dtype)
    exact, convex = curvature(target, derivatives_at(target, mode))
    exactly = cholesky(exact + ones)

    def instead() -> tuple[jax.Array, jax.Array]:
        # At least the curvature of the prior, in case of rounding errors.
        least = target.alpha * (jnp.eye(k, dtype=mode.dtype) - ones)
        spare = cholesky(convex + 1e-3 * least + ones)
        good = _exists(exactly[0])
        return jnp.where(good, exactly[0], spare[0]), jnp.where(good, exactly[1], spare[1])

    factor, inverse = lax.cond(jnp.all(_exists(exactly[0])), lambda: exactly, instead)
    # A log-ratio has the left tail exp(alpha y), which the proposal has to cover.
    return Laplace(mode, factor, inverse, jnp.clip(3 * target.alpha, 3, 30))


class Scales(NamedTuple):
    """The modes of B posteriors and their widths there."""

    mode: jax.Array  # log-ratios [B, K]
    mass: jax.Array  # curvatures of the log-ratios, [B, K]
    rate: jax.Array  # largest eigenvalue of the curvature relative to its diagonal, [B, 1]


def scales_of(target: Target) -> Scales:
    """Return modes, masses and rates, the last by a few power iterations from a fixed vector."""
    mode = _mode(target)
    point = derivatives_at(target, mode)
    theta, force, share, height, squares = point
    k = theta.shape[-1]
    data = height * (theta**2 * jnp.diagonal(target.gram) / squares - share**2)
    exact = k * target.alpha * theta * (1 - theta) + data + 2 * force * share - force
    mass = jnp.maximum(exact, 0.1 * target.alpha)
    scale = lax.rsqrt(mass)

    def multiply(_: int, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        x = carry[0]
        # A single topic has no curvature, and its x becomes 0.
        x = x * lax.rsqrt(jnp.maximum(_sum(x**2), jnp.finfo(x.dtype).tiny))
        x = scale * curvature_times(target, point, scale * x)
        return x, jnp.sqrt(_sum(x**2))

    x = jnp.cos(jnp.arange(k, dtype=theta.dtype) * 2.4) * jnp.ones_like(theta)
    _, rate = lax.fori_loop(0, _POWERS, multiply, (x, jnp.ones_like(squares)))
    return Scales(mode, mass, jnp.maximum(rate, 1))


def _exists(factor: jax.Array) -> jax.Array:
    return jnp.all(jnp.isfinite(factor), axis=(-2, -1), keepdims=True)


def _mode(target: Target) -> jax.Array:
    """Find the modes by damped Newton steps from equal proportions.

    Steps are computed by conjugate gradients, truncated where the density is not concave (Steihaug
    1983): they only need products with the Gram matrix, which documents share.
    """
    shape, dtype = target.cosines.shape, target.cosines.dtype

    def improve(loop: tuple) -> tuple:
        i, ratios, value, damping, moving = loop
        point = derivatives_at(target, ratios)
        slope = gradient(target, point)
        step = _newton(target, point, slope, damping)
        promise = _sum(slope * step)[:, 0] / 2
        # No proportion changes by more than a factor of e^3 at once.
        longest = jnp.max(jnp.abs(step), axis=-1, keepdims=True)
        step = step * jnp.minimum(1, 3 / jnp.maximum(longest, 1e-30))
        new = log_posterior(target, ratios + step)
        better = moving & (new >= value)
        # Converged, or limited by rounding, unless the promise is small because of the damping.
        done = (promise < _PROMISE) & (~better | (damping <= target.alpha))
        ratios = jnp.where(better[:, None], ratios + step, ratios)
        damping = jnp.where(better, damping / 8, jnp.maximum(damping, target.alpha / 8) * 8)
        return i + 1, ratios, jnp.where(better, new, value), damping, moving & ~done

    start = jnp.zeros(shape, dtype)
    damping = jnp.full(shape[:1], target.alpha / 8, dtype)
    loop = (0, start, log_posterior(target, start), damping, jnp.ones(shape[:1], bool))
    return lax.while_loop(lambda s: (s[0] < _ITERATIONS) & jnp.any(s[4]), improve, loop)[1]


def _newton(target: Target, point: Derivatives, slope: jax.Array, damping: jax.Array) -> jax.Array:
    """Solve (curvature + damping) x = slope to a relative residual of a hundredth."""
    tiny = jnp.finfo(slope.dtype).tiny
    least = 1e-4 * _sum(slope**2)

    def improve(loop: tuple) -> tuple:
        i, x, left, along, square, moving = loop
        turned = curvature_times(target, point, along) + damping[:, None] * along
        bend = _sum(along * turned)
        convex = bend > 0
        # Follow a direction of nonconcavity only in the first iteration.
        length = square / jnp.maximum(jnp.abs(bend), tiny)
        go = moving & (convex | (i == 0))
        x = jnp.where(go, x + length * along, x)
        left = left - length * turned
        new = _sum(left**2)
        along = left + new / jnp.maximum(square, tiny) * along
        return i + 1, x, left, along, new, moving & convex & (new > least)

    start = (0, jnp.zeros_like(slope), slope, slope, _sum(slope**2), least > 0)
    most = min(_SOLVING, slope.shape[-1])
    x = lax.while_loop(lambda s: (s[0] < most) & jnp.any(s[5]), improve, start)[1]
    return _centred(x)


def _centred(ratios: jax.Array) -> jax.Array:
    return ratios - jnp.mean(ratios, axis=-1, keepdims=True)


def draw_proposals(key: jax.Array, fitted: Laplace, shape: tuple[int, ...] = ()) -> jax.Array:
    """Draw log-ratios [*shape, B, K] from the approximation."""
    key_normal, key_scale = jax.random.split(key)
    normal = jax.random.normal(key_normal, (*shape, *fitted.mode.shape), fitted.mode.dtype)
    drawn = _centred(_einsum("...bl,blk->...bk", normal, fitted.inverse))
    half = jnp.asarray(fitted.freedom / 2, drawn.dtype)  # of a chi-square
    log_g = draws.loggamma(key_scale, half, drawn.shape[:-1])
    return fitted.mode + drawn * jnp.exp((jnp.log(half) - log_g) / 2)[..., None]


def log_weights(target: Target, fitted: Laplace, ratios: jax.Array) -> jax.Array:
    """Return log p / q of centred log-ratios [..., B, K], the importance weights, [..., B]."""
    return log_posterior(target, ratios) - log_proposal(fitted, ratios)


def log_proposal(fitted: Laplace, ratios: jax.Array) -> jax.Array:
    """Return the log density of the approximation at centred log-ratios [..., B, K], [..., B]."""
    mode, factor, _, freedom = fitted
    dimension = mode.shape[-1] - 1
    spread = _einsum("...bk,bkl->...bl", ratios - mode, factor)
    distance = jnp.sum(spread**2, axis=-1)
    half = (freedom + dimension) / 2
    log_det = jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
    constant = gammaln(half) - gammaln(freedom / 2) - 0.5 * dimension * jnp.log(freedom * math.pi)
    return constant + log_det - half * jnp.log1p(distance / freedom)


def cholesky(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the lower Cholesky factors of matrices [B, K, K], and the inverses of the factors.

    Both are NaN where a matrix is not positive definite. The loop runs over columns, for all
    matrices at once. On the CPU `jnp.linalg` passes the matrices to LAPACK one by one, and its
    threads and those of the compiled program wait for each other: a step within a loop took forty
    times as long, or did not end at all, unless BLAS was limited to one thread.
    """
    size = matrix.shape[-1]
    places = jnp.arange(size)

    def column(j: jax.Array, both: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        factor, inverse = both
        row = factor[:, j]  # so far only the part left of the diagonal
        # Sums of broadcast products instead of these two einsums give wrong results in jaxlib
        # 0.10.2 on the CPU, for batches of thousands.
        left = matrix[:, :, j] - _einsum("bik,bk->bi", factor, row)
        pivot = jnp.sqrt(left[:, j])[:, None]
        unit = (places == j).astype(matrix.dtype)
        below = (unit - _einsum("bk,bkl->bl", row, inverse)) / pivot
        factor = factor.at[:, :, j].set(jnp.where(places >= j, left / pivot, 0))
        return factor, inverse.at[:, j].set(below)

    return lax.fori_loop(0, size, column, (jnp.zeros_like(matrix), jnp.zeros_like(matrix)))


METHODS = ("hmc", "laplace")


class Local(NamedTuple):
    """Draws of the proportions of documents.

    Attributes:
        method: "hmc", Hamiltonian Monte Carlo in log-ratios, for alpha below 1 with an exchange of
            two proportions after each step; or "laplace", independence Metropolis with proposals
            from Laplace's approximation, good for alpha of 3 or more.
        samples: Samples per document for the update of the topics, N.
        burn_in: Metropolis steps before the first sample.
        num_steps: Leapfrog steps per Metropolis step, by default 6; not for "laplace".
        step_size: Maximum leapfrog step size, relative to the shortest scale of each document's
            posterior at its mode, by default 0.9; every step uses a random share of at least a
            half. Not for "laplace".
    """

    method: str = "hmc"
    samples: int = 1
    burn_in: int = 4
    num_steps: int | None = None
    step_size: float | None = None

    def check(self) -> None:
        """Raise a ValueError unless all settings are in range and used by the method."""
        arguments.choice("method", self.method, METHODS)
        for name, least in (("samples", 1), ("burn_in", 0)):
            arguments.at_least(name, getattr(self, name), least)
        for name in ("num_steps", "step_size") if self.method == "laplace" else ():
            if getattr(self, name) is not None:
                raise ValueError(f"{name} is not used by method 'laplace'; omit it")
        if self.num_steps is not None:
            arguments.at_least("num_steps", self.num_steps, 1)
        if self.step_size is not None and not 0 < self.step_size < math.inf:
            raise ValueError(f"step_size must be finite and positive; it is {self.step_size}")

    def draw(
        self, key: jax.Array, target: Target, start: "Start | None" = None
    ) -> tuple[jax.Array, jax.Array]:
        """Draw the proportions of B documents.

        Every step leaves p(theta | topics, document) invariant, even if mode and curvature are
        inaccurate; a new chain is biased by its start only as far as `burn_in` is too short. Chains
        continue from `start`, or start near the mode if it is None. Return centred log-ratios
        [B, N, K] and the acceptance rate of each document, [B].
        """
        return {"laplace": _laplace, "hmc": _hmc}[self.method](key, target, self, start)


class Start(NamedTuple):
    """The present state of the chains of documents."""

    ratios: jax.Array  # centred log-ratios, [B, K]
    # Whether chains are new and start near the mode, bool: from equal proportions, far in a tail,
    # all moves of a document with few topics would be rejected.
    fresh: jax.Array | bool = False


class Drawn(NamedTuple):
    """Proportions of B documents."""

    ratios: jax.Array  # centred log-ratios, [B, N, K]
    acceptance: jax.Array  # acceptance rate, a scalar
    evidence: Evidence  # statistics for learning the concentrations


def draw_all(
    key: jax.Array,
    documents: UnitDocuments,
    topics: jax.Array,
    ids: jax.Array,
    hyper: Hyperparameters,
    local_step: Local,
    start: Start | None = None,
) -> Drawn:
    """Draw the proportions of documents `ids`, int32 [B], block by block; see `Local.draw`."""
    size, vocabulary = joint.num_documents(documents), topics.shape[1]
    length = joint.block_size(ids.shape[0], vocabulary)
    blocked = joint.blocks_of(ids, length, size)
    begin = None if start is None else joint.blocks_of(start.ratios, length, 0)

    def block(inputs: tuple) -> tuple:
        number, places, ratios = inputs
        begin = None if start is None else start._replace(ratios=ratios)
        rows = joint.dense_rows(documents, places, vocabulary)
        target = target_of(topics, rows, hyper.alpha, hyper.kappa1)
        ratios, acceptance = local_step.draw(jax.random.fold_in(key, number), target, begin)
        log_theta = jax.nn.log_softmax(ratios)
        fit = cosine(target, jnp.exp(jnp.moveaxis(log_theta, 1, 0)))
        measured = acceptance, jnp.mean(fit, axis=0), jnp.mean(log_theta, axis=(1, 2))
        return ratios, tuple(jnp.sum(jnp.where(places < size, x, 0)) for x in measured)

    numbers = lax.iota(jnp.uint32, blocked.shape[0])
    ratios, measured = lax.map(block, (numbers, blocked, begin))
    acceptance, fit, log_theta = (jnp.sum(x) / ids.shape[0] for x in measured)
    ratios = ratios.reshape(-1, *ratios.shape[2:])[: ids.shape[0]]
    return Drawn(ratios, acceptance, Evidence(fit, log_theta))


def _initial(start: Start | None, near_mode: jax.Array) -> jax.Array:
    """Return the initial log-ratios of chains, [B, K]."""
    return near_mode if start is None else jnp.where(start.fresh, near_mode, start.ratios)


class _Proposal(NamedTuple):
    """One of the proposals of each document."""

    number: jax.Array  # its index, int32
    weight: jax.Array  # log of its importance weight


def _laplace(
    key: jax.Array, target: Target, local_step: Local, start: Start | None
) -> tuple[jax.Array, jax.Array]:
    """Run independence Metropolis, with all proposals and weights computed in advance."""
    key_draw, key_accept = jax.random.split(key)
    fitted = approximate(target)
    steps = local_step.burn_in + local_step.samples
    proposals = draw_proposals(key_draw, fitted, (steps + 1,))
    proposals = proposals.at[0].set(_initial(start, proposals[0]))
    weights = log_weights(target, fitted, proposals)
    log_u = -jax.random.exponential(key_accept, (steps, *weights.shape[1:]), weights.dtype)

    def step(
        old: _Proposal, turn: tuple[_Proposal, jax.Array]
    ) -> tuple[_Proposal, tuple[jax.Array, jax.Array]]:
        new, u = turn
        # From a start with a NaN weight every proposal is accepted.
        accept = ~(u >= new.weight - old.weight) & ~jnp.isnan(new.weight)
        chosen = jax.tree.map(partial(jnp.where, accept), new, old)
        return chosen, (chosen.number, accept)

    first = _Proposal(jnp.zeros(weights.shape[1:], jnp.int32), weights[0])
    later = _Proposal(lax.iota(jnp.int32, steps) + 1, weights[1:])
    _, (numbers, accepted) = lax.scan(step, first, (later, log_u))
    draws = jnp.take_along_axis(proposals, numbers[local_step.burn_in :, :, None], axis=0)
    return jnp.moveaxis(draws, 0, 1), jnp.mean(accepted, axis=0, dtype=weights.dtype)


def _hmc(
    key: jax.Array, target: Target, local_step: Local, start: Start | None
) -> tuple[jax.Array, jax.Array]:
    """Run HMC in log-ratios, with their curvatures at the mode as masses."""
    key_start, key = jax.random.split(key)
    scales = scales_of(target)
    noise = jax.random.normal(key_start, scales.mode.shape, scales.mode.dtype)
    ratios = scales.mode + noise * lax.rsqrt(scales.mass)
    begin, step = _trajectories(target, scales, local_step, _initial(start, ratios))
    keys = jax.random.split(key, local_step.burn_in + local_step.samples)
    _, (trace, accepted) = lax.scan(step, begin, keys)
    draws = jnp.moveaxis(trace[local_step.burn_in :], 0, 1)
    draws = draws - jnp.mean(draws, axis=-1, keepdims=True)
    return draws, jnp.mean(accepted, axis=0, dtype=ratios.dtype)


def mean_proportions(
    key: jax.Array, target: Target, burn_in: int | jax.Array, samples: int | jax.Array
) -> jax.Array:
    """Return the mean proportions over `samples` draws of "hmc" after `burn_in` steps, [B, K].

    Chains start at the mode, because from a start far in a tail all first moves may be rejected.
    `burn_in` and `samples` may be traced, so that one program serves all values.
    """
    key = by_native_code(key)
    scales = scales_of(target)
    begin, step = _trajectories(target, scales, Local(), scales.mode)

    def turn(i: jax.Array, loop: tuple[_Point, jax.Array]) -> tuple[_Point, jax.Array]:
        point, total = loop
        point, _ = step(point, jax.random.fold_in(key, i))
        return point, total + jnp.where(i < burn_in, 0, jax.nn.softmax(point.position))

    start = begin, jnp.zeros_like(begin.position)
    return lax.fori_loop(0, burn_in + samples, turn, start)[1] / samples


class _Point(NamedTuple):
    """Positions of the chains of B documents."""

    position: jax.Array  # log-ratios, or proportions, [B, K]
    value: jax.Array  # log density there, [B]
    slope: jax.Array  # its gradient, [B, K]


class _Moving(NamedTuple):
    """Chains on a trajectory."""

    point: _Point
    velocity: jax.Array  # or momentum, [B, K]


class _Turn(NamedTuple):
    """A step of the chains."""

    position: jax.Array  # positions after the step, [B, K]
    accepted: jax.Array  # whether it was accepted, bool [B]


_Step: TypeAlias = Callable[[_Point, jax.Array], tuple[_Point, _Turn]]
"""`(point, key) -> (point, turn)`."""


def _trajectories(
    target: Target, scales: Scales, local_step: Local, ratios: jax.Array
) -> tuple[_Point, _Step]:
    """Return the initial points of "hmc" chains, and their step function.

    The log density is constant along the vector of ones; this component of the position is removed
    in the end.
    """
    mass, rate = scales.mass, scales.rate
    longest = 0.9 if local_step.step_size is None else local_step.step_size
    log_density = partial(log_posterior, target)

    def leap(_: int, moving: _Moving, h: jax.Array) -> _Moving:
        momentum = moving.velocity + h / 2 * moving.point.slope
        new = _point(log_density, moving.point.position + h * momentum / mass)
        return _Moving(new, momentum + h / 2 * new.slope)

    def step(old: _Point, key: jax.Array) -> tuple[_Point, _Turn]:
        key_momentum, key_length, key_accept, key_exchange = jax.random.split(key, 4)
        # Random, because fixed trajectories are multiples of half a period in some documents.
        h = longest * jax.random.uniform(key_length, rate.shape, rate.dtype, 0.5, 1)
        h *= lax.rsqrt(rate)
        momentum = jnp.sqrt(mass) * jax.random.normal(key_momentum, mass.shape, mass.dtype)
        new, last = lax.fori_loop(
            0, local_step.num_steps or 6, partial(leap, h=h), _Moving(old, momentum)
        )
        gain = new.value - old.value + jnp.sum((momentum**2 - last**2) / mass, axis=-1) / 2
        point, turn = _choose(key_accept, gain, new, old)
        exchange = partial(_exchange, key_exchange, log_density)
        point = lax.cond(target.alpha < 1, exchange, lambda point: point, point)
        return point, turn._replace(position=point.position)

    return _point(log_density, ratios), step


def _point(log_density: Callable[[jax.Array], jax.Array], x: jax.Array) -> _Point:
    """Return positions x [B, K] with log densities and their gradients."""

    def value(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        each = log_density(x)
        return jnp.sum(each), each

    slope, each = jax.grad(value, has_aux=True)(x)
    return _Point(x, each, slope)


def _choose(key: jax.Array, gain: jax.Array, new: _Point, old: _Point) -> tuple[_Point, _Turn]:
    """Do the Metropolis test with the gain in log density; NaN is rejected."""
    log_u = -jax.random.exponential(key, gain.shape, gain.dtype)
    accept = (log_u < gain) & jnp.isfinite(gain)
    chosen = jax.tree.map(
        lambda a, b: jnp.where(accept if a.ndim == 1 else accept[:, None], a, b), new, old
    )
    return chosen, _Turn(chosen.position, accept)


def _exchange(key: jax.Array, log_density: Callable[[jax.Array], jax.Array], old: _Point) -> _Point:
    """Exchange two proportions of each document, with a Metropolis test.

    If few proportions are large, trajectories hardly change which ones. One proportion is chosen by
    its size and the other uniformly, which makes the proposal symmetric.
    """
    x = old.position
    if x.shape[1] == 1:
        return old
    key_one, key_other, key_accept = jax.random.split(key, 3)
    one = draws.categorical(key_one, jax.nn.softmax(x))
    other = (one + jax.random.randint(key_other, one.shape, 1, x.shape[1])) % x.shape[1]
    row = jnp.arange(x.shape[0])
    moved = x.at[row, one].set(x[row, other]).at[row, other].set(x[row, one])
    new = _point(log_density, moved)
    return _choose(key_accept, new.value - old.value, new, old)[0]
