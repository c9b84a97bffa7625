"""The options of the hierarchical Dirichlet process, and their defaults."""

import dataclasses
from typing import Any

from simplex_jax._src.corpus import Corpus
from simplex_jax._src.corpus.corpus import checked_counts
from simplex_jax._src.models import growth
from simplex_jax._src.models.hdp.kernel import BETA, check_capacity
from simplex_jax._src.models.options import KEPT, MOST_CONCENTRATION, check_priors, override
from simplex_jax._src.models.options import concentration as declared_concentration
from simplex_jax._src.models.options import gamma_prior as declared_prior
from simplex_jax._src.models.pipeline import Session
from simplex_jax._src.models.topics.concentrations import LEAST, Prior
from simplex_jax._src.models.topics.data import check_heldout, size_of
from simplex_jax._src.models.topics.engine import resolve
from simplex_jax._src.models.topics.evaluation import SWEEPS
from simplex_jax._src.models.topics.options import TopicOptions, check_words
from simplex_jax._src.options import option, options
from simplex_jax._src.runtime import session

_PASSES = 500.0
_KEPT, _MOST_BYTES = 50, 10**9  # samples that each chain keeps by default, and bytes of all
_EVALUATED = 5  # fewest passes between evaluations

# Initial number of topics: more than most corpora need, because a chain drops topics faster than it
# discovers them, but with many tokens each.
_TOPICS, _TOKENS_EACH = 100, 50

# And fewer than most need, but not by far: a chain discovers topics one by one, each after many
# updates, and would end far from what a large corpus needs.
_TOKENS_OF_FEW = 5_000

# Shape and rate of the priors, as in the experiments of Teh et al. (2006, section 6.1)
_PRIORS = {"alpha": (1.0, 1.0), "gamma": (1.0, 0.1)}


@options
class Options(TopicOptions):
    """Options of the hierarchical Dirichlet process."""

    batch_size: int | None = override(
        "batch_size",
        default=None,
        help="Documents in an update, always all of them.",
        unset="all",
        command=False,
        parameter=None,
    )
    engine: str | None = override(
        "engine",
        default=None,
        of=TopicOptions,
        help="Engine of the sweeps over tokens: native is C++ on CPUs, xla runs everywhere.",
    )
    chains: int = override(
        "chains",
        default=2,
        help="Number of independent chains, which start with different numbers of topics.",
    )
    passes: float | None = override(
        "passes", default=None, unset="500, unless steps or seconds are given"
    )
    eval_every: int | None = override(
        "eval_every",
        default=None,
        unset="5; more if evaluations would take over a 20th of the time",
    )
    sample_every: int | None = override(
        "sample_every",
        default=None,
        help="Updates between the samples of the number of topics and the concentrations.",
        unset="1",
    )
    keep_samples: int | None = override(
        "keep_samples",
        default=None,
        help="Posterior samples to keep of each chain, evenly spaced over the last half of the "
        "run, or all of them if there are fewer. The topics and the proportions of documents are "
        "summarised from them. Each takes 2 bytes per token, in memory.",
        least=1,
        unset=f"{_KEPT}; or as many as take 1 GB if these are fewer, at least {KEPT}",
    )
    beta: float = option(
        "Concentration of words, per word (not the sum); smaller ones make more topics.",
        default=BETA,
        most=MOST_CONCENTRATION,
    )
    alpha: Any = declared_concentration(
        "Concentration of the topic proportions of a document. learn: sample it.", default="learn"
    )
    alpha_prior: tuple[float, float] | None = declared_prior("alpha", unset="1,1")
    gamma: Any = declared_concentration(
        "Concentration of the weights of the topics; larger ones make more topics. learn: sample "
        "it.",
        default="learn",
    )
    gamma_prior: tuple[float, float] | None = declared_prior("gamma", unset="1,0.1")
    initial_topics: int | None = option(
        "Initial number of topics. Several chains start with different numbers, from fewest_topics "
        "in the first to this in the last, evenly spaced in the logarithm.",
        default=None,
        least=1,
        unset="100, or one per 50 tokens",
    )
    fewest_topics: int | None = option(
        "Initial number of topics of the first of several chains.",
        default=None,
        least=1,
        unset="one per 5,000 tokens, from 2 to half of initial_topics",
    )
    capacity: int = option(
        "Number of topics that memory is first reserved for; it grows if needed.",
        default=256,
        least=1,
        parameter=None,
    )

    def __post_init__(self) -> None:
        check_capacity(self.capacity)
        check_priors(self, *_PRIORS)

    def starts(self) -> list[int]:
        """Return the number of topics that each chain of a settled run starts with."""
        assert self.initial_topics is not None
        fewest = self.fewest_topics or self.initial_topics  # of one chain None
        return growth.from_below(fewest, self.initial_topics, self.chains)


