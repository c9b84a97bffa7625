"""One move of one site: proposal, evaluation, acceptance and adaptation.

A site whose rows are independent given all other sites (`rows`) moves row by row. The proposal of a
row depends only on that row, and so does its part of the log ratio, so each row is accepted or
rejected separately and has its own step. The density is then evaluated again at the accepted rows.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src.draws.bits import random_words
from simplex_jax._src.draws.uniform import uniform
from simplex_jax._src.numpyro import gamma_moves, rounding, simplex_moves, sites, tuning
from simplex_jax._src.numpyro.density import Density
from simplex_jax._src.numpyro.sites import Rows, Values
from simplex_jax._src.numpyro.stillness import Still
from simplex_jax._src.numpyro.tuning import Evaluate, Tuning

# Exposures are not computed at values below this, or below this share of the prior mean: counts
# there differ only by rounding.
_LEAST = 1e-6


class State(NamedTuple):
    """State of `SCIR`."""

    z: Values  # native values of the sites, by name: log-probabilities, or logs of gamma variates
    tuning: dict[str, Tuning]  # tuning of each site
    density: Density | None  # the log density and its derivatives at z; None where batches change
    raised: Values  # mean share of numbers that underflow, for sites where it matters; `floors`
    still: dict[str, Still]  # which vectors have not moved since the warm-up
    i: jax.Array  # number of steps done
    num_warmup: jax.Array  # number of steps of the warm-up
    rng_key: jax.Array  # key of the next step


KEYS = 4
"""Keys of a move: for its acceptance, a total, counts and gamma variates."""


class Site(NamedTuple):
    """A site, and the options of its moves."""

    name: str
    kind: str
    step_size: jax.Array | None  # of uncorrected moves; None if minibatches decide
    metropolis: bool  # whether moves are corrected
    target_accept: float
    curved: bool  # whether corrected moves of a simplex site have rates
    rows: Rows  # rows accepted or rejected separately


class _Proposal(NamedTuple):
    """A proposed value, the density there, and the numbers that decide on it."""

    y: jax.Array  # native value
    there: Density
    log_ratio: jax.Array  # log acceptance ratio, of each row
    same: jax.Array  # whether shapes are the same at both ends
    bound: jax.Array  # possible rounding error of the log ratio, if the move is exact
    clamped: jax.Array  # fraction of shapes that are not positive
    total: jax.Array  # the total that fits both ends


def jump(keys: jax.Array, site: Site, state: State, evaluate: Evaluate) -> State:
    """Move a site with the full-data gradient; draw it from its law if the move is exact."""
    old, here = state.tuning[site.name], state.density
    assert here is not None
    step = jnp.where(old.exact, jnp.inf, jnp.exp(old.log_step))
    propose = _propose_gamma if site.kind == sites.GAMMA else _propose_simplex
    proposal = propose(keys[1:], site, state, here, evaluate, step)

    probability = jnp.exp(jnp.minimum(proposal.log_ratio, 0))
    probability = jnp.where(jnp.isnan(probability), 0, probability)
    if not site.metropolis:
        # Uncorrected, but never to a point of density 0, from which no gradient leads back.
        possible = jnp.isfinite(proposal.there.without(site.name)).astype(probability.dtype)
        probability = jnp.where(old.exact, probability, possible)
    # The log ratio of an exact move is 0 up to rounding. Equal shapes are not enough: gradients do
    # not see jumps of a likelihood. If a move turns out not to be exact, its proposal used the
    # total, or the exposure, of its start; no later one does.
    log_ratio = proposal.log_ratio.sum()
    exact = old.exact & proposal.same & rounding.confirms(log_ratio, proposal.bound)
    probability = jnp.where(exact, 1, probability)
    # A chain that starts far away first moves uncorrected to where the likelihood is high:
    # corrected moves there would learn steps that are far too short.
    arriving = (state.i < state.num_warmup // 4) & jnp.isfinite(proposal.log_ratio)
    acceptance = jnp.where(arriving, 1, probability)
    word, _ = random_words(keys[0], acceptance.size, acceptance.dtype)
    accept = uniform(word, acceptance.dtype).reshape(acceptance.shape) < acceptance
    z = {**state.z, site.name: jnp.where(accept, proposal.y, state.z[site.name])}
    if site.rows.plates:
        density = evaluate(z)
    else:
        density = jax.tree.map(partial(jnp.where, accept), proposal.there, here)
    learned = tuning.adapted(
        old._replace(exact=exact, bound=proposal.bound),
        state.i,
        state.num_warmup,
        jnp.where(arriving, site.target_accept, probability),
        proposal.clamped,
        proposal.total,
        site.target_accept,
        z[site.name],
    )
    return state._replace(z=z, density=density, tuning={**state.tuning, site.name: learned})


def _propose_simplex(
    keys: jax.Array, site: Site, state: State, here: Density, evaluate: Evaluate, step: jax.Array
) -> _Proposal:
    name = site.name
    y, old, counts = state.z[name], state.tuning[name], here.counts[name]
    (alpha,) = here.parameters[name]
    total = jnp.where(old.exact, old.total.of(counts), old.total.value)
    exposure = jnp.zeros((), y.dtype)
    if site.curved and site.metropolis:
        place = jnp.log(jnp.maximum(old.centre, _LEAST))
        exposure = tuning.exposure(name, state.z, place, evaluate)
        exposure = jnp.where(old.exact, 0, exposure)
    excess = exposure / (alpha.sum(axis=-1, keepdims=True) + total)
    before = simplex_moves.with_scale(keys[0], y, alpha, total)
    a = simplex_moves.shapes(alpha, counts, y, total, excess * jnp.exp(before))
    move = simplex_moves.propose(keys[1:], before, a.used, 1 + excess, step)
    if not site.metropolis:
        assert site.step_size is not None
        h = site.step_size.astype(y.dtype)
        uncorrected = simplex_moves.transition(keys[1], y, alpha, a.raw, total, h)
        move = move._replace(y=jnp.where(old.exact, move.y, uncorrected))
    there = evaluate({**state.z, name: move.y})
    more = excess * jnp.exp(move.after)
    a_there = simplex_moves.shapes(alpha, there.counts[name], move.y, total, more)
    ratio = simplex_moves.log_ratio(move, alpha, total, a.used, a_there.used, step)
    sizes = jnp.abs(counts) + jnp.exp(y) * total + jnp.exp(move.y) * total
    bound = rounding.allowed(
        [rounding.size(here, y, a.used), rounding.size(there, move.y, a_there.used)],
        move.y - y,
        simplex_moves.rounding(a.used, sizes),
    )
    return _Proposal(
        move.y,
        there,
        site.rows.sums(ratio) + (there.without(name) - here.without(name)),
        simplex_moves.same(a.used, a_there.used, sizes),
        bound,
        (a.raw <= 0).mean(dtype=y.dtype),
        tuning.fitted_total((y, move.y), (counts, there.counts[name]), alpha, exposure),
    )


def _propose_gamma(
    keys: jax.Array, site: Site, state: State, here: Density, evaluate: Evaluate, step: jax.Array
) -> _Proposal:
    name = site.name
    y, old = state.z[name], state.tuning[name]
    prior = here.parameters[name]
    # If nothing depends on the site, the exposure is most accurate at its current value.
    place = jnp.where(old.exact, y, jnp.log(old.centre))
    place = jnp.maximum(place, jnp.log(_LEAST * prior[0] / prior[1]))
    exposure = tuning.exposure(name, state.z, place, evaluate)
    law = gamma_moves.law(prior, y, here.counts[name], exposure)
    move = gamma_moves.propose(keys[1:], y, law, step)
    if not site.metropolis:
        assert site.step_size is not None
        h = site.step_size.astype(y.dtype)
        uncorrected = gamma_moves.transition(keys[1], y, prior, law, h)
        move = move._replace(y=jnp.where(old.exact, move.y, uncorrected))
    there = evaluate({**state.z, name: move.y})
    law_there = gamma_moves.law(prior, move.y, there.counts[name], exposure)
    ratio = gamma_moves.log_ratio(move, prior, y, law, law_there, step)
    values = jnp.exp(y), jnp.exp(move.y)
    sizes = jnp.abs(here.counts[name]) + exposure * sum(values)
    bound = rounding.allowed(
        [
            rounding.size(here, y, law.shape, law.rate * values[0]),
            rounding.size(there, move.y, law_there.shape, law.rate * values[1]),
        ],
        move.y - y,
        simplex_moves.rounding(law.shape, sizes),
    )
    return _Proposal(
        move.y,
        there,
        site.rows.sums(ratio) + (there.without(name) - here.without(name)),
        simplex_moves.same(law.shape, law_there.shape, sizes),
        bound,
        (law.raw <= 0).mean(dtype=y.dtype),
        old.total.value,
    )
