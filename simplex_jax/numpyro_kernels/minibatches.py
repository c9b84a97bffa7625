r"""Moves of a site with minibatch gradients, and the effect of their noise on the samples.

A site x is Gamma(a, b), or on the simplex with b the sum of its shapes a. A CIR transition over the
time h draws it towards a / b with a variance of :math:`(1 - e^{-2h})\, v / b`,
v = x, or x (1 - x) on the simplex. Minibatches estimate a and b, and their noise adds :math:`(1 -
e^{-h})^2\, \mathrm{Var}[\hat a - \hat b x] / b^2`: :math:`\rho \tanh(h / 2)` times as much, with

.. math:: \rho = \mathrm{Var}[\hat a - \hat b x] \,/\, (b\, v).

Both decay at the same rate, so that standard deviations are too large by the factor
:math:`\sqrt{1 + \rho \tanh(h / 2)}`, the inflation (Baker et al. 2018, Corollary 3.2, for estimates
of any kind). Similar rows, n of N without replacement, have :math:`\rho = (N / n) (N - n) / (N -
1)`; other rows have more, and counts that a prior outweighs have less. It is measured from
successive minibatches at the same x, as a mean over the coordinates of the site, weighted by b v.

If other sites move between two minibatches, a and b change with them, which counts as noise: the
measured inflation is then an upper estimate, and a learned step shorter than necessary.
"""

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp

from simplex_jax import step_sizes
from simplex_jax.numpyro_kernels import gamma_moves, simplex_moves, sites, tuning
from simplex_jax.numpyro_kernels.density import Density
from simplex_jax.numpyro_kernels.moves import Site, State
from simplex_jax.numpyro_kernels.sites import Values
from simplex_jax.numpyro_kernels.tuning import Evaluate, Noise, Total

# The inflation of warnings, and the target of learned steps: the ratio has an error of a few
# percent.
MOST, _AIM = 1.1, 1.08
# The longest learned step, even with hardly any noise: shapes that depend on the site cause a bias
# of the order of the step.
_LONGEST = 0.3
# The weight of the expected ratio, in minibatches.
_EXPECTED = 30


def ratio_of_rows(plates: Mapping[str, tuple[int, int]]) -> float:
    """Return the ratio for similar rows, from the sizes of plates and of their minibatches.

    With several plates it is the largest.
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
    law = _law(name, kind, y, total, evaluate)[0]
    one = jnp.ones((), law.raw.dtype)
    return Noise(law.raw, law.rate, ratio * one, one)


def drift(keys: jax.Array, site: Site, state: State, evaluate: Evaluate) -> State:
    """Move a site with the gradient of a minibatch."""
    name = site.name
    y, old = state.z[name], state.tuning[name]
    law, parameters, total = _law(name, site.kind, state.z, old.total, evaluate)
    step = _step(site, state).astype(y.dtype)
    if site.kind == sites.GAMMA:
        moved = gamma_moves.transition(keys[0], y, parameters, law, step)
    else:
        moved = simplex_moves.transition(keys[0], y, parameters[0], law.raw, total, step)
    clamped = (law.raw <= 0).mean(dtype=y.dtype)
    learned = tuning.adapted(
        old,
        state.i,
        state.num_warmup,
        jnp.ones_like(clamped),
        clamped,
        old.total.value,
        0.0,
        moved,
    )
    noise = _new_noise(site, state, law, step)
    if site.step_size is None:
        next_step = jnp.where(state.i < state.num_warmup, longest(noise.ratio), step)
    else:
        next_step = step
    learned = learned._replace(noise=noise, log_step=jnp.log(next_step).astype(y.dtype))
    return state._replace(z={**state.z, name: moved}, tuning={**state.tuning, name: learned})


def _step(site: Site, state: State) -> jax.Array:
    """Return the given step size, or the learned one, which is approached from above.

    With a step size of c / t the influence of the start decays as t^-c, and the noise is that of an
    average over t minibatches.
    """
    if site.step_size is not None:
        return site.step_size
    learned = jnp.exp(state.tuning[site.name].log_step)
    approaching = jnp.maximum(learned, 2 / (state.i + 2 / _LONGEST))
    return jnp.where(state.i < state.num_warmup, approaching, learned)


def _law(
    name: str, kind: str, y: Values, total: Total, evaluate: Evaluate
) -> tuple[gamma_moves.Law, tuple[jax.Array, ...], jax.Array]:
    """Return the minibatch estimate of a site's distribution, its prior, and its total count.

    For a simplex site it is the distribution of its weights, and the rate is the sum of shapes.
    """
    if kind == sites.GAMMA:
        law, here = tuning.gamma_law(name, y, evaluate)
        return law, here.parameters[name], jnp.zeros(())
    return _law_on_simplex(name, y[name], total, evaluate(y))


@partial(jax.jit, static_argnames="name")
def _law_on_simplex(
    name: str, y: jax.Array, total: Total, here: Density
) -> tuple[gamma_moves.Law, tuple[jax.Array, ...], jax.Array]:
    sums = total.of(here.counts[name])
    a = simplex_moves.shapes(here.parameters[name][0], here.counts[name], y, sums)
    law = gamma_moves.Law(a.used, a.raw.sum(axis=-1, keepdims=True), a.raw)
    return law, here.parameters[name], sums


def _new_noise(site: Site, state: State, law: gamma_moves.Law, step: jax.Array) -> Noise:
    """Update the noise with this minibatch at the site's present value.

    The previous minibatch was evaluated at other values of the other sites, so this overestimates
    rather than underestimates the noise.
    """
    old = state.tuning[site.name].noise
    assert old is not None
    x = jnp.exp(state.z[site.name])
    # Half a squared difference of independent minibatches is an unbiased estimate of the variance.
    change = (law.raw - old.shape) - x * (law.rate - old.rate)
    spread = law.rate * (x if site.kind == sites.GAMMA else x * (1 - x))
    seen = (change**2).sum() / (2 * spread.sum())
    # A mean of the expected noise and of all minibatches, with more weight on later ones.
    gain = 2 / (state.i + _EXPECTED)
    ratio = old.ratio + jnp.where(jnp.isfinite(estimate), gain * (estimate - old.ratio), 0)
    ratio = ratio.astype(old.ratio.dtype)
    return Noise(law.raw, law.rate, ratio, inflation(ratio, step))
