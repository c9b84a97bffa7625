r"""Moves of a site by the gradient of a minibatch, and the effect of its noise on the samples.

A site x has the law Gamma(a, b), or is on the simplex, where b is the sum of its shapes a. A CIR
transition over time h draws it towards a / b with variance :math:`(1 - e^{-2h})\, v / b`, where
v = x, or x (1 - x) on the simplex. Minibatches estimate a and b, and their noise adds :math:`(1 -
e^{-h})^2\, \mathrm{Var}[\hat a - \hat b x] / b^2`: :math:`\rho \tanh(h / 2)` times as much, with

.. math:: \rho = \mathrm{Var}[\hat a - \hat b x] \,/\, (b\, v).

Later steps reduce both in the same proportion, so standard deviations are :math:`\sqrt{1 + \rho
\tanh(h / 2)}` times too large: the inflation (Baker et al. 2018, Corollary 3.2, for estimates of
any kind). For similar rows, n of N without replacement, :math:`\rho = (N / n) (N - n) / (N - 1)`.
It is larger for other rows, and smaller for counts that a prior outweighs. It is measured by
comparing successive minibatches at the same x, as a mean over the numbers of the site, weighted by
b v.

If other sites move between two minibatches, a and b change with them, which counts as noise. The
measured inflation is then an upper estimate, and a learned step is shorter than necessary.
"""

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp

from simplex_jax._src import step_sizes
from simplex_jax._src.numpyro import gamma_moves, simplex_moves, sites, tuning
from simplex_jax._src.numpyro.density import Density
from simplex_jax._src.numpyro.moves import Site, State
from simplex_jax._src.numpyro.sites import Values
from simplex_jax._src.numpyro.tuning import Evaluate, Noise, Total

# The inflation above which to warn, and the lower target of learned steps: the ratio is known only
# to a few percent.
MOST, _AIM = 1.1, 1.08
# The longest learned step, even with hardly any noise: shapes that depend on the site have a bias
# of the order of the step.
_LONGEST = 0.3
# The weight of the expected ratio, in minibatches.
_EXPECTED = 30


def ratio_of_rows(plates: Mapping[str, tuple[int, int]]) -> float:
    """Return the ratio for similar rows, from the sizes of plates and of their minibatches.

    If a model has several plates, return the largest.
    """
    return max(
        (size / shown * (size - shown) / max(size - 1, 1) for size, shown in plates.values()),
        default=0.0,
    )


@jax.jit
def inflation(ratio: jax.Array, step: jax.Array) -> jax.Array:
    """Return the factor by which standard deviations are too large."""
    return jnp.sqrt(1 + ratio * jnp.tanh(step / 2))


@jax.jit
def longest(ratio: jax.Array, most: float = _AIM, largest: float = _LONGEST) -> jax.Array:
    """Return the longest step with at most this inflation, capped at `largest`."""
    return step_sizes.for_inflation(1.0, ratio, most**2 - 1, largest=largest)


def first(name: str, kind: str, y: Values, total: Total, evaluate: Evaluate, ratio: float) -> Noise:
    """Return the noise before the first step, for the expected ratio."""
    law = _minibatch_law(name, kind, y, total, evaluate)[0]
    one = jnp.ones((), law.raw.dtype)
    return Noise(law.raw, law.rate, ratio * one, one)


def drift(keys: jax.Array, site: Site, state: State, evaluate: Evaluate) -> State:
    """Move a site with the gradient of a minibatch."""
    name = site.name
    y, old = state.z[name], state.tuning[name]
    law, parameters, total = _minibatch_law(name, site.kind, state.z, old.total, evaluate)
    step = _step(site, state).astype(y.dtype)
    if site.kind == sites.GAMMA:
        new = gamma_moves.transition(keys[0], y, parameters, law, step)
    else:
        new = simplex_moves.transition(keys[0], y, parameters[0], law.raw, total, step)
    clamped = (law.raw <= 0).mean(dtype=y.dtype)
    learned = tuning.adapted(
        old,
        state.i,
        state.num_warmup,
        jnp.ones_like(clamped),
        clamped,
        old.total.value,
        0.0,
        new,
    )
    noise = _updated_noise(site, state, law, step)
    if site.step_size is None:
        next_step = jnp.where(state.i < state.num_warmup, longest(noise.ratio), step)
    else:
        next_step = step
    learned = learned._replace(noise=noise, log_step=jnp.log(next_step).astype(y.dtype))
    return state._replace(z={**state.z, name: new}, tuning={**state.tuning, name: learned})


def _step(site: Site, state: State) -> jax.Array:
    """Return the given step, or else the learned one, approached from longer steps.

    A step of c / t forgets the start as t^-c, and averages the noise of t minibatches.
    """
    if site.step_size is not None:
        return site.step_size
    learned = jnp.exp(state.tuning[site.name].log_step)
    approaching = jnp.maximum(learned, 2 / (state.i + 2 / _LONGEST))
    return jnp.where(state.i < state.num_warmup, approaching, learned)


def _minibatch_law(
    name: str, kind: str, y: Values, total: Total, evaluate: Evaluate
) -> tuple[gamma_moves.Law, tuple[jax.Array, ...], jax.Array]:
    """Return the law of a site as estimated from a minibatch, its prior, and its counts' total.

    For a simplex site it is the law of its weights, with the sum of their shapes as rate.
    """
    if kind == sites.GAMMA:
        law, here = tuning.gamma_law(name, y, evaluate)
        return law, here.parameters[name], jnp.zeros(())
    return _minibatch_law_on_simplex(name, y[name], total, evaluate(y))


@partial(jax.jit, static_argnames="name")
def _minibatch_law_on_simplex(
    name: str, y: jax.Array, total: Total, here: Density
) -> tuple[gamma_moves.Law, tuple[jax.Array, ...], jax.Array]:
    sums = total.of(here.counts[name])
    a = simplex_moves.shapes(here.parameters[name][0], here.counts[name], y, sums)
    law = gamma_moves.Law(a.used, a.raw.sum(axis=-1, keepdims=True), a.raw)
    return law, here.parameters[name], sums


def _updated_noise(site: Site, state: State, law: gamma_moves.Law, step: jax.Array) -> Noise:
    """Return the noise, updated with this minibatch at the current value of the site.

    The previous minibatch was seen at other values of the other sites, so noise is overestimated
    rather than underestimated.
    """
    old = state.tuning[site.name].noise
    assert old is not None
    x = jnp.exp(state.z[site.name])
    # For independent minibatches, half a squared difference has the variance as its mean.
    change = (law.raw - old.shape) - x * (law.rate - old.rate)
    spread = law.rate * (x if site.kind == sites.GAMMA else x * (1 - x))
    estimate = (change**2).sum() / (2 * spread.sum())
    # A mean of the expected ratio and all minibatches, with more weight on later ones.
    gain = 2 / (state.i + _EXPECTED)
    ratio = old.ratio + jnp.where(jnp.isfinite(estimate), gain * (estimate - old.ratio), 0)
    ratio = ratio.astype(old.ratio.dtype)
    return Noise(law.raw, law.rate, ratio, inflation(ratio, step))
