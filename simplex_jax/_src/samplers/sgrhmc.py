"""SGRHMC, stochastic gradient Riemannian Hamiltonian Monte Carlo (Ma, Chen and Fox 2015)."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr, ndtri
from jax.typing import ArrayLike

from simplex_jax._src import arguments, draws, schedules
from simplex_jax._src.base import Batch, Kernel, Position, PyTree
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.geometry import simplex
from simplex_jax._src.samplers import euler, expanded
from simplex_jax._src.schedules import StepSize

__all__ = ["Info", "State", "build", "init", "update"]

_LOG_2 = math.log(2)
_HALF_PERIOD = math.pi * math.sqrt(2)
_TURNS = 1e3  # beyond this float32 cannot hold the phase of an orbit
_FLAT = 12.0  # a speed in units of s beyond which the normal tail underflows in float32


class State(NamedTuple):
    """State of SGRHMC.

    Attributes:
        position: Log-probabilities log omega, leaves [..., K], normalised along the last axis.
        step: Number of updates done, int32.
        memory: The memory of the estimator.
        log_total: Log of the sum of theta, leaves [..., 1]; +inf until the first update draws it;
            None if the total is refreshed. theta itself is `exp(position + log_total)`.
        momentum: r, leaves [..., K], stationary distribution N(0, 1).
    """

    position: Position
    step: jax.Array
    memory: PyTree
    log_total: PyTree
    momentum: PyTree


class Info(NamedTuple):
    """Diagnostics of one update of SGRHMC, all scalars.

    Attributes:
        step_size: The step size used.
        temperature: Mean square of the momenta, 1 for an exact chain. Noise in estimated counts
            heats the chain: lower the step size or raise the friction.
        clamped: Fraction of estimated counts that were negative and set to 0.
        smallest: Smallest log-probability.
    """

    step_size: jax.Array
    temperature: jax.Array
    clamped: jax.Array
    smallest: jax.Array


def init(
    key: jax.Array,
    position: Position,
    *,
    estimator: Estimator,
    alpha: PyTree | None = None,
    total: str = "carried",
) -> State:
    """Start from probability vectors, leaves [..., K], with momenta drawn from N(0, 1).

    Positive weights are normalised; a weight of 0 would stay 0. The first update draws a carried
    total from its stationary distribution. `alpha` is only checked.

    Raises:
        ValueError: The position has an entry that is not finite and positive, or `alpha` does not
            broadcast to it.
    """
    key_start, key_momentum = jax.random.split(key)
    start = expanded.init(key_start, position, estimator=estimator, alpha=alpha, total=total)
    start = start._replace(position=simplex.interior(start.position))
    return State(*start, momentum=euler.normal_like(key_momentum, start.position))


def update(
    key: jax.Array,
    state: State,
    batch: Batch,
    *,
    estimator: Estimator,
    alpha: PyTree,
    step_size: StepSize,
    friction: ArrayLike = 4.0,
) -> tuple[State, Info]:
    """Estimate the counts from the batch and take one step of every coordinate."""
    h = schedules.evaluate(step_size, state.step)
    start = expanded.State(state.position, state.step, state.memory, state.log_total)
    leaves, memory = expanded.leaves(
        key, start, batch, estimator=estimator, alpha=alpha, counts_in_total=True
    )
    log_thetas, momenta = [], []
    for leaf, r in zip(leaves, jax.tree.leaves(state.momentum), strict=True):
        key_before, key_flow, key_after = jax.random.split(leaf.key, 3)
        a_hat = leaf.prior + jnp.maximum(leaf.counts, 0)
        step = h.astype(r.dtype)
        decay = jnp.exp(-jnp.asarray(friction, r.dtype) * step / 2)
        r = _refresh(key_before, r, decay)
        log_u, r = _hamiltonian(key_flow, _LOG_2 + leaf.log_theta / 2, r, a_hat, step)
        log_thetas.append(2 * (log_u - _LOG_2))
        momenta.append(_refresh(key_after, r, decay))
    moved = expanded.moved(start, log_thetas, memory)
    info = Info(
        step_size=h,
        temperature=expanded.mean([r**2 for r in momenta]),
        clamped=expanded.mean([leaf.counts < 0 for leaf in leaves]),
        smallest=expanded.smallest(moved.position),
    )
    momentum = jax.tree.unflatten(jax.tree.structure(state.position), momenta)
    return State(*moved, momentum=momentum), info


def _refresh(key: jax.Array, r: jax.Array, decay: jax.Array) -> jax.Array:
    """Apply friction and noise to momenta: the exact step of dr = -c r dt + sqrt(2 c) dW."""
    noise = jax.random.normal(key, r.shape, r.dtype)
    return decay * r + jnp.sqrt((1 - decay) * (1 + decay)) * noise


def _hamiltonian(
    key: jax.Array, log_u: jax.Array, r: jax.Array, a: jax.Array, h: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Move u = 2 sqrt(theta), at log u, and r by du = r dt, dr = ((2 a - 1) / u - u / 2) dt."""
    # Kick, drift and kick factor the flow of the oscillator alone, -u / 2, exactly.
    kick = jnp.tan(h / math.sqrt(8)) / math.sqrt(2)
    time = math.sqrt(2) * jnp.sin(h / math.sqrt(2))
    r = r - kick * jnp.exp(log_u)
    key_radius, key_phase = jax.random.split(key)
    repelled = _repelled(key_radius, log_u, r, a, time)
    attracted = _attracted(key_phase, log_u, r, a, time)
    log_u, r = (
        # An invalid concentration must give NaN, not the result of another.
        jnp.where(a > 0, jnp.where(a < 0.5, x, y), jnp.nan)
        for x, y in zip(attracted, repelled, strict=True)
    )
    return log_u, r - kick * jnp.exp(log_u)


