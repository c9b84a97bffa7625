"""Adaptation of SCIR to each site: conjugacy of its likelihood, totals, step sizes.

The log ratio of an exact move is 0, up to a rounding error that has a bound.

If a likelihood is conjugate in a site, its log is a sum of n_j y_j - e_j exp(y_j) and terms without
the site, where y is the native value and n the counts, which the shapes a exceed. With u = eps / 2,
half a unit in the last place, the roundings and their sizes are:

- exp(y), by u relatively: n_j u in a log likelihood of n_j counts, and e_j exp(y_j) u;
- its logarithm in a model, and the product of that with n_j: n_j |y_j| u each;
- what a row adds before the sum, mainly log factorials: for n_j counts in R terms, n_j log(1 + n_j
  / R) u, since the log factorial of a term of n_j / R has that size;
- the sum of the terms, in a tree as in XLA: the sum T of their absolute values times u for the last
  level; lower levels matter less, because their errors have independent signs;
- the shapes at both ends, `simplex_moves.rounding`, times the change of y_j that they multiply, and
  where they differ from one another, times `simplex_moves.leverage`;
- in the rest of the ratio, log theta_j of up to |y_j| + log(a_j), as sum and factor of a_j.

Each of the sizes M = T + sum_j [a_j (1 + |y_j| + log(1 + a_j / R)) + e_j exp(y_j)] thus has about 4
roundings, 4 u = 2 eps, at either end. In float32 that is 0.15 nats for 100,000 rows of categories,
of which a run shows about 0.03, and 1e-5 nats for ten. If all moves of a chain are within the bound
B, the density of its distribution is that of the model up to factors between exp(-B) and exp(B). A
larger jump of the log density is seen. A smaller one changes no probability by more than tanh(B /
4), because a factor of exp(B) between two sets moves the share p of one by no more.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from scipy.special import log_softmax

from simplex_jax._src.numpyro import gamma_moves, simplex_moves
from simplex_jax._src.numpyro.density import Density
from simplex_jax._src.numpyro.inflation import Noise
from simplex_jax._src.numpyro.sites import Kind, Rows, Values

# The largest total that is fitted. It makes probabilities move by a part in 10,000, which the log
# density in single precision hardly shows.
_MOST = 1e8

MOST_ROUNDING = 1.0
"""The largest bound, in nats, with which a site is called exact."""


class Total(NamedTuple):
    """The total for the counts of each row of a site, s of `simplex_moves`.

    Any s that does not change with the site is correct, but a bad one is slow. Corrected moves use
    `value`, constant after warm-up. Uncorrected moves use `of`, and so do exact ones, where a sum
    that changed would change the shapes and be noticed.
    """

    value: jax.Array  # s, [..., 1]; 0 for a gamma site
    # Whether the counts of a row have a positive sum that does not depend on the site, which is
    # then s, [..., 1]; true for a gamma site.
    counted: jax.Array

    def of(self, counts: jax.Array) -> jax.Array:
        """Return s for these counts, [..., 1]."""
        return jnp.where(self.counted, counts.sum(axis=-1, keepdims=True), self.value)


class Tuning(NamedTuple):
    """The state of the adaptation to a site: scalars, or one number per row where stated."""

    exact: jax.Array  # whether shapes and log density have shown no dependence on it
    bound: jax.Array  # possible rounding error of the log density at the last move, in nats
    log_step: jax.Array  # of each row; of corrected moves, and of those by minibatches
    accepted: jax.Array  # of each row; mean acceptance probability in this phase
    clamped: jax.Array  # mean fraction of shapes that were not positive in this phase
    total: Total  # the sums of its counts
    centre: jax.Array  # mean value of the site in the warm-up, of its shape
    # None if every step uses all the data.
    noise: Noise | None = None
    last: tuple[jax.Array, jax.Array] | None = None  # shapes and rate from the last minibatch


Evaluate = Callable[[Values], Density]


def probe(name: str, kind: Kind, y: Values, step: jax.Array, evaluate: Evaluate) -> Tuning:
    """Probe the likelihood at two values of a site, given native values of all sites.

    Everything outside the model is one program: a start is not inside a loop, so each operation
    would otherwise be compiled separately, which takes longer than the model.
    """
    value = y[name]
    if not kind.on_simplex:
        # At smaller values, which a start may have, the slopes of the likelihood underflow.
        value = jnp.maximum(value, jnp.log(jnp.finfo(value.dtype).tiny) / 2)
        # Each number changes by a different factor: with one factor, a product of sites would pass.
        places = [value, value + _normals(0, value)]
        gammas = [gamma_conditional(name, {**y, name: place}, evaluate) for place in places]
        return _probe_gamma(name, y[name], places, gammas, step)
    places, densities = _probed(name, y, evaluate)
    return _probe_simplex(name, value, places, densities, step)


def _normals(seed: int, like: jax.Array) -> np.ndarray:
    """Return normal variates, always the same ones, without compilation."""
    return np.random.default_rng(seed).standard_normal(like.shape).astype(like.dtype)


@partial(jax.jit, static_argnames="name")
def _probe_gamma(
    name: str,
    value: jax.Array,
    places: Sequence[jax.Array],
    gammas: Sequence[tuple[gamma_moves.Gamma, Density]],
    step: jax.Array,
) -> Tuning:
    (gamma, here), (other, there) = gammas
    falls = gamma.rate - here.parameters[name][1]
    size = sum(jnp.abs(at.counts[name]) for at in (here, there))
    size += falls * sum(jnp.exp(place) for place in places)
    exact = same_gamma(gamma, other, size)
    exact &= _agrees(name, places, (here, there), (gamma.shape, other.shape), falls)
    yes = jnp.ones((), bool)
    return _unmoved(value, exact, Total(jnp.zeros((), value.dtype), yes), step)


@partial(jax.jit, static_argnames="name")
def _probe_simplex(
    name: str,
    value: jax.Array,
    places: Sequence[jax.Array],
    densities: Sequence[Density],
    step: jax.Array,
) -> Tuning:
    counts = _counts(name, densities)
    (alpha,) = densities[0].parameters[name]
    total = _total(places, counts, alpha)
    one, two = (
        simplex_moves.shapes(alpha, c, place, total.value).used
        for c, place in zip(counts, places, strict=True)
    )
    exact = simplex_moves.same(one, two, jnp.abs(counts[0]) + jnp.exp(places[0]) * total.value)
    exact &= _agrees(name, places, densities, (one, two))
    return _unmoved(value, exact, total, step)


def _unmoved(value: jax.Array, exact: jax.Array, total: Total, step: jax.Array) -> Tuning:
    zero = jnp.zeros((), value.dtype)
    log_step = jnp.log(step).astype(value.dtype)
    return Tuning(exact, zero, log_step, zero, zero, total, jnp.exp(value))


def _agrees(
    name: str,
    y: Sequence[jax.Array],
    densities: Sequence[Density],
    shapes: Sequence[jax.Array],
    falls: jax.Array | float = 0.0,
) -> jax.Array:
    """Return whether the log density changes between two values as shapes and rates predict."""
    rise = y[1] - y[0]
    prior = densities[0].parameters[name][0]
    change = densities[1].without(name) - densities[0].without(name)
    ratio = change + ((prior - shapes[0]) * rise + falls * simplex_moves.gain(*y)).sum()
    sizes = [
        magnitude(density, place, shape, falls * jnp.exp(place))
        for density, place, shape in zip(densities, y, shapes, strict=True)
    ]
    error = simplex_moves.rounding(shapes[0], shapes[0] + falls * jnp.exp(y[1]))
    return confirms(ratio, error_bound(sizes, rise, error))


def safe_total(name: str, y: Values, evaluate: Evaluate) -> Total:
    """Return totals with which no count is negative, even near the corners of the simplex."""
    probed = [_probed(name, y, evaluate, scale) for scale in (1.0, 4.0)]
    places, densities = ([*one, *other] for one, other in zip(*probed, strict=True))
    return _total(places, _counts(name, densities), None)


def _total(
    places: Sequence[jax.Array], counts: Sequence[jax.Array], alpha: jax.Array | None
) -> Total:
    sums = [c.sum(axis=-1, keepdims=True) for c in counts]
    sizes = jnp.abs(counts[0]).sum(axis=-1, keepdims=True)
    counted = (jnp.abs(sums[1] - sums[0]) <= 1e-4 * sizes) & (sums[0] > 1e-3 * sizes)
    # A row without data in this minibatch is assumed to be like the rows with data.
    silent = sizes == 0
    counted = jnp.where(silent, (counted | silent).all(), counted)
    return Total(jnp.where(counted, sums[0], fit_total(places, counts, alpha)), counted)


def split_rows(tuning: Tuning, rows: Rows) -> Tuning:
    """Return the tuning with a step and an acceptance for each row."""
    return tuning._replace(
        log_step=jnp.broadcast_to(tuning.log_step, rows.shape),
        accepted=jnp.broadcast_to(tuning.accepted, rows.shape),
    )


def is_conjugate(name: str, kinds: Mapping[str, Kind], y: Values, evaluate: Evaluate) -> bool:
    """Return whether a site is conjugate at fixed values of all sites; see `is_curved`.

    If this is unknown, the answer is no.
    """
    tuning = probe(name, kinds[name], _fixed_point(y, kinds), jnp.ones(()), evaluate)
    return _known(tuning.exact, otherwise=False)


def _known(flag: jax.Array, *, otherwise: bool) -> bool:
    """Return a flag, or `otherwise` if it is traced."""
    try:
        return bool(flag)
    except jax.errors.TracerBoolConversionError:
        return otherwise


def is_curved(name: str, kinds: Mapping[str, Kind], y: Values, evaluate: Evaluate) -> bool:
    """Return whether counts of a simplex site of one row fall with its probabilities.

    With many rows, counts also fall with other rows, all of which the test scales: rates would be
    too large, and moves shorter for nothing. All sites are at fixed values, so the answer is known
    for chains under `vmap`. If it is unknown, as under `jit`, the answer is yes, which only costs
    time.
    """
    if not kinds[name].on_simplex or y[name].size > y[name].shape[-1]:
        return False
    point = _fixed_point(y, kinds)
    counts = evaluate(point).counts[name], _scaled(name, point, evaluate).counts[name]
    return _known(_falls(*counts), otherwise=True)


def _fixed_point(y: Values, kinds: Mapping[str, Kind]) -> Values:
    """Return fixed native values of all sites."""
    return {name: jnp.asarray(kinds[name].project(_normals(1, x))) for name, x in y.items()}


@jax.jit
def _falls(counts: jax.Array, scaled: jax.Array) -> jax.Array:
    return (counts - scaled > 1e-3 * jnp.abs(counts).max()).any()


def refresh(name: str, kind: Kind, tuning: Tuning, y: Values, evaluate: Evaluate) -> Tuning:
    """Fit the totals of a conjugate site again, after the other sites moved.

    This is only for rows whose counts do not sum to them: a likelihood normalised in the site.
    """
    if not kind.on_simplex:
        return tuning

    old = tuning.total

    def fit() -> jax.Array:
        places, densities = _probed(name, y, evaluate)
        alpha = densities[0].parameters[name][0]
        fitted = fit_total(places, _counts(name, densities), alpha)
        return jnp.where(old.counted, old.value, fitted)

    stale = tuning.exact & ~old.counted.all()
    value = jax.lax.cond(stale, fit, lambda: old.value)
    return tuning._replace(total=old._replace(value=value))


def gamma_conditional(
    name: str, y: Values, evaluate: Evaluate
) -> tuple[gamma_moves.Gamma, Density]:
    """Return the distribution of a gamma site given all others, and the density at y."""
    here = evaluate(y)
    return _gamma_given(name, y[name], here, _scaled(name, y, evaluate)), here


@partial(jax.jit, static_argnames="name")
def _gamma_given(name: str, y: jax.Array, here: Density, scaled: Density) -> gamma_moves.Gamma:
    exposure = gamma_moves.exposure(y, here.counts[name], scaled.counts[name])
    return gamma_moves.conditional(here.parameters[name], y, here.counts[name], exposure)


def exposure(name: str, y: Values, place: jax.Array, evaluate: Evaluate) -> jax.Array:
    """Return the rate at which a site's counts fall with its value, at native values."""
    places = jnp.stack([place, gamma_moves.scale_up(place)])
    # A loop: a second evaluation would compile as long as the first.
    slopes = jax.lax.map(lambda at: _anywhere({**y, name: at}, evaluate).counts[name], places)
    return gamma_moves.exposure(place, *slopes)


