"""Shared by the LDA experiments: the methods, their scores over a run, and the choice of steps."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from baselines import (
    collapsed_gibbs,
    control_variate,
    hybrid,
    online_vb,
    reflected_cir,
    scvb0,
    sgrhmc_euler,
)
from baselines.hybrid import Local

from simplex_jax._src import schedules
from simplex_jax._src.base import Kernel, bind, static
from simplex_jax._src.batches import Stream
from simplex_jax._src.corpus import device, split_tokens
from simplex_jax._src.corpus.device import DeviceCorpus
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.models.lda import kernel as lda_kernel
from simplex_jax._src.models.lda import model as lda
from simplex_jax._src.models.topics import evaluation
from simplex_jax._src.models.topics.evaluation import Completion
from simplex_jax._src.runtime.driver import run
from simplex_jax._src.runtime.hooks import Event
from simplex_jax._src.samplers import smld

# Baselines that the library's LDA does not have
lda_kernel.SAMPLERS["reflected-cir"] = lda_kernel.Sampler(
    reflected_cir.init, reflected_cir.update, limit=2.0
)
# The last word is the reference, which must be the same for all topics.
lda_kernel.SAMPLERS["smld-approximate"] = lda_kernel.Sampler(
    static(smld.init, reference=-1, linearised=True),
    static(smld.update, reference=-1),
    weighted=False,
    measures=("stiffness",),
)

TUNING_SEED = 1_000_000
"""Far from the seeds that are reported."""


class Problem(NamedTuple):
    """A corpus, its held-out words, and the model.

    Attributes:
        corpus: Training documents.
        shape: (K, V).
        heldout: Observed and target words to score.
        alpha: Concentration of topic proportions, per topic.
        beta: Concentration of topics, per word.
    """

    corpus: DeviceCorpus
    shape: tuple[int, int]
    heldout: Completion
    alpha: float
    beta: float


class Step(NamedTuple):
    """A step size a (1 + t / tau)^-kappa, constant if tau is 0."""

    initial: float
    tau: float = 0.0
    kappa: float = 0.0

    def schedule(self) -> Any:
        """Return it in the library's form."""
        return schedules.polynomial_decay(*self) if self.tau else self.initial

    def __str__(self) -> str:
        return f"{self.initial:g}" + (f" / {self.tau:g} / {self.kappa:g}" if self.tau else "")


class Method(NamedTuple):
    """A way to infer topics.

    Attributes:
        build: `(problem, how, batch_size, step) -> (kernel, stream)`.
        steps: Candidate step sizes; the first is its authors', if they give one.
        sweeps: Whether its local step has a number of sweeps (or iterations).
    """

    build: Callable[[Problem, int, int, Any], tuple[Kernel, Stream]]
    steps: tuple[Step, ...]
    sweeps: bool = True


def sampled(sampler: str, total: str | None = None) -> Callable[..., tuple[Kernel, Stream]]:
    """Return the builder of LDA with subsampled counts."""

    def build(
        problem: Problem, local_step: Local, batch_size: int, step: Any
    ) -> tuple[Kernel, Stream]:
        return lda.build(
            problem.corpus,
            problem.shape,
            alpha=problem.alpha,
            beta=problem.beta,
            sampler=sampler,
            total=total,
            counts="subsampled",
            step_size=step,
            batch_size=batch_size,
            **local_step._asdict(),
        )

    return build


def controlled(
    problem: Problem, local_step: Local, batch_size: int, step: Any
) -> tuple[Kernel, Stream]:
    """Return the kernel of LDA by SCIR with control-variate counts."""
    return control_variate.build(
        problem.corpus,
        problem.shape,
        alpha=problem.alpha,
        beta=problem.beta,
        step_size=step,
        batch_size=batch_size,
        **local_step._asdict(),
    )


class Topics(NamedTuple):
    """State of LDA with topics moved by a kernel that `models.lda` does not know.

    Attributes:
        position: Log of the topics, [K, V].
        step: Number of updates done.
        alpha: Concentrations of topic proportions, [K].
        sampler: The rest of the state of the kernel.
    """

    position: jax.Array
    step: jax.Array
    alpha: jax.Array
    sampler: Any


def moved_by(
    kernel_of: Callable[[Estimator, float, Any], Kernel],
) -> Callable[..., tuple[Kernel, Stream]]:
    """Return the builder of LDA with subsampled counts and `kernel_of(counts, beta, step)`."""

    def build(
        problem: Problem, local_step: Local, batch_size: int, step: Any
    ) -> tuple[Kernel, Stream]:
        config = lda.configure(
            problem.shape,
            alpha=problem.alpha,
            counts="subsampled",
            batch_size=batch_size,
            **local_step._asdict(),
        )
        counts = lda_kernel.counts_of(lda_kernel.source_of(problem.corpus, config))
        inner = kernel_of(counts.with_prior(config.alpha), problem.beta, step)
        built = Kernel(bind(_init_topics, inner, config.alpha), bind(_update_topics, inner))
        return built, device.uniform_stream(problem.corpus, batch_size)

    return build


