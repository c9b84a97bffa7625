"""Adaptation of SCIR to each site: whether its likelihood is conjugate, totals, step sizes."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from scipy.special import log_softmax

from simplex_jax.numpyro_kernels import gamma_moves, rounding, simplex_moves, sites
from simplex_jax.numpyro_kernels.density import Density
from simplex_jax.numpyro_kernels.sites import Rows, Values


class Total(NamedTuple):
    """The sum that the counts of the rows of a site are given, s of `simplex_moves`.

    Any s that does not change with the site is right, and a bad one slow. Corrected moves have
    `value`, constant after the warm-up; `of` serves exact ones, where a sum that did change would
    change the shapes, and so be seen, and uncorrected ones.
    """

    value: jax.Array  # s, [..., 1]; 0 for a gamma site
    # Whether the counts of a row have a positive sum that does not depend on the site, which then
    # is s, [..., 1]; true for a gamma site.
    counted: jax.Array

    def of(self, counts: jax.Array) -> jax.Array:
        """Return s for these counts, [..., 1]."""
        return jnp.where(self.counted, counts.sum(axis=-1, keepdims=True), self.value)


class Noise(NamedTuple):
    """The noise of minibatches; see `minibatches`."""

    shape: jax.Array  # a as the last minibatch showed it, of the shape of the site
    rate: jax.Array  # b likewise; [..., 1] on the simplex
    ratio: jax.Array  # rho, a scalar
    inflation: jax.Array  # factor of standard deviations at the step of the last move, a scalar


class Tuning(NamedTuple):
    """The state of the adaptation to a site. Scalars, unless stated; of each row where it says."""

    exact: jax.Array  # whether neither shapes nor log density have said that they depend on it
    bound: jax.Array  # nats by which the log density may be off by rounding, at the last move
    log_step: jax.Array  # of each row; of corrected moves, and of those by minibatches
    accepted: jax.Array  # of each row; mean acceptance probability in this phase
    clamped: jax.Array  # mean fraction of shapes that were not positive in this phase
    total: Total  # the sums of its counts
    centre: jax.Array  # mean value of the site in the warm-up, of its shape
    noise: Noise | None = None  # None where all the data are shown


Evaluate = Callable[[Values], Density]


def first(name: str, kind: str, y: Values, step: jax.Array, evaluate: Evaluate) -> Tuning:
    """Probe the likelihood at two values of a site, given native values of all sites.

    What is not the model is one program: a start is far from any loop, and would else compile each
    operation by itself, in more time than the model takes.
    """
    value = y[name]
    if kind == sites.GAMMA:
        # The numbers change by factors of their own: by one for all, a product of sites would pass.
        places = [value, value + _normals(0, value)]
        laws = [gamma_law(name, {**y, name: place}, evaluate) for place in places]
        return _first_gamma(name, places, laws, step)
    places, densities = _probed(name, y, evaluate)
    return _first_simplex(name, value, places, densities, step)


def _normals(seed: int, like: jax.Array) -> np.ndarray:
    """Return normal variates, always the same ones, without a program to compile."""
    return np.random.default_rng(seed).standard_normal(like.shape).astype(like.dtype)


@partial(jax.jit, static_argnames="name")
def _first_gamma(
    name: str,
    places: Sequence[jax.Array],
    laws: Sequence[tuple[gamma_moves.Law, Density]],
    step: jax.Array,
) -> Tuning:
    (law, here), (other, there) = laws
    falls = law.rate - here.parameters[name][1]
    exact = same_law(law, other)
    exact &= _agrees(name, places, (here, there), (law.shape, other.shape), falls)
    yes = jnp.ones((), bool)
    return _unmoved(places[0], exact, Total(jnp.zeros((), places[0].dtype), yes), step)


@partial(jax.jit, static_argnames="name")
def _first_simplex(
    name: str,
    value: jax.Array,
    places: Sequence[jax.Array],
    densities: Sequence[Density],
    step: jax.Array,
) -> Tuning:
    counts = _counts(name, densities)
    total = _total(places, counts)
    (alpha,) = densities[0].parameters[name]
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
    """Return whether the log density changes between two values as the shapes and rates say."""
    rise = y[1] - y[0]
    prior = densities[0].parameters[name][0]
    change = densities[1].without(name) - densities[0].without(name)
    ratio = change + ((prior - shapes[0]) * rise + falls * simplex_moves.gain(*y)).sum()
    sizes = [
        rounding.size(density, place, shape, falls * jnp.exp(place))
        for density, place, shape in zip(densities, y, shapes, strict=True)
    ]
    error = simplex_moves.rounding(shapes[0], shapes[0] + falls * jnp.exp(y[1]))
    return rounding.confirms(ratio, rounding.allowed(sizes, rise, error))


def safe_total(name: str, y: Values, evaluate: Evaluate) -> Total:
    """Return sums with which no count is negative, near the corners of the simplex either."""
    probed = [_probed(name, y, evaluate, scale) for scale in (1.0, 4.0)]
    places, densities = ([*one, *other] for one, other in zip(*probed, strict=True))
    return _total(places, _counts(name, densities))


def _total(places: Sequence[jax.Array], counts: Sequence[jax.Array]) -> Total:
    sums = [c.sum(axis=-1, keepdims=True) for c in counts]
    sizes = jnp.abs(counts[0]).sum(axis=-1, keepdims=True)
    counted = (jnp.abs(sums[1] - sums[0]) <= 1e-4 * sizes) & (sums[0] > 1e-3 * sizes)
    # A row of which this minibatch says nothing is taken to be like those of which it does.
    silent = sizes == 0
    counted = jnp.where(silent, (counted | silent).all(), counted)
    return Total(jnp.where(counted, sums[0], fitted_total(places, counts)), counted)


def by_row(tuning: Tuning, rows: Rows) -> Tuning:
    """Return the tuning with a step and an acceptance for each row."""
    return tuning._replace(
        log_step=jnp.broadcast_to(tuning.log_step, rows.shape),
        accepted=jnp.broadcast_to(tuning.accepted, rows.shape),
    )


def is_conjugate(name: str, kinds: Mapping[str, str], y: Values, evaluate: Evaluate) -> bool:
    """Tell whether a site is conjugate at certain values of all sites; see `is_curved`.

    Where it is not known the answer is no.
    """
    gammas = tuple(other for other in y if kinds[other] == sites.GAMMA)
    tuning = first(name, kinds[name], _probe(y, gammas), jnp.ones(()), evaluate)
    return _known(tuning.exact, otherwise=False)


def _known(flag: jax.Array, *, otherwise: bool) -> bool:
    """Return a flag, or what is to be believed of one that is traced."""
    try:
        return bool(flag)
    except jax.errors.TracerBoolConversionError:
        return otherwise


def is_curved(name: str, kinds: Mapping[str, str], y: Values, evaluate: Evaluate) -> bool:
    """Tell whether counts of a simplex site of one row fall with its probabilities.

    Those of many rows fall with other rows as well, which all are scaled to see it: the rates would
    be too large, and moves shorter for nothing. Looked at where all sites have certain values, so
    that it is known of chains under `vmap`. Where it is not, as under `jit`, the answer is yes,
    which costs time only.
    """
    if kinds[name] == sites.GAMMA or y[name].size > y[name].shape[-1]:
        return False
    gammas = tuple(other for other in y if kinds[other] == sites.GAMMA)
    probe = _probe(y, gammas)
    counts = evaluate(probe).counts[name], _scaled(name, probe, evaluate).counts[name]
    return _known(_falls(*counts), otherwise=True)


def _probe(y: Values, gammas: tuple[str, ...]) -> Values:
    """Return native values of all sites, always the same ones."""
    probe = {name: _normals(1, x) for name, x in y.items()}
    return {
        name: jnp.asarray(x if name in gammas else log_softmax(x, axis=-1))
        for name, x in probe.items()
    }


@jax.jit
def _falls(counts: jax.Array, scaled: jax.Array) -> jax.Array:
    return (counts - scaled > 1e-3 * jnp.abs(counts).max()).any()


def refreshed(name: str, kind: str, tuning: Tuning, y: Values, evaluate: Evaluate) -> Tuning:
    """Fit the totals of a conjugate site again, after the other sites moved.

    Only of rows whose counts do not sum to them: a likelihood that is normalised in the site.
    """
    if kind == sites.GAMMA:
        return tuning

    old = tuning.total

    def fit() -> jax.Array:
        places, densities = _probed(name, y, evaluate)
        return jnp.where(old.counted, old.value, fitted_total(places, _counts(name, densities)))

    stale = tuning.exact & ~old.counted.all()
    value = jax.lax.cond(stale, fit, lambda: old.value)
    return tuning._replace(total=old._replace(value=value))


def gamma_law(name: str, y: Values, evaluate: Evaluate) -> tuple[gamma_moves.Law, Density]:
    """Return the law of a gamma site given all others, and the density at y."""
    here = evaluate(y)
    return _gamma_law(name, y[name], here, _scaled(name, y, evaluate)), here


@partial(jax.jit, static_argnames="name")
def _gamma_law(name: str, y: jax.Array, here: Density, scaled: Density) -> gamma_moves.Law:
    exposure = gamma_moves.exposure(y, here.counts[name], scaled.counts[name])
    return gamma_moves.law(here.parameters[name], y, here.counts[name], exposure)


def exposure(name: str, y: Values, place: jax.Array, evaluate: Evaluate) -> jax.Array:
    """Return what the counts of a site fall by with its value, at native values of it."""
    places = jnp.stack([place, _scaled_up(place)])
    # A loop: a second evaluation would take as long to compile as the first.
    slopes = jax.lax.map(lambda at: _anywhere({**y, name: at}, evaluate).counts[name], places)
    return gamma_moves.exposure(place, *slopes)


def _scaled(name: str, y: Values, evaluate: Evaluate) -> Density:
    return _anywhere({**y, name: _scaled_up(y[name])}, evaluate)


def _anywhere(y: Values, evaluate: Evaluate) -> Density:
    """Return the density at values that may be off the simplex.

    numpyro's laws refuse them as parameters where they see numbers, as under `jax.disable_jit`.
    """
    with numpyro.validation_enabled(False):
        return evaluate(y)


def _scaled_up(y: jax.Array) -> jax.Array:
    return y + jnp.log(gamma_moves.SCALING).astype(y.dtype)


def same_law(one: gamma_moves.Law, other: gamma_moves.Law) -> jax.Array:
    """Return whether two gamma laws are equal but for rounding; see `simplex_moves.same`."""
    # The rate scales the variate by what a thousandth of its standard deviation would be.
    shape = jnp.maximum(one.shape, 1)
    ratio = jnp.abs(jnp.log(other.rate) - jnp.log(one.rate))
    allowed = 1e-3 / jnp.sqrt(shape) + 50 * jnp.finfo(shape.dtype).eps
    return simplex_moves.same(one.shape, other.shape, one.shape) & (ratio <= allowed).all()


def adapted(
    tuning: Tuning,
    step: jax.Array,
    num_warmup: jax.Array,
    probability: jax.Array,
    clamped: jax.Array,
    total: jax.Array,
    target: float,
    y: jax.Array,
) -> Tuning:
    """Return the tuning after a move; step size, total and centre change in the warm-up only.

    `step` counts the moves done before; `total` is fitted to the two ends of the move; `target` is
    the acceptance probability aimed at, and y the native value of the site after the move.
    """
    dtype = tuning.log_step.dtype
    gain = jnp.where(
        (step < num_warmup) & ~tuning.exact, (step + 1).astype(dtype) ** -0.6, 0
    ).astype(dtype)
    since = (jnp.where(step < num_warmup, step, step - num_warmup) + 1).astype(dtype)
    log_step = jnp.clip(tuning.log_step + gain * (probability - target), -14.0, 2.0)
    tuning = tuning._replace(
        log_step=log_step.astype(dtype),
        accepted=tuning.accepted + (probability - tuning.accepted) / since,
        clamped=tuning.clamped + (clamped - tuning.clamped) / since,
    )
    value = jnp.exp(y)
    centre = tuning.centre + gain * (value - tuning.centre)
    centre = jnp.where((gain > 0) & jnp.isfinite(value), centre, tuning.centre)
    old = tuning.total.value
    fitted = jnp.where((gain > 0) & jnp.isfinite(total), gain * total + (1 - gain) * old, old)
    return tuning._replace(centre=centre, total=tuning.total._replace(value=fitted))


def fitted_total(
    y: Sequence[jax.Array], counts: Sequence[jax.Array], exposure: jax.Array | float = 0.0
) -> jax.Array:
    """Return the total that makes the shapes at two points most equal, and no count negative."""
    numerator, denominator = simplex_moves.slope(y, counts, exposure)
    fitted = numerator / jnp.where(denominator > 0, denominator, 1)
    for place, c in zip(y, counts, strict=True):
        fitted = jnp.maximum(fitted, simplex_moves.needed_total(place, c, exposure))
    return jnp.maximum(fitted, 0)


def _probed(
    name: str, y: Values, evaluate: Evaluate, scale: float = 1.0
) -> tuple[list[jax.Array], list[Density]]:
    """Return two points of the simplex, always the same ones, and the density there."""
    places = _places(y[name], scale)
    return places, [evaluate({**y, name: place}) for place in places]


def _places(y: jax.Array, scale: float) -> list[jax.Array]:
    return [jnp.asarray(log_softmax(scale * _normals(seed, y), axis=-1)) for seed in (0, 1)]


def _counts(name: str, densities: Sequence[Density]) -> list[jax.Array]:
    """Return the counts of a site, 0 where they are not finite, as they may be at density 0."""
    counts = [density.counts[name] for density in densities]
    return [jnp.where(jnp.isfinite(c), c, 0) for c in counts]