def _scaled(name: str, y: Values, evaluate: Evaluate) -> Density:
    return _anywhere({**y, name: gamma_moves.scale_up(y[name])}, evaluate)


def _anywhere(y: Values, evaluate: Evaluate) -> Density:
    """Return the density at values that may be off the simplex.

    numpyro's distributions reject them as parameters if they see concrete numbers, as under
    `jax.disable_jit`.
    """
    with numpyro.validation_enabled(False):
        return evaluate(y)


def same_gamma(one: gamma_moves.Gamma, other: gamma_moves.Gamma, size: jax.Array) -> jax.Array:
    """Return whether two gamma distributions are equal up to rounding; see `simplex_moves.same`."""
    # A rate may scale the variate by a thousandth of its standard deviation.
    shape = jnp.maximum(one.shape, 1)
    ratio = jnp.abs(jnp.log(other.rate) - jnp.log(one.rate))
    allowed = 1e-3 / jnp.sqrt(shape) + 50 * jnp.finfo(shape.dtype).eps
    return simplex_moves.same(one.shape, other.shape, size) & (ratio <= allowed).all()


def adapt(
    tuning: Tuning,
    step: jax.Array,
    num_warmup: jax.Array,
    probability: jax.Array,
    clamped: jax.Array,
    total: jax.Array,
    target: float,
    y: jax.Array,
) -> Tuning:
    """Return the tuning after a move; step size, total and centre change only during warm-up.

    `step` counts the moves before this one; `total` is fitted to the two ends of the move; `target`
    is the target acceptance rate, and y the native value of the site after the move.
    """
    dtype = tuning.log_step.dtype
    # The log density is in double precision if anything in the model is.
    probability = probability.astype(dtype)
    weight = jnp.where(step < num_warmup, (step + 1).astype(dtype) ** -0.6, 0).astype(dtype)
    gain = jnp.where(tuning.exact, 0, weight)
    since = (jnp.where(step < num_warmup, step, step - num_warmup) + 1).astype(dtype)
    log_step = jnp.clip(tuning.log_step + gain * (probability - target), -14.0, 2.0)
    tuning = tuning._replace(
        log_step=log_step.astype(dtype),
        accepted=tuning.accepted + (probability - tuning.accepted) / since,
        clamped=tuning.clamped + (clamped - tuning.clamped) / since,
    )
    value = jnp.exp(y)
    centre = tuning.centre + weight * (value - tuning.centre)
    centre = jnp.where((weight > 0) & jnp.isfinite(value), centre, tuning.centre)
    old = tuning.total.value
    # One move may ask for any total: the mean must not be that of the largest.
    total = jnp.minimum(total, 10 * (old + 1))
    fitted = jnp.where((gain > 0) & jnp.isfinite(total), gain * total + (1 - gain) * old, old)
    return tuning._replace(centre=centre, total=tuning.total._replace(value=fitted))