def _init_topics(inner: Kernel, alpha: jax.Array, key: jax.Array, position: jax.Array) -> Topics:
    # A state may be donated to jitted code, and must not share arrays with the kernel.
    return _topics(inner.init(key, position), jnp.copy(alpha))


def _update_topics(
    inner: Kernel, key: jax.Array, state: Topics, batch: jax.Array
) -> tuple[Topics, Any]:
    moved = state.sampler._replace(position=state.position, step=state.step)
    moved, info = inner.update(key, moved, batch)
    return _topics(moved, state.alpha), info


def _topics(state: Any, alpha: jax.Array) -> Topics:
    return Topics(state.position, state.step, alpha, state._replace(position=None, step=None))


def _memoised(
    problem: Problem, local_step: Local, batch_size: int, step: Any
) -> tuple[Kernel, Stream]:
    model = {"alpha": problem.alpha, "beta": problem.beta}
    del local_step  # one sweep, from the labels of the last visit
    return lda.build(problem.corpus, problem.shape, step_size=step, batch_size=batch_size, **model)


def _online_vb(
    problem: Problem, local_step: Local, batch_size: int, step: Any
) -> tuple[Kernel, Stream]:
    model = {"alpha": problem.alpha, "beta": problem.beta}
    options = {"step_size": step, "batch_size": batch_size, "iterations": local_step.sweeps}
    return online_vb.build(problem.corpus, problem.shape, **model, **options)


def _hybrid(
    problem: Problem, local_step: Local, batch_size: int, step: Any
) -> tuple[Kernel, Stream]:
    model = {"alpha": problem.alpha, "beta": problem.beta, "local_step": local_step}
    return hybrid.build(
        problem.corpus, problem.shape, step_size=step, batch_size=batch_size, **model
    )


def _scvb0(
    problem: Problem, local_step: Local, batch_size: int, step: Any
) -> tuple[Kernel, Stream]:
    del local_step, step  # it has its own
    model = {"alpha": problem.alpha, "beta": problem.beta, "batch_size": batch_size}
    return scvb0.build(problem.corpus, problem.shape, **model)


def _collapsed(
    problem: Problem, local_step: Local, batch_size: int, step: Any
) -> tuple[Kernel, Stream]:
    del local_step, batch_size, step
    model = {"alpha": problem.alpha, "beta": problem.beta}
    return collapsed_gibbs.build(problem.corpus, problem.shape, **model)


