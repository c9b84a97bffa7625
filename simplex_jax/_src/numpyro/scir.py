"""SCIR for the simplex and gamma sites of any numpyro model.

A move of a site is a proposal (`simplex_moves`, `gamma_moves`), an evaluation of the density, its
acceptance, and the adaptation of the site (`tuning`). A site whose rows are independent given all
other sites (`rows`) moves row by row. The proposal of a row depends only on that row, and so does
its part of the log ratio, so each row is accepted or rejected separately and has its own step. The
density is then evaluated again at the accepted rows.

With minibatches, moves are not corrected; see `inflation` for the effect of their noise. If other
sites move between two minibatches, shapes and rates change with them, which counts as noise. The
measured inflation is then an upper estimate, and a learned step is shorter than necessary.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from simplex_jax._src import schedules
from simplex_jax._src.draws.bits import random_words
from simplex_jax._src.draws.uniform import uniform
from simplex_jax._src.numpyro import density as densities
from simplex_jax._src.numpyro import (
    gamma_moves,
    inflation,
    monitors,
    rows,
    simplex_moves,
    sites,
    tuning,
)
from simplex_jax._src.numpyro.density import Density, Target
from simplex_jax._src.numpyro.inflation import Noise
from simplex_jax._src.numpyro.kernel import ModelKernel, over_chains
from simplex_jax._src.numpyro.monitors import Still
from simplex_jax._src.numpyro.sites import Kind, Layout, Model, Rows, Values
from simplex_jax._src.numpyro.tuning import Evaluate, Total, Tuning
from simplex_jax._src.schedules import StepSize

# Step of uncorrected moves with all the data, and start of the adaptation of corrected ones.
_STEP_SIZE = 0.3
# The longest learned step with minibatches, even with hardly any noise: shapes that depend on the
# site have a bias of the order of the step.
_LONGEST = 0.3
# The inflation that learned steps aim at, below that of a warning: the ratio is known only to a few
# percent.
_AIM = 1.08
# The weight of the expected ratio, in minibatches.
_EXPECTED = 30
# Exposures are not computed at values below this, or below this share of the prior mean: counts
# there differ only by rounding.
_LEAST = 1e-6
# Keys of a move: for its acceptance, a total, counts and gamma variates.
_KEYS = 4


class State(NamedTuple):
    """State of `SCIR`."""

    z: Values  # native values of the sites, by name: log-probabilities, or logs of gamma variates
    tuning: dict[str, Tuning]  # tuning of each site
    density: Density | None  # the log density and its derivatives at z; None where batches change
    raised: Values  # mean share of numbers that underflow, for sites where it matters; `monitors`
    still: dict[str, Still]  # which vectors have not moved since the warm-up
    i: jax.Array  # number of steps done
    num_warmup: jax.Array  # number of steps of the warm-up
    rng_key: jax.Array  # key of the next step


class Site(NamedTuple):
    """A site, and the options of its moves."""

    name: str
    kind: Kind
    step_size: jax.Array | None  # of uncorrected moves; None if minibatches decide
    metropolis: bool  # whether moves are corrected
    target_accept: float
    curved: bool  # whether corrected moves of a simplex site have rates
    rows: Rows  # rows accepted or rejected separately


class SCIR(ModelKernel):
    r"""Stochastic Cox-Ingersoll-Ross moves of the simplex and gamma sites of a numpyro model.

    It moves ``Dirichlet`` sites, all others whose support is the simplex, `LogDirichlet`, and
    ``Gamma`` and ``Exponential`` sites, one after another. For any likelihood, one gradient of the
    model is enough: it gives generalised counts c = dL / d log omega, which determine the shapes of
    the gamma distributions behind the site. There is no bijection and no
    mass matrix: a category of probability e^-1000 is as easy as any other.

    - If the likelihood is **conjugate** in the site, the shapes do not depend on the site, and the
      log density changes as they predict, up to rounding. Every step checks both, and the site is
      then drawn from its distribution given all other sites.
    - Otherwise a step is a CIR transition with shapes from the gradient, as in Baker et al. 2018,
      with a Metropolis correction, so the chain is exact. The step size is learned during warm-up.
      Its first quarter accepts every finite move, because a start may be far away. With
      ``metropolis=False`` there is no correction, and the bias is of the order of ``step_size``.
    - In a model with ``plate(..., subsample_size=n)``, every step uses a fresh minibatch without
      correction, and jumps of a likelihood are not seen. Minibatch noise multiplies the standard
      deviations of the samples by about sqrt(1 + (N / n) tanh(h / 2)). This *inflation* is measured
      and shown, with a warning above 1.1; by default the step is learned during warm-up so that it
      stays below. Moves of other sites count as noise, which makes it an upper estimate.
    - Uncorrected rows with a nonpositive shape, which a steep likelihood or a noisy minibatch can
      cause, take a reflected Euler step of SGRLD instead. The progress bar and
      `get_diagnostics_str` show how many ("clamped").

    It works alone if these are all the latent sites, and otherwise as a block of the ``Gibbs``
    kernel of numpyro 0.22: ``Gibbs([(SCIR(model), ["weights"]), (NUTS(model), None)])``. All chain
    methods work ("vectorized" only alone, as ``Gibbs`` refuses it). Samples are ordinary
    probabilities, raised to the smallest normal number if they underflow. If another kernel learns
    a concentration from a sparse site, use `LogDirichlet`, which has no such floor:
    `get_diagnostics_str` shows how many were raised there ("raised"), and warns. ``init_params``
    are constrained values.

    Args:
        model: A numpyro model.
        step_size: Step size h of inexact moves, or a schedule of it. For corrected moves,
            adaptation starts there. By default 0.3, or with minibatches the longest, up to 0.3, at
            which their noise has little effect.
        metropolis: Whether moves are corrected, if the model has no minibatches.
        target_accept: Target acceptance rate of the step size adaptation.
        init_strategy: One of ``numpyro.infer.init_to_...``; by default sites start from flat
            distributions. If the density is 0 there, other starts are tried; see `init`.

    Raises:
        ValueError: An argument is out of range. When it runs: the model has latent sites of other
            kinds, local to a minibatch, or discrete; the message says what to do instead.
        RuntimeError: When it runs: no start with a finite log density was found.

    Example:
        >>> import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> from simplex_jax.numpyro import SCIR
        >>> def model(x):
        ...     p = numpyro.sample("p", dist.Dirichlet(jnp.full(3, 0.5)))
        ...     with numpyro.plate("rows", len(x)):
        ...         numpyro.sample("x", dist.Categorical(p), obs=x)
        >>> mcmc = numpyro.infer.MCMC(
        ...     SCIR(model), num_warmup=0, num_samples=2000, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), jnp.array([0, 0, 0, 1]))
        >>> print(mcmc.get_samples()["p"].mean(axis=0).round(1))  # (3.5, 1.5, 0.5) / 5.5
        [0.6 0.3 0.1]
        >>> mcmc.sampler.get_diagnostics_str(mcmc.last_state)
        'p exact'
    """

    def __init__(
        self,
        model: Model,
        step_size: StepSize | None = None,
        *,
        metropolis: bool = True,
        target_accept: float = 0.6,
        init_strategy: Callable | None = None,
    ) -> None:
        if step_size is not None:
            schedules.check(step_size)
        if not 0 < target_accept < 1:
            raise ValueError(f"target_accept must be between 0 and 1; it is {target_accept!r}")
        super().__init__(model, init_strategy)
        self._step_size = step_size
        self._metropolis = metropolis
        self._target_accept = target_accept
        self._curved: frozenset[str] = frozenset()
        self._rows: dict[str, Rows] = {}

    def _options(self) -> list[str]:
        options = [] if self._step_size is None else [f"step_size={self._step_size!r}"]
        options += [] if self._metropolis else ["metropolis=False"]
        options += [] if self._target_accept == 0.6 else [f"target_accept={self._target_accept}"]
        return options + super()._options()

    def _check(self, layout: Layout) -> None:
        movable = sites.native_names(layout.kinds)
        rest = [name for name in layout.kinds if name not in movable]
        others, own = sites.list_str(rest), sites.list_str(movable)
        if not movable:
            raise ValueError(
                "SCIR moves Dirichlet, LogDirichlet, Gamma and Exponential sites, and the model "
                f"has none: its latent sites are {others}. Use NUTS, or SGMCMC for minibatches"
            )
        if rest and layout.subsampled:
            raise ValueError(
                f"SCIR moves simplex and gamma sites, not {others}; for a model with minibatches "
                f"use SGMCMC(model, {{...}}) with one kernel for {own} and another for the rest"
            )
        if rest:
            raise ValueError(
                f"SCIR moves simplex and gamma sites, not {others}; with numpyro 0.22 use "
                f"Gibbs([(SCIR(model), {own}), (NUTS(model), None)]), and with an older one "
                "SGMCMC(model, {...}) with a kernel for each"
            )

    def _initialize(
        self, key: jax.Array, values: Values, target: Target, num_warmup: int
    ) -> tuple[State, jax.Array]:
        kinds = target.layout.kinds
        if not target.layout.subsampled and densities.is_random(target, values):
            raise ValueError(
                "the log density of the model is random itself, for example by numpyro.prng_key(), "
                "and SCIR needs an exact one; use SGMCMC(model, {...})"
            )
        if not target.layout.subsampled:
            densities.check_precision(target, values)
        z = jax.jit(partial(_native, target.layout))(values)
        evaluate = jax.jit(partial(densities.evaluate, target))
        step = self._step_size_at(target.layout, jnp.zeros((), jnp.int32))
        ratio = inflation.ratio_of_rows(target.layout.subsampled)
        # The arguments may have minibatches now, unlike those of an earlier start.
        self._curved, self._rows = frozenset(), {}
        if step is None:
            step = _longest(jnp.asarray(ratio))
        if target.layout.subsampled:
            self._check_step(target.layout, ratio, num_warmup)
        else:
            self._curved = frozenset(
                name for name in kinds if tuning.is_curved(name, kinds, z, evaluate)
            )
            if self._metropolis:
                self._rows = self._independent_rows(target, z, evaluate)
        learned = {}
        for name, kind in kinds.items():
            site = tuning.probe(name, kind, z, step, evaluate)
            site = tuning.split_rows(site, self._rows.get(name, Rows()))
            if target.layout.subsampled:
                site = _expect_noise(name, kind, z, site, evaluate, ratio)
            learned[name] = site
        density = jax.jit(partial(densities.evaluate, target, rows=self._rows))(z)
        state = State(
            z=z,
            tuning=learned,
            density=None if target.layout.subsampled else density,
            raised=monitors.initialize_raised(target, values, tuple(kinds)),
            still=monitors.initialize_still(z, [name for name in z if kinds[name].on_simplex]),
            i=jnp.zeros((), jnp.int32),
            num_warmup=jnp.asarray(num_warmup, jnp.int32),
            rng_key=key,
        )
        return state, density.is_finite()

    def _independent_rows(
        self, target: Target, z: Values, evaluate: tuning.Evaluate
    ) -> dict[str, Rows]:
        """Return the rows of sites that move row by row; conjugate sites need not."""
        rows_by_name = {name: rows.independent(target, z, name) for name in z}
        return {
            name: site_rows
            for name, site_rows in rows_by_name.items()
            if site_rows.plates
            if not tuning.is_conjugate(name, target.layout.kinds, z, evaluate)
        }

    def _is_valid(self, values: Values, target: Target) -> jax.Array:
        return densities.evaluate(target, _native(target.layout, values)).is_finite()

    def _step(self, key: jax.Array, state: State, target: Target) -> State:
        """Move every site once."""
        step = self._step_size_at(target.layout, state.i)
        kinds = target.layout.kinds
        move = minibatch_step if target.layout.subsampled else metropolis_step
        evaluate = partial(densities.evaluate, target, rows=self._rows)
        # All keys at once: each call is a separate loop, slow to compile.
        keys = jax.random.split(key, (len(kinds), _KEYS))
        for (name, kind), keys_site in zip(kinds.items(), keys, strict=True):
            site = Site(
                name,
                kind,
                step,
                self._metropolis,
                self._target_accept,
                name in self._curved,
                self._rows.get(name, Rows()),
            )
            state = move(keys_site, site, state, evaluate)
        return state

    def _step_size_at(self, layout: Layout, i: jax.Array) -> jax.Array | None:
        """Return the step of uncorrected moves; None if minibatches decide."""
        if self._step_size is None:
            return None if layout.subsampled else jnp.asarray(_STEP_SIZE)
        return jnp.asarray(schedules.evaluate(self._step_size, i))

    def _check_step(self, layout: Layout, ratio: float, num_warmup: int) -> None:
        """Warn if a given step is too long for minibatches of similar rows."""
        if self._step_size is None:
            return
        with jax.ensure_compile_time_eval():
            step = schedules.evaluate(self._step_size, jnp.asarray(num_warmup, jnp.int32))
            noise = _noise(jnp.asarray(ratio), step)
        names = sites.list_str(layout.kinds)
        hint = "; if step_size is left out, SCIR learns one"
        inflation.check_expected(layout.subsampled, names, noise, hint)

    def refresh(
        self, state: State, model_args: tuple, model_kwargs: Mapping[str, Any] | None
    ) -> State:
        """Evaluate the density again after another block of a ``Gibbs`` kernel moved."""
        if state.density is None:
            return state
        target = self._target(model_args, model_kwargs, jax.random.key(0))
        evaluate = partial(densities.evaluate, target, rows=self._rows)
        learned = {
            name: tuning.refresh(name, self._inspected.kinds[name], old, state.z, evaluate)
            for name, old in state.tuning.items()
        }
        return state._replace(density=evaluate(state.z), tuning=learned)

    def _constrained(self, target: Target, z: Values) -> Values:
        kinds = target.layout.kinds
        return {name: kinds[name].constrain(y) for name, y in z.items()}

    def _warnings(self, state: State) -> list[str]:
        messages = super()._warnings(state)
        shown = over_chains(state, state.tuning)
        if state.density is not None:
            return messages + [
                tuning.rounding_message(name, float(site.bound))
                for name, site in shown.items()
                if site.exact == 1 and site.bound > tuning.MOST_ROUNDING
            ]
        if (state.i < state.num_warmup).any():
            return messages
        return messages + [
            inflation.message(repr(name), site.noise)
            for name, site in shown.items()
            if site.noise.inflation > inflation.MOST
        ]

    def _diagnostics_str(self, state: State) -> str:
        parts = []
        shown, raised = over_chains(state, (state.tuning, state.raised))
        for name in self._inspected.kinds:
            site = shown[name]
            clamped = f"clamped {float(site.clamped):.1%}"
            if state.density is None:
                about = "conjugate" if site.exact == 1 else "shapes by gradient"
                step, factor = float(jnp.exp(site.log_step)), float(site.noise.inflation)
                parts.append(
                    f"{name} minibatch, {about}, h={step:.2g}, inflation {factor:.2f}, {clamped}"
                )
            elif site.exact == 1:
                parts.append(f"{name} {tuning.exact_str(float(site.bound))}")
            elif self._metropolis:
                accepted = f"accepted {float(site.accepted.mean()):.2f}"
                parts.append(f"{name} {_steps(site.log_step)}, {accepted}, {clamped}")
            else:
                parts.append(f"{name} uncorrected, {clamped}")
            parts[-1] += monitors.raised_str(raised, name)
        return "; ".join(parts)


# Moves with all the data.


class _Proposal(NamedTuple):
    """A proposed value, and the numbers that decide on it: of both ends, where it says so."""

    y: jax.Array  # native value
    there: Density
    log_ratio: jax.Array  # of the acceptance, without the change of the density
    shapes: tuple[jax.Array, jax.Array]  # of the gamma distributions at both ends
    falls: tuple[jax.Array, jax.Array] | tuple[float, float]  # rate times value at both ends
    sizes: jax.Array  # of the numbers whose difference a shape is
    leverage: jax.Array  # nats for each unit by which the shape at the other end is off
    clamped: jax.Array  # fraction of shapes that are not positive
    total: jax.Array  # the total that fits both ends


def metropolis_step(keys: jax.Array, site: Site, state: State, evaluate: Evaluate) -> State:
    """Move a site with the full-data gradient; draw it anew if the move is exact."""
    old, here = state.tuning[site.name], state.density
    assert here is not None
    step = jnp.where(old.exact, jnp.inf, jnp.exp(old.log_step))
    proposal = _moves(site.kind).propose(keys[1:], site, state, here, evaluate, step)
    y, there, shapes = state.z[site.name], proposal.there, proposal.shapes
    change = there.without(site.name) - here.without(site.name)
    ratio_by_row = site.rows.sums(proposal.log_ratio) + change
    bound = tuning.error_bound(
        [
            tuning.magnitude(here, y, shapes[0], proposal.falls[0]),
            tuning.magnitude(there, proposal.y, shapes[1], proposal.falls[1]),
        ],
        jnp.abs(proposal.y - y) + proposal.leverage,
        simplex_moves.rounding(shapes[0], proposal.sizes),
    )

    probability = jnp.exp(jnp.minimum(ratio_by_row, 0))
    probability = jnp.where(jnp.isnan(probability), 0, probability)
    if not site.metropolis:
        # Uncorrected, but never to a point of density 0, from which no gradient leads back.
        possible = jnp.isfinite(there.without(site.name)).astype(probability.dtype)
        probability = jnp.where(old.exact, probability, possible)
    # The log ratio of an exact move is 0 up to rounding. Equal shapes are not enough: gradients do
    # not see jumps of a likelihood. If a move turns out not to be exact, its proposal used the
    # total, or the exposure, of its start; no later one does.
    same = simplex_moves.same(*shapes, proposal.sizes)
    exact = old.exact & same & tuning.confirms(ratio_by_row.sum(), bound)
    probability = jnp.where(exact, 1, probability)
    # A chain that starts far away first moves uncorrected to where the likelihood is high:
    # corrected moves there would learn steps that are far too short.
    arriving = (state.i < state.num_warmup // 4) & jnp.isfinite(ratio_by_row)
    acceptance = jnp.where(arriving, 1, probability)
    word, _ = random_words(keys[0], acceptance.size, acceptance.dtype)
    accept = uniform(word, acceptance.dtype).reshape(acceptance.shape) < acceptance
    z = {**state.z, site.name: jnp.where(accept, proposal.y, y)}
    if site.rows.plates:
        density = evaluate(z)
    else:
        density = jax.tree.map(partial(jnp.where, accept), there, here)
    learned = tuning.adapt(
        old._replace(exact=exact, bound=bound),
        state.i,
        state.num_warmup,
        jnp.where(arriving, site.target_accept, probability),
        proposal.clamped,
        proposal.total,
        site.target_accept,
        z[site.name],
    )
    return state._replace(z=z, density=density, tuning={**state.tuning, site.name: learned})


def _propose_on_simplex(
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
    return _Proposal(
        move.y,
        there,
        ratio,
        (a.used, a_there.used),
        (0.0, 0.0),
        sizes,
        simplex_moves.leverage(before, a.used),
        (a.raw <= 0).mean(dtype=y.dtype),
        tuning.fit_total((y, move.y), (counts, there.counts[name]), alpha, exposure),
    )


def _propose_gamma(
    keys: jax.Array, site: Site, state: State, here: Density, evaluate: Evaluate, step: jax.Array
) -> _Proposal:
    name = site.name
    y, old = state.z[name], state.tuning[name]
    prior = here.parameters[name]
    # If nothing depends on the site, any value will do, and the exposure is the more accurate the
    # larger it is beside the count.
    centre = jnp.log(old.centre)
    place = jnp.where(old.exact, jnp.maximum(y, centre), centre)
    place = jnp.maximum(place, jnp.log(_LEAST * prior[0] / prior[1]))
    exposure = tuning.exposure(name, state.z, place, evaluate)
    gamma = gamma_moves.conditional(prior, y, here.counts[name], exposure)
    move = gamma_moves.propose(keys[1:], y, gamma, step)
    if not site.metropolis:
        assert site.step_size is not None
        h = site.step_size.astype(y.dtype)
        uncorrected = gamma_moves.transition(keys[1], y, prior, gamma, h)
        move = move._replace(y=jnp.where(old.exact, move.y, uncorrected))
    there = evaluate({**state.z, name: move.y})
    gamma_there = gamma_moves.conditional(prior, move.y, there.counts[name], exposure)
    ratio = gamma_moves.log_ratio(move, prior, y, gamma, gamma_there, step)
    values = jnp.exp(y), jnp.exp(move.y)
    # The exposure has the rounding of the counts, relative to the value at which it was measured.
    rounded = jnp.abs(gamma.raw - prior[0]) * jnp.exp(move.y - place)
    sizes = jnp.abs(here.counts[name]) + exposure * sum(values) + rounded
    return _Proposal(
        move.y,
        there,
        ratio,
        (gamma.shape, gamma_there.shape),
        (gamma.rate * values[0], gamma.rate * values[1]),
        sizes,
        simplex_moves.leverage(y + jnp.log(gamma.rate), gamma.shape),
        (gamma.raw <= 0).mean(dtype=y.dtype),
        old.total.value,
    )


# Moves with minibatches.


class _Estimate(NamedTuple):
    """A distribution estimated from a minibatch, in terms of gamma distributions."""

    gamma: gamma_moves.Gamma  # of a simplex site's weights, with the sum of their shapes as rate
    prior: tuple[jax.Array, ...]  # its parameters
    total: jax.Array  # of the counts


def _expect_noise(
    name: str, kind: Kind, y: Values, site: Tuning, evaluate: Evaluate, ratio: float
) -> Tuning:
    """Return the tuning with the noise before the first step, for the expected ratio."""
    gamma = _moves(kind).estimate(name, y, site.total, evaluate).gamma
    one = jnp.ones((), gamma.raw.dtype)
    return site._replace(noise=Noise(ratio * one, one, one), last=(gamma.raw, gamma.rate))


def minibatch_step(keys: jax.Array, site: Site, state: State, evaluate: Evaluate) -> State:
    """Move a site with the gradient of a minibatch."""
    name = site.name
    y, old = state.z[name], state.tuning[name]
    moves = _moves(site.kind)
    estimate = moves.estimate(name, state.z, old.total, evaluate)
    gamma = estimate.gamma
    step = _minibatch_step_size(site, state).astype(y.dtype)
    new = moves.transition(keys[0], y, estimate, step)
    clamped = (gamma.raw <= 0).mean(dtype=y.dtype)
    learned = tuning.adapt(
        old, state.i, state.num_warmup, jnp.ones_like(clamped), clamped, old.total.value, 0.0, new
    )
    noise = _update_noise(site, state, gamma, step)
    if site.step_size is None:
        next_step = jnp.where(state.i < state.num_warmup, _longest(noise.mean), step)
    else:
        next_step = step
    learned = learned._replace(
        noise=noise, last=(gamma.raw, gamma.rate), log_step=jnp.log(next_step).astype(y.dtype)
    )
    return state._replace(z={**state.z, name: new}, tuning={**state.tuning, name: learned})


def _minibatch_step_size(site: Site, state: State) -> jax.Array:
    """Return the given step, or else the learned one, approached from longer steps.

    A step of c / t forgets the start as t^-c, and averages the noise of t minibatches.
    """
    if site.step_size is not None:
        return site.step_size
    learned = jnp.exp(state.tuning[site.name].log_step)
    approaching = jnp.maximum(learned, 2 / (state.i + 2 / _LONGEST))
    return jnp.where(state.i < state.num_warmup, approaching, learned)


def _estimate_gamma(name: str, y: Values, total: Total, evaluate: Evaluate) -> _Estimate:
    gamma, here = tuning.gamma_conditional(name, y, evaluate)
    return _Estimate(gamma, here.parameters[name], jnp.zeros(()))


def _estimate_on_simplex(name: str, y: Values, total: Total, evaluate: Evaluate) -> _Estimate:
    return _estimate_law_on_simplex(name, y[name], total, evaluate(y))


@partial(jax.jit, static_argnames="name")
def _estimate_law_on_simplex(name: str, y: jax.Array, total: Total, here: Density) -> _Estimate:
    sums = total.of(here.counts[name])
    a = simplex_moves.shapes(here.parameters[name][0], here.counts[name], y, sums)
    gamma = gamma_moves.Gamma(a.used, a.raw.sum(axis=-1, keepdims=True), a.raw)
    return _Estimate(gamma, here.parameters[name], sums)


def _update_noise(site: Site, state: State, gamma: gamma_moves.Gamma, step: jax.Array) -> Noise:
    """Return the noise, updated with this minibatch at the current value of the site.

    The previous minibatch was seen at other values of the other sites, so noise is overestimated
    rather than underestimated.
    """
    old = state.tuning[site.name]
    assert old.noise is not None
    assert old.last is not None
    x = jnp.exp(state.z[site.name])
    # For independent minibatches, half a squared difference has the variance as its mean.
    change = (gamma.raw - old.last[0]) - x * (gamma.rate - old.last[1])
    spread = gamma.rate * (x * (1 - x) if site.kind.on_simplex else x)
    estimate = (change**2).sum() / (2 * spread.sum())
    # A mean of the expected ratio and all minibatches, with more weight on later ones.
    gain = 2 / (state.i + _EXPECTED)
    ratio = old.noise.mean
    ratio = ratio + jnp.where(jnp.isfinite(estimate), gain * (estimate - ratio), 0)
    ratio = ratio.astype(old.noise.mean.dtype)
    return _noise(ratio, step)


def _noise(ratio: jax.Array, step: jax.Array) -> Noise:
    return Noise(ratio, inflation.factor(ratio, step), _longest(ratio, inflation.MOST))


def _longest(ratio: jax.Array, most: float = _AIM) -> jax.Array:
    return inflation.longest_step(ratio, most, _LONGEST)


# What kinds of sites differ in.


class _Moves(NamedTuple):
    """The moves of a kind of site."""

    propose: Callable[..., _Proposal]
    estimate: Callable[[str, Values, Total, Evaluate], _Estimate]  # from a minibatch
    transition: Callable[[jax.Array, jax.Array, _Estimate, jax.Array], jax.Array]  # uncorrected


_ON_SIMPLEX = _Moves(
    _propose_on_simplex,
    _estimate_on_simplex,
    lambda key, y, at, step: simplex_moves.transition(
        key, y, at.prior[0], at.gamma.raw, at.total, step
    ),
)
_GAMMA = _Moves(
    _propose_gamma,
    _estimate_gamma,
    lambda key, y, at, step: gamma_moves.transition(key, y, at.prior, at.gamma, step),
)


def _moves(kind: Kind) -> _Moves:
    return _ON_SIMPLEX if kind.on_simplex else _GAMMA


def _steps(log_step: jax.Array) -> str:
    """Return the diagnostics of the steps of corrected moves."""
    shortest, longest = float(jnp.exp(log_step.min())), float(jnp.exp(log_step.max()))
    if not log_step.ndim:
        return f"h={shortest:.2g}"
    return f"h={shortest:.2g} to {longest:.2g} by row"


def _native(layout: Layout, values: Values) -> Values:
    return {name: layout.kinds[name].native(value) for name, value in values.items()}