def _repelled(
    key: jax.Array, log_u: jax.Array, r: jax.Array, a: jax.Array, time: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Move freely in 2 a dimensions, with radius u; for 2 a >= 1.

    The squared transverse velocities sum to a chi^2 with 2 a - 1 degrees of freedom, whose mean
    pushes u away from 0 by (2 a - 1) / u. Drawn at every step, they leave u^(2 a - 1) exp(-r^2 / 2)
    exactly invariant, which no step of the force itself does.
    """
    transverse = jnp.where(a > 0.5, 2 * jnp.exp(draws.loggamma(key, jnp.maximum(a - 0.5, 1e-6))), 0)
    ahead = jnp.exp(log_u) + time * r
    radius = jnp.sqrt(ahead**2 + time**2 * transverse)
    radius = jnp.maximum(radius, jnp.finfo(radius.dtype).tiny)
    return jnp.log(radius), (ahead * r + time * transverse) / radius


def _attracted(
    key: jax.Array, log_u: jax.Array, r: jax.Array, a: jax.Array, time: jax.Array
) -> tuple[jax.Array, jax.Array]:
    r"""Fall towards 0 and out again under the force -s^2 / u, s^2 = 1 - 2 a; for 2 a < 1.

    The orbit u exp(x^2 / 2) = const, x = r / s, passes from x = +inf at u = 0 out and back to x =
    -inf at u = 0, where it starts again: Phi(-x) grows at the constant rate s exp(-x^2 / 2) / (u
    sqrt(2 pi)).
    """
    limits = jnp.finfo(r.dtype)
    s = jnp.sqrt(jnp.where(a < 0.5, 1 - 2 * a, 1))
    x = r / s
    log_rate = jnp.log(time * s) - x**2 / 2 - 0.5 * math.log(2 * math.pi) - log_u
    tail = ndtr(-jnp.abs(x))
    # Turns since it left 0, or minus the part still to go if it does not get there. From tails, not
    # Phi(x), which is 1 in float32 for x > 5.5.
    turns = jnp.exp(jnp.minimum(log_rate, 80)) + jnp.where(x >= 0, tail, -tail)
    counted = turns < _TURNS
    phase = jnp.where(counted, turns - jnp.floor(turns), jax.random.uniform(key, r.shape, r.dtype))
    falling = ndtri(jnp.clip(-turns, limits.tiny, 0.5))
    # After whole turns, and if drawn, a phase is a multiple of a unit, and 0 stands for up to half.
    unit = limits.eps * jnp.where(counted, turns, 1)
    least = jnp.where(turns < 1, limits.tiny, unit / 2)
    new_x = jnp.where(turns < 0, falling, -ndtri(jnp.clip(phase, least, 1 - limits.epsneg)))

    # At such speeds the force hardly matters: a straight line that conserves energy.
    ahead = jnp.exp(log_u) + time * r
    log_ahead = jnp.log(jnp.maximum(jnp.abs(ahead), limits.tiny))
    speed = jnp.sqrt(jnp.maximum(r**2 - 2 * s**2 * (log_ahead - log_u), 0))
    straight = jnp.abs(x) > _FLAT
    return (
        jnp.where(straight, log_ahead, log_u + (x**2 - new_x**2) / 2),
        jnp.where(straight, jnp.sign(r) * jnp.sign(ahead) * speed, s * new_x),
    )


def build(
    estimator: Estimator,
    alpha: PyTree,
    step_size: StepSize,
    *,
    friction: float = 4.0,
    total: str = "carried",
) -> Kernel:
    r"""SGRHMC on the expanded mean: Riemannian Hamiltonian dynamics of a Dirichlet posterior.

    With :math:`\hat a_j = \alpha_j + \hat n_j` estimated from the batch, a friction c, and a
    momentum r_j for every weight theta_j, a step of length h of the diffusion

    .. math::
        d\theta_j = \sqrt{\theta_j}\; r_j\, dt, \qquad
        dr_j = \Big[\frac{\hat a_j - 1/2}{\sqrt{\theta_j}} - \sqrt{\theta_j} - c\, r_j\Big]\, dt
            + \sqrt{2 c}\; dW_j

    which `samplers.recipe` gives for the metric G = diag(1 / theta) with :math:`G^{-1/2}` in Q, as
    in Ma, Chen and Fox (2015); the 1/2 is their :math:`\mathrm{div}\, G^{-1/2}`. At stationarity
    theta_j ~ Gamma(a_j, 1), r_j ~ N(0, 1), so omega ~ Dirichlet(alpha + n). Three things differ
    from the paper:

    - **Friction** is c for all weights; theirs, D = G^-1 = diag(theta), gives the momenta of small
      weights neither friction nor noise.
    - **The total** is distributed as SCIR's, Gamma(sum(alpha + n)): the weights are independent
      given the counts, and all oscillate with a frequency of about 1. With theirs,
      Gamma(sum(alpha)), omega has the same distribution, but the force of order n theta /
      sum(theta) is stiff.
    - **The step** is made in u = 2 sqrt(theta), where du = r dt, as an Euler step becomes NaN at
      a_j = 0.1 even for h = 0.01: half a step of friction and noise, half a kick by -u / 2, the
      motion under (2 a - 1) / u, and the same halves again. All parts are exact. For a_j < 1/2 that
      motion is an orbit in closed form that falls into 0 and out again. For a_j > 1/2 the repulsion
      comes from 2 a - 1 transverse velocities, with random square sum chi^2(2 a - 1) and the force
      as its mean.

    Bias with exact counts: **none at any h where a_j >= 1/2**. Where a_j < 1/2 the mean of theta_j
    is too large by at most 0.2 h^2 of itself (15% at h = 1, 4% at 0.5 and 1% at 0.25 for a_j = 0.1;
    5%, 1.5% and nothing measurable for 0.3). Noise of variance V in the estimated counts adds about
    V h / (2 c) to the variance of theta_j, so h / c plays the role of SCIR's h; the effect of a
    rare large count on a weight near 0 is less than proportional. The log of a sparse weight
    forgets its scale in a time of about 1 / (a_j^2 c); `samplers.scir` has no such memory and is
    better on sparse data.

    Args:
        estimator: Estimates the full-data counts, see `simplex_jax.estimators`; those of
            `gradients.counts` need a `total`.
        alpha: Prior concentrations, finite and positive: an array that broadcasts to the leaves of
            the position, or a tree of them with the structure of the position.
        step_size: h, positive and below pi sqrt(2), half a period of the oscillation, or a schedule
            of the number of updates. Steps above 1 gain nothing.
        friction: c, positive. 2 is critical; above it the chain moves like SCIR with step h / c.
        total: The sum of theta: "carried" from update to update, or "refreshed" from
            Gamma(sum of prior and counts, 1) before every step, which is right with latent
            assignments too.

    Returns:
        A kernel over log-probabilities.

    Raises:
        ValueError: `alpha`, `step_size`, `friction` or `total` is out of range.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from simplex_jax import estimators
        >>> from simplex_jax.samplers import sgrhmc
        >>> kernel = sgrhmc.build(estimators.categorical(size=4), alpha=0.1, step_size=0.2)
        >>> state = kernel.init(jax.random.key(0), jnp.full(3, 1 / 3))
        >>> state, info = jax.jit(kernel.update)(
        ...     jax.random.key(1), state, jnp.array([0, 0, 0, 1]))
        >>> print(jnp.exp(state.position).sum().round(5))
        1.0
    """
    return expanded.kernel(
        update,
        estimator,
        alpha,
        step_size,
        total=total,
        below=_HALF_PERIOD,
        because=": it is half a period",
        init=init,
        friction=arguments.scalar("friction", friction),
    )