def _tenths(
    problem: Problem, local_step: Local, batch_size: int, step: Any
) -> tuple[Kernel, Stream]:
    """Ten updates for the documents of one."""
    return _memoised(problem, local_step, -(-batch_size // 10), step)


HOFFMAN = Step(1025**-0.7, 1025, 0.7)
SGRLD = tuple(Step(a, 1000, 0.6) for a in (0.01, 0.003, 0.03, 0.001))
SCIR = tuple(Step(a, 10, 0.33) for a in (0.5, 0.2, 1.0, 0.1, 0.05, 0.02, 0.01))
METHODS = {
    "collapsed Gibbs": Method(_collapsed, (Step(1.0),), sweeps=False),
    "online VB": Method(
        _online_vb, (HOFFMAN, Step(65**-0.7, 65, 0.7), Step(1025**-0.5, 1025, 0.5))
    ),
    "hybrid": Method(_hybrid, (HOFFMAN, Step(65**-0.7, 65, 0.7), Step(1025**-0.5, 1025, 0.5))),
    "SCVB0": Method(_scvb0, (Step(1.0),), sweeps=False),
    "SGRLD": Method(sampled("sgrld", "carried"), SGRLD),
    "SGRLD, total refreshed": Method(sampled("sgrld"), SGRLD),
    "SGRHMC": Method(
        sampled("sgrhmc"),
        tuple(Step(a, 10, 0.33) for a in (0.3, 0.1, 1.0)),
    ),
    "SGRHMC, Ma et al.": Method(
        moved_by(sgrhmc_euler.build),
        tuple(Step(a) for a in (0.01, 0.003, 0.015, 0.02, 0.03)),
    ),
    "SMLD": Method(
        sampled("smld"),
        tuple(Step(a, 1000, 0.6) for a in (1e-5, 1e-4, 1e-3)),
    ),
    "SMLD-approximate": Method(
        sampled("smld-approximate"),
        tuple(Step(a, 1000, 0.6) for a in (1e-3, 1e-2, 1e-1)),
    ),
    "reflected CIR": Method(
        sampled("reflected-cir"),
        tuple(Step(a, 10, 0.33) for a in (0.5, 0.2, 0.1, 0.05, 0.02)),
    ),
    "SCIR": Method(sampled("scir", "carried"), SCIR),
    "SCIR, total refreshed": Method(sampled("scir"), SCIR),
    "memoised SCIR": Method(_memoised, (Step(5.0),), sweeps=False),
    "memoised SCIR, tenths": Method(_tenths, (Step(5.0),), sweeps=False),
}
"""Where nothing is published, steps are on the scale of SCIR's or SGRLD's.

SGRLD and SCIR carry the total of their weights, from independent Gamma(1, 1) weights on, as in
their papers. SGRHMC is the library's own, see `samplers.sgrhmc`, with a refreshed total; that of
Ma, Chen and Fox (2015) is `baselines.sgrhmc_euler`, which carries its total like SGRLD.
"""


class Scores:
    """A hook that records the perplexity of the current topics and of averages over the run.

    Each is exp(-mean log p) over target words. `sample` is that of the current topics. `running`
    averages p over all evaluations so far, burn-in included, as in the papers; `average` over the
    second half of the run's evaluations.
    """

    def __init__(self, data: Completion, key: jax.Array, evaluations: int, batch_size: int) -> None:
        self._data, self._key, self._batch_size = data, key, batch_size
        self._first_kept = evaluations // 2
        self._all = np.full(data.words.shape[0], -np.inf)
        self._kept = np.full(data.words.shape[0], -np.inf)
        self.records: list[dict[str, float]] = []

    def __call__(self, event: Event) -> None:
        """Score the topics."""
        key = jax.random.fold_in(self._key, event.step)
        state = event.state
        log_p = evaluation.log_predictive(key, state.position, state.alpha, self._data)
        log_p = np.asarray(log_p, np.float64)
        done = len(self.records) + 1
        self._all = np.logaddexp(self._all, log_p)
        record = {
            "updates": event.step,
            "documents": event.step * self._batch_size,
            "seconds": event.seconds,
            "sample": evaluation.perplexity(log_p, self._data.counts),
            "running": evaluation.perplexity(self._all - math.log(done), self._data.counts),
            "average": math.nan,
        }
        if done > self._first_kept:
            self._kept = np.logaddexp(self._kept, log_p)
            mean = self._kept - math.log(done - self._first_kept)
            record["average"] = evaluation.perplexity(mean, self._data.counts)
        self.records.append(record)


def scores(
    problem: Problem,
    method: Method,
    step: Step,
    *,
    local_step: Local,
    batch_size: int,
    updates: int,
    evaluations: int,
    seed: int,
) -> list[dict[str, float]]:
    """Run a method from independent Gamma(1, 1) weights of the topics, and return its records.

    A run that diverges ends there, and its last record has perplexity inf.
    """
    key_start, key_init, key_run, key_scores = jax.random.split(jax.random.key(seed), 4)
    kernel, stream = method.build(problem, local_step, batch_size, step.schedule())
    start = jax.random.exponential(key_start, problem.shape) + jnp.finfo(jnp.float32).tiny
    every = max(1, updates // evaluations)
    hook = Scores(problem.heldout, key_scores, updates // every, batch_size)
    try:
        run(
            key_run,
            kernel,
            kernel.init(key_init, start),
            stream,
            updates - updates % every,
            collect=lambda state, info: (),
            hooks=[hook],
            chunk=every,
        )
    except FloatingPointError:
        bad = dict.fromkeys(("sample", "running", "average"), math.inf)
        last = hook.records[-1] if hook.records else {"updates": 0, "documents": 0, "seconds": 0.0}
        hook.records.append({**last, **bad})
    return hook.records


def tuned(
    problem: Problem, method: Method, *, updates: int, **options: Any
) -> tuple[Step, list[float]]:
    """Return the step size with the lowest average perplexity, and all perplexities."""
    if len(method.steps) == 1:
        return method.steps[0], []
    result = [
        scores(problem, method, step, updates=updates, evaluations=4, seed=TUNING_SEED, **options)[
            -1
        ]["average"]
        for step in method.steps
    ]
    return method.steps[int(np.argmin(result))], result


def completion_of(counts: sp.csr_array, share: float, seed: int) -> tuple[sp.csr_array, Completion]:
    """Split every document, and return its observed words and what scores its target words."""
    observed, target = split_tokens(counts, seed, share)
    return observed, evaluation.completion(observed, target)


def without(counts: sp.csr_array, held: Sequence[int]) -> sp.csr_array:
    """Return the documents that are not held out."""
    kept = np.setdiff1d(np.arange(counts.shape[0]), held)
    return sp.csr_array(counts[kept])