def fit_total(
    y: Sequence[jax.Array],
    counts: Sequence[jax.Array],
    alpha: jax.Array | None,
    exposure: jax.Array | float = 0.0,
) -> jax.Array:
    """Return the total that makes the shapes at some points most similar, with no count negative.

    The slope is that between the first two points. See `simplex_moves.needed_total` for alpha.
    """
    numerator, denominator = simplex_moves.slope(y[:2], counts[:2], exposure)
    fitted = numerator / jnp.where(denominator > 0, denominator, 1)
    for i in range(0, len(y), 2):
        ends = y[i : i + 2], counts[i : i + 2]
        fitted = jnp.maximum(fitted, simplex_moves.needed_total(*ends, alpha, exposure))
    return jnp.clip(fitted, 0, _MOST)


def _probed(
    name: str, y: Values, evaluate: Evaluate, scale: float = 1.0
) -> tuple[list[jax.Array], list[Density]]:
    """Return two fixed points of the simplex, and the density there."""
    places = _places(y[name], scale)
    return places, [evaluate({**y, name: place}) for place in places]


def _places(y: jax.Array, scale: float) -> list[jax.Array]:
    return [jnp.asarray(log_softmax(scale * _normals(seed, y), axis=-1)) for seed in (0, 1)]


def _counts(name: str, densities: Sequence[Density]) -> list[jax.Array]:
    """Return the counts of a site, or 0 where they are not finite, as can happen at density 0."""
    counts = [density.counts[name] for density in densities]
    return [jnp.where(jnp.isfinite(c), c, 0) for c in counts]


