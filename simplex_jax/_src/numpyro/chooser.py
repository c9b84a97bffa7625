"""Choice of a kernel for a model, by short pilot runs of those that can sample it."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import NUTS
from numpyro.infer.mcmc import MCMCKernel

from simplex_jax._src.numpyro import reference, sites
from simplex_jax._src.numpyro.sites import Kind, Model

# Steps compiled as one program, and numbers of a site whose effective sample sizes are measured.
_CHUNK, _WATCHED = 50, 200
# A pilot with fewer effective samples says little; rates within this factor may be equal; means
# this many standard errors apart come from different distributions.
_FEW, _CLEAR, _APART = 50, 1.5, 5.0


class Chain(NamedTuple):
    """A pilot's trace [n, d] and its running time."""

    watched: np.ndarray
    seconds: float

    @property
    def moving(self) -> np.ndarray:
        """Mask of entries that changed."""
        return (self.watched != self.watched[0]).any(axis=0)

    @property
    def sizes(self) -> np.ndarray:
        """The effective sample size of the mean of each number that changed.

        `distance_between` needs that of means; `evaluate.diagnostics` has that of ranks.
        """
        moving = self.watched[:, self.moving]
        return np.asarray(effective_sample_size(moving[None].astype(np.float64)))


def run_pilot(
    kernel: MCMCKernel,
    watch: Callable[[dict[str, jax.Array]], jax.Array],
    *,
    args: tuple,
    kwargs: Mapping[str, Any],
    key: jax.Array,
    num_warmup: int,
    seconds: float,
    chunk: int,
    patience: float = math.inf,
    clock: Callable[[], float] = time.perf_counter,
) -> Chain | None:
    """Warm up, and then sample chunks of steps until the time is up, at least two.

    `watch` maps samples of all sites, [chunk, ...], to numbers, [chunk, d]. Compilation does not
    count. Return None if the warm-up took longer than `patience` seconds.
    """
    state = kernel.init(key, num_warmup, None, args, kwargs)
    postprocess = kernel.postprocess_fn(args, kwargs)

    def step(state: Any, _: None) -> tuple[Any, dict[str, jax.Array]]:
        state = kernel.sample(state, args, kwargs)
        return state, postprocess(getattr(state, kernel.sample_field))

    def run_chunk(state: Any) -> tuple[Any, jax.Array]:
        state, samples = jax.lax.scan(step, state, None, length=chunk)
        return state, watch(samples)

    run = jax.jit(run_chunk).lower(state).compile()
    start = clock()
    for _ in range(-(-num_warmup // chunk)):
        state = jax.block_until_ready(run(state)[0])
        if clock() - start > patience:
            return None
    draws: list[jax.Array] = []
    start = clock()
    while len(draws) < 2 or clock() - start < seconds:
        state, watched = run(state)
        draws.append(jax.block_until_ready(watched))
    return Chain(np.concatenate(draws), clock() - start)


def distance_between(one: Chain, other: Chain) -> float:
    """Return the largest difference between the means of two chains, in standard errors."""
    moving = one.moving & other.moving
    chains = [Chain(chain.watched[:, moving], chain.seconds) for chain in (one, other)]
    errors = [chain.watched.var(axis=0) / chain.sizes for chain in chains]
    difference = chains[0].watched.mean(axis=0) - chains[1].watched.mean(axis=0)
    return float(np.abs(difference / np.sqrt(sum(errors))).max(initial=0))


class Candidate(NamedTuple):
    """A kernel and the result of its pilot.

    Attributes:
        name: Its name.
        kernel: The kernel, for ``numpyro.infer.MCMC``; None if its reference was not learned.
        slowest: Effective samples per second of the slowest number; NaN without a pilot.
        median: The same for the median number.
        note: Why there are no rates, or why they are doubtful.
    """

    name: str
    kernel: MCMCKernel | None
    slowest: float
    median: float
    note: str


class Recommendation(NamedTuple):
    """Result of `recommend`; ``print`` shows it as a table.

    Attributes:
        kernel: The kernel to use.
        choice: The name of its candidate.
        reason: Why, in one or more sentences.
        candidates: All candidates that were tried.
    """

    kernel: MCMCKernel
    choice: str
    reason: str
    candidates: tuple[Candidate, ...]

    def __str__(self) -> str:
        """Return a table of the candidates, and the choice with its reason."""
        width = max(len(candidate.name) for candidate in self.candidates)
        lines = [f"{'effective samples per second':{width}}  slowest   median"]
        for name, _, slowest, median, note in self.candidates:
            lines.append(f"{name:{width}}  {slowest:7.3g}  {median:7.3g}  {note}".rstrip())
        return "\n".join([*lines, f"{self.choice}: {self.reason}"])


def recommend(
    rng_key: jax.Array,
    model: Model,
    *,
    model_args: tuple = (),
    model_kwargs: Mapping[str, Any] | None = None,
    num_warmup: int = 1000,
    seconds: float = 5.0,
    patience: float = 60.0,
) -> Recommendation:
    """Recommend a kernel for a model with all its data, from a short pilot run of each candidate.

    The candidates are `SCIR` (in ``Gibbs`` with NUTS if it does not move all sites), NUTS, and NUTS
    in the normal scores that `learn_reference` learns, if there are any. The candidate whose
    slowest number has the most effective samples per second is chosen: a chain is only as good as
    that. Up to 200 numbers of each latent site are measured, as the model sees them.

    A pilot knows only where it has been: it cannot miss a mode that no candidate has visited. The
    reason says if a pilot was short, if rates are too close to call, and if candidates have
    different means, so that at least one of them is wrong. Seconds are for this machine, without
    compilation and warm-up.

    Args:
        rng_key: A PRNG key.
        model: A numpyro model without minibatches and without discrete sites that are sampled.
        model_args: Arguments of the model.
        model_kwargs: Keyword arguments of the model.
        num_warmup: Number of warm-up steps of each pilot, that of `learn_reference` included,
            which then takes twice as many samples.
        seconds: Seconds for which each candidate samples after warm-up.
        patience: Seconds after which a candidate that is still warming up is abandoned. If it is
            the one with which `learn_reference` would sample, no reference is learned.

    Returns:
        The choice with its kernel and reason, and the results of all candidates.

    Raises:
        ValueError: The model has minibatches, which only SCIR and SGMCMC support, or a candidate
            refuses a site, such as one with a scaled prior; the message says what to use instead.
        RuntimeError: No candidate found a start and finished its warm-up, or none moved.

    Example:
        >>> import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> from simplex_jax.numpyro import recommend
        >>> def model(x):
        ...     p = numpyro.sample("p", dist.Dirichlet(jnp.full(20, 0.02)))
        ...     numpyro.sample("x", dist.Multinomial(9, p), obs=x)
        >>> x = jnp.zeros(20).at[0].set(9)
        >>> key = jax.random.key(0)
        >>> found = recommend(key, model, model_args=(x,), num_warmup=200, seconds=0.2)
        >>> found.choice, len(found.candidates)
        ('SCIR', 3)
    """
    sites.check_model(model)
    sites.check_args(model_args)
    for name, value in (("seconds", seconds), ("patience", patience)):
        if not value > 0:
            raise ValueError(f"{name} must be positive; it is {value!r}")
    kwargs = dict(model_kwargs or {})
    key_scores, key_pilot = jax.random.split(sites.to_typed_key(rng_key))
    layout, _ = sites.inspect(model, key_pilot, model_args, kwargs, None)
    sites.check_all_rows(layout)
    builds: dict[str, Callable[[], MCMCKernel]] = {}
    learner = "NUTS"  # the candidate that samples for `learn_reference`, too
    if own := sites.native_names(layout.kinds):
        others = len(own) < len(layout.kinds)
        learner = f"SCIR for {sites.list_str(own)}, NUTS" if others else "SCIR"
        builds[learner] = partial(reference.pilot, model, layout.kinds)
    builds["NUTS"] = partial(NUTS, model)
    scored, _ = reference.scored_sites(model, key_pilot, model_args, kwargs, layout)
    if scored:

        def in_scores() -> MCMCKernel:
            if not isinstance(chains[learner], Chain):
                raise RuntimeError(f"no reference: {learner} has no samples")
            config = reference.learn_reference(
                key_scores,
                model,
                model_args=model_args,
                model_kwargs=kwargs,
                num_warmup=num_warmup,
                num_samples=max(2 * num_warmup, 100),
            )
            return NUTS(handlers.reparam(model, config=config))

        builds["NUTS in normal scores"] = in_scores
    kernels: dict[str, MCMCKernel | None] = dict.fromkeys(builds)
    chains: dict[str, Chain | str] = {}
    for name, build in builds.items():
        try:
            kernels[name] = kernel = build()
            chain = run_pilot(
                kernel,
                partial(_numbers, layout.kinds),
                args=model_args,
                kwargs=kwargs,
                key=key_pilot,
                num_warmup=num_warmup,
                seconds=seconds,
                chunk=_CHUNK,
                patience=patience,
            )
            chains[name] = chain or "still warming up"
        except RuntimeError as error:  # as where no start was found
            chains[name] = str(error)
    return _choose(kernels, chains)


def _numbers(kinds: Mapping[str, Kind], samples: Mapping[str, jax.Array]) -> jax.Array:
    """Return up to 200 numbers of each site, [n, d]."""
    columns = []
    for name, kind in kinds.items():
        x = samples[name].reshape(len(samples[name]), -1)
        x = jnp.exp(x) if kind.is_log else x
        columns.append(x[:, :: -(-x.shape[1] // _WATCHED)])
    return jnp.concatenate(columns, axis=1)


def _choose(
    kernels: Mapping[str, MCMCKernel | None], chains: Mapping[str, Chain | str]
) -> Recommendation:
    """Return the recommendation from pilots, or from notes why there is none."""
    done = {name: chain for name, chain in chains.items() if isinstance(chain, Chain)}
    if not done:
        notes = "; ".join(f"{name}: {note}" for name, note in chains.items())
        raise RuntimeError(
            "no candidate finished its warm-up: increase patience, or check that the model's "
            f"density is positive where chains start ({notes})"
        )
    moves = np.any([chain.moving for chain in done.values()], axis=0)
    if not moves.any():
        raise RuntimeError(
            "no number moved in any pilot: increase num_warmup, and check that the model's density "
            "is positive where chains start"
        )
    candidates = []
    for name, kernel in kernels.items():
        chain = chains[name]
        if not isinstance(chain, Chain):
            candidates.append(Candidate(name, kernel, np.nan, np.nan, chain))
            continue
        stuck = int((moves & ~chain.moving).sum())
        sizes = np.concatenate([chain.sizes, np.zeros(stuck)])
        slowest, median = sizes.min(initial=np.inf), np.median(sizes)
        note = f"{stuck} of the numbers never moved" if stuck else ""
        if not stuck and slowest < _FEW:
            note = f"the slowest number has only {slowest:.0f} effective samples: sample longer"
        rates = slowest / chain.seconds, float(median) / chain.seconds
        candidates.append(Candidate(name, kernel, *rates, note))
    best, *others = sorted(
        (candidate for candidate in candidates if candidate.name in done),
        key=lambda candidate: -candidate.slowest,
    )
    return Recommendation(best.kernel, best.name, _reason(best, others, done), tuple(candidates))


def _reason(best: Candidate, others: Sequence[Candidate], chains: Mapping[str, Chain]) -> str:
    reasons = ["the only candidate that has sampled"]
    if not best.slowest:
        reasons = ["no candidate moved all the numbers that others moved: increase num_warmup"]
    elif others and not others[0].slowest:
        reasons = ["the only candidate that moved all numbers"]
    elif others:
        second = others[0]
        ratio = best.slowest / second.slowest
        reasons = [f"{ratio:.2g} times the effective samples per second of {second.name}"]
        if ratio < _CLEAR:
            reasons.append("a pilot of this length cannot tell them apart")
    if best.note:
        reasons.append(f"but {best.note}")
    for other in others:
        distance = distance_between(chains[best.name], chains[other.name])
        if distance > _APART:
            reasons.append(
                f"means differ by up to {distance:.0f} standard errors from those of {other.name}: "
                "one of them has not converged or does not mix, so compare several chains of both"
            )
    return "; ".join(reasons)