@options
class Arguments(Options, Session):
    """Arguments of `hdp.fit`."""

    # Samples stay in memory, because the topics are computed from them.
    samples_dir: None = dataclasses.field(default=None, init=False)


def resolve_options(data: Corpus, heldout: Any, options: Options) -> Options:
    """Return options with all defaults filled in; only the sizes of the data matter.

    Options that conflict with each other or with the data raise a ValueError that names them.
    """
    size = size_of(data)
    check_words(size, data.vocabulary)
    check_heldout(heldout, size.words)
    if options.batch_size not in (None, size.documents):
        raise ValueError(
            f"batch_size must be {size.documents}, all documents; it is {options.batch_size}"
        )
    topics = options.initial_topics
    if topics is None:
        topics = min(_TOPICS, max(1, size.tokens // _TOKENS_EACH), options.capacity)
    if topics > options.capacity:
        raise ValueError(
            f"initial_topics must be at most the capacity, {options.capacity}; it is {topics}"
        )
    fewest = options.fewest_topics
    if options.chains == 1:
        if fewest is not None:
            raise ValueError("fewest_topics is for several chains: one starts with initial_topics")
    elif fewest is None:
        fewest = max(1, min(max(2, size.tokens // _TOKENS_OF_FEW), topics // 2))
    if fewest is not None and fewest > topics:
        raise ValueError(f"fewest_topics must be at most initial_topics, {topics}; it is {fewest}")
    # Traces and thinned samples cost next to nothing.
    evaluation = 0.0
    if heldout is not None:
        evaluation = SWEEPS * float(checked_counts(heldout[0], "heldout").sum()) / size.tokens
    length = session.length(
        1,
        options,
        default_passes=_PASSES,
        eval_every=max(_EVALUATED, session.interval(1, evaluation)),
        sample_every=1,
    )
    return dataclasses.replace(
        options,
        **_settled_priors(options),
        initial_topics=topics,
        fewest_topics=fewest,
        keep_samples=options.keep_samples or _kept(size.tokens, options.chains),
        engine=resolve(options.engine),
        batch_size=size.documents,
        passes=None,
        **length._asdict(),
    )


def _kept(tokens: int, chains: int) -> int:
    # The prevalence of topics is known from kept samples alone: of half as many, some fifty
    # effective ones, from which an interval is shown, would be out of reach.
    return min(_KEPT, max(KEPT, _MOST_BYTES // (2 * chains * max(tokens, 1))))


def _settled_priors(options: Options) -> dict[str, Any]:
    priors: dict[str, Any] = {}
    for name, default in _PRIORS.items():
        priors[f"{name}_prior"] = None
        if getattr(options, name) == "learn":
            shape, rate = priors[f"{name}_prior"] = getattr(options, f"{name}_prior") or default
            if not LEAST <= shape / rate <= MOST_CONCENTRATION:
                raise ValueError(
                    f"the mean of {name}_prior, shape / rate, must be from {LEAST:g} to "
                    f"{MOST_CONCENTRATION:,.0f}; it is {shape / rate:g}"
                )
    return priors


def concentration(settings: Options, name: str) -> float | Prior:
    """Return a concentration, "alpha" or "gamma", or its prior, from resolved options."""
    if (value := getattr(settings, name)) != "learn":
        return value
    shape, rate = getattr(settings, f"{name}_prior")
    return Prior(shape / rate, shape)