# The rounding error of exact moves.


def magnitude(
    density: Density, y: jax.Array, shape: jax.Array, falls: jax.Array | float = 0.0
) -> jax.Array:
    """Return M at one end of a move, a scalar; `falls` is e exp(y), in the shape of the site."""
    logs = 1 + jnp.abs(y) + jnp.log1p(shape / density.terms.astype(y.dtype))
    return density.size + (shape * logs + falls).sum()


def error_bound(sizes: Sequence[jax.Array], rise: jax.Array, shape_error: jax.Array) -> jax.Array:
    """Return the bound on the log ratio of an exact move, in nats, a scalar.

    The sizes are M at its ends; the rise is the change of the native value.
    """
    epsilon = jnp.finfo(rise.dtype).eps
    return (2 * epsilon * sum(sizes) + (shape_error * jnp.abs(rise)).sum()).astype(rise.dtype)


def exact_str(bound: float) -> str:
    """Return the diagnostics of a conjugate site."""
    if bound > MOST_ROUNDING:
        return f"conjugate, jumps up to {bound:.2g} nats not seen"
    # Omit a bound that no run could distinguish from 0.
    return "exact" + (f" within {bound:.2g} nats" if bound > 0.01 else "")


def rounding_message(name: str, bound: float) -> str:
    """Return the warning about a site with a bound above `MOST_ROUNDING`."""
    return (
        f"rounding hides jumps of the log density of up to {bound:.2g} nats from the draws of "
        f"{name!r}: a constraint, threshold or changepoint of that size would be ignored. If the "
        "model has any, use double precision, jax.config.update('jax_enable_x64', True); if it has "
        "none, the draws are exact"
    )


def confirms(log_ratio: jax.Array, bound: jax.Array) -> jax.Array:
    """Return whether the log density confirms that a move is exact; an infinite one never does."""
    return jnp.isfinite(log_ratio) & (jnp.abs(log_ratio) <= bound)
