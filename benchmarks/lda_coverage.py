"""Do the intervals of LDA cover the truth? On simulated corpora, beside other packages.

    python benchmarks/lda_coverage.py [--corpora 500] [--keep FILE]

Corpora are drawn from the cases of `CASES` in turn; each has 300 words and two random groups of
documents. `lda.fit` has its defaults, and the true concentrations unless the case says "learned".
The script counts how often 50, 80 and 95% intervals hold

- the share of all tokens in a topic, as `Fit.prevalence` and its deviation tell it;
- the probability of a word, of the ten with the largest posterior mean in each topic;
- the proportion of a topic in a document, of all topics and of the one with the largest mean, by
  quantiles of draws of the proportions from the kept samples, as `lda.effects` draws them;
- a group's mean proportion, and the difference of the two groups, by `lda.effects`.

Estimated topics are matched with the true ones one to one by the largest sum of Bhattacharyya's
affinities. None is left out because it is far from its partner, which would flatter the intervals:
only those that the fit withholds, because not all chains have the topic, or because the effective
samples of its prevalence are too few (`diagnostics.rough`).

Beside it, on the same corpora, with the true concentrations also where ours are learned:

- scikit-learn's LDA: its variational posterior, with regressions on point estimates, and on one
  corpus in `--bootstrap-every` percentiles over `--replicates` fits of resampled documents, matched
  with the first fit;
- topica's STM with the groups as covariate: draws of the proportions from its variational
  posterior, and its regression on them. Its proportions are logistic normal, and it has no
  posterior of topics;
- topica's LDA, a chain of its Gibbs sampler: the proportions of 100 of its states, and its
  regression on them.

Nothing there says which topics to trust, so nothing is withheld. topica (`pip install topica`) is
left out if it is not installed. Its prevalence is the mean proportion, weighted by lengths.

Each corpus is fitted on one core, as many at a time as there are cores. The rows in `--keep` stay,
so that a run that was ended goes on where it was, if the code is the same.
"""

import argparse
import functools
import importlib.util
import multiprocessing
import os
import queue
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import kept
import numpy as np
import scipy.sparse as sp
from scipy import special, stats
from sklearn.decomposition import LatentDirichletAllocation

from simplex_jax._src.evaluate import matching
from simplex_jax._src.evaluate.diagnostics import rough
from simplex_jax._src.evaluate.intervals import beta_interval
from simplex_jax._src.models import lda
from simplex_jax._src.models.lda.draws import (
    ProportionDraws,
    draw_key,
    load_samples,
    of_chains,
)

WORDS = 300
LEVELS = (0.5, 0.8, 0.95)
LEADING = 10
KEPT, SWEEPS = 50, 25
DRAWS = 100  # of topica
QUANTITIES = (
    *("prevalence", "leading words", "proportions", "largest proportions"),
    *("group means", "group differences"),
)
OURS = "simplex_jax"
VARIATIONAL, BOOTSTRAP = "scikit-learn, variational", "scikit-learn, bootstrap"
STM, GIBBS = "topica, STM", "topica, LDA"
METHODS = (OURS, VARIATIONAL, BOOTSTRAP, STM, GIBBS)
REASONS = ("withheld_not_in_all_chains", "withheld_few_samples")


class Case(NamedTuple):
    """How corpora of a kind are drawn and fitted."""

    topics: int = 10
    documents: int = 400
    length: int = 60  # mean number of tokens
    alpha: float = 0.1
    beta: float = 0.05
    skewed: bool = False  # words have Zipf's frequencies in the prior, which the fit does not know
    shifted: bool = False  # the groups differ in their mean proportions
    learned: tuple[str, ...] = ()  # concentrations that the fit learns


CASES = {
    "10 topics": Case(),
    "5 topics": Case(topics=5),
    "30 topics": Case(topics=30),
    "short documents": Case(documents=1600, length=15),
    "long documents": Case(documents=120, length=200),
    "dense": Case(alpha=0.5, beta=0.2),
    "learned": Case(learned=("alpha", "beta")),
    "skewed vocabulary, learned beta": Case(skewed=True, learned=("beta",)),
    "groups differ, learned alpha": Case(shifted=True, learned=("alpha",)),
}


class Truth(NamedTuple):
    """A simulated corpus and what it was drawn from."""

    counts: np.ndarray  # [D, V]
    topics: np.ndarray  # [K, V]
    proportions: np.ndarray  # [D, K]
    prevalence: np.ndarray  # share of the tokens in each topic, [K]
    groups: np.ndarray  # 0 or 1 for each document, [D]
    means: np.ndarray  # expected proportions in the groups, [2, K]


Intervals: TypeAlias = dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
"""True values and the ends of their intervals by quantity, the ends with `LEVELS` in front."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=int, default=500)
    parser.add_argument("--bootstrap-every", type=int, default=10)
    parser.add_argument("--replicates", type=int, default=40)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    rows = kept.earlier(options.keep)
    done = {row["seed"] for row in rows}
    waiting = [seed for seed in range(options.corpora) if seed not in done]
    for found in in_processes(waiting, options.bootstrap_every, options.replicates):
        rows += found
        done.add(found[0]["seed"])
        print(f"{len(done)} corpora", flush=True)
        if options.keep:  # after each, since a run takes hours
            kept.write(options.keep, sorted(rows, key=lambda row: row["seed"]), levels=LEVELS)
    print(*table(rows), sep="\n")


def in_processes(
    seeds: list[int], bootstrap_every: int, replicates: int
) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of each corpus, several at a time on one core each."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # of the processes
    context = multiprocessing.get_context("spawn")
    free: queue.Queue[ProcessPoolExecutor] = queue.Queue()
    for core in os.sched_getaffinity(0):
        # Compiled programs of all corpora would fill the memory of one process.
        free.put(
            ProcessPoolExecutor(
                *(1, context, os.sched_setaffinity, (0, {core})), max_tasks_per_child=10
            )
        )

    def run(seed: int) -> list[dict[str, Any]]:
        process = free.get()
        try:
            return process.submit(
                rows_of, seed, 0 if seed % bootstrap_every else replicates
            ).result()
        finally:
            free.put(process)

    with ThreadPoolExecutor(free.qsize()) as threads:
        for future in as_completed([threads.submit(run, seed) for seed in seeds]):
            yield future.result()


def rows_of(seed: int, replicates: int) -> list[dict[str, Any]]:
    return list(judge(seed, replicates))


def simulate(case: Case, seed: int) -> Truth:
    """Draw a corpus from the model."""
    rng = np.random.default_rng(seed)
    frequencies = 1 / np.arange(1, WORDS + 1) if case.skewed else np.ones(WORDS)
    base = case.beta * WORDS * frequencies / frequencies.sum()
    topics = rng.dirichlet(base, case.topics)
    groups = rng.integers(2, size=case.documents)
    means = np.full((2, case.topics), 1 / case.topics)
    if case.shifted:
        means = rng.dirichlet(np.full(case.topics, 3.0), 2)
    concentrations = case.alpha * case.topics * means
    proportions = np.stack([rng.dirichlet(concentrations[group]) for group in groups])
    lengths = np.maximum(rng.poisson(case.length, case.documents), 1)
    labels = np.stack([rng.multinomial(n, p) for n, p in zip(lengths, proportions, strict=True)])
    counts = sum(rng.multinomial(labels[:, k], topics[k]) for k in range(case.topics))
    prevalence = labels.sum(axis=0) / labels.sum()
    return Truth(np.asarray(counts), topics, proportions, prevalence, groups, means)


def judge(seed: int, replicates: int = 0) -> Iterator[dict[str, Any]]:
    """Yield a row for each method and quantity: how many intervals, and how many hold the truth."""
    name = list(CASES)[seed % len(CASES)]
    case, truth = CASES[name], simulate(CASES[name], seed)
    methods = {OURS: ours, VARIATIONAL: variational}
    if replicates:
        methods[BOOTSTRAP] = functools.partial(bootstrap, replicates=replicates)
    if importlib.util.find_spec("topica"):
        methods |= {STM: topica_stm, GIBBS: topica_lda}
    for method, fit in methods.items():
        begun = time.process_time()
        intervals, withheld = fit(case, truth, seed)
        seconds = time.process_time() - begun
        for quantity, (true, lower, upper) in intervals.items():
            held = ((lower <= true) & (true <= upper)).reshape(len(LEVELS), -1).sum(axis=1)
            row = {"seed": seed, "case": name, "method": method, "quantity": quantity}
            row |= {"intervals": true.size, "topics": case.topics, "seconds": seconds}
            row |= dict(zip(map(held_at, LEVELS), held.tolist(), strict=True))
            yield row | withheld


def held_at(level: float) -> str:
    """Return the name of the number of intervals of a level that hold the truth."""
    return f"held_{100 * level:.0f}"


def ours(case: Case, truth: Truth, seed: int) -> tuple[Intervals, dict[str, int]]:
    """Return the intervals of `lda.fit` with its defaults, and how many topics have none."""
    concentrations = {
        key: "learn" if key in case.learned else getattr(case, key) for key in ("alpha", "beta")
    }
    fitted = lda.fit(
        truth.counts, case.topics, **concentrations, holdout=0, seed=seed, keep_samples=KEPT
    )
    order = matching.match(fitted.topics, truth.topics).order
    withheld = rough(fitted.diagnostics, fitted.shared)
    unshared = int((~fitted.shared.all(axis=0)).sum())
    known = np.flatnonzero(~withheld)
    matched = order[known]
    found: Intervals = {
        "prevalence": (
            truth.prevalence[matched],
            *by_moments(fitted.prevalence[known], fitted.prevalence_sd[known]),
        )
    }
    leading = np.argsort(-fitted.topics[known], axis=1)[:, :LEADING]
    found["leading words"] = (
        np.take_along_axis(truth.topics[matched], leading, axis=1),
        *by_moments(
            np.take_along_axis(fitted.topics[known], leading, axis=1),
            np.take_along_axis(fitted.topics_sd[known], leading, axis=1),
        ),
    )
    found |= of_documents(draws_of_proportions(fitted, truth, seed)[:, :, known], truth, matched)
    bounds = [
        lda.effects(fitted, truth.counts, {"group": list("ab"[g] for g in truth.groups)}, level=p)
        for p in LEVELS
    ]
    lower = np.stack([effects.lower[known] for effects in bounds])
    upper = np.stack([effects.upper[known] for effects in bounds])
    found |= of_groups(lower, upper, truth, matched)
    few = int(withheld.sum()) - unshared
    return found, {"withheld_not_in_all_chains": unshared, "withheld_few_samples": few}


def draws_of_proportions(fitted: lda.Fit, truth: Truth, seed: int) -> np.ndarray:
    """Return draws of the proportions given the kept samples of all chains, [draws, D, K]."""
    sampler = ProportionDraws(sp.csr_array(truth.counts), sweeps=SWEEPS)
    samples = (draw for sample in load_samples(fitted) for draw in of_chains(fitted, sample))
    return np.stack(
        [
            sampler.draw(draw_key(seed, number), draw.topics, draw.alpha)
            for number, draw in enumerate(samples)
        ]
    )


def of_documents(draws: np.ndarray, truth: Truth, matched: np.ndarray) -> Intervals:
    """Return the intervals of proportions by quantiles of their draws, [draws, D, topics]."""
    lower, upper = by_draws(draws)
    return _proportions(draws.mean(axis=0), lower, upper, truth, matched)


def _proportions(
    mean: np.ndarray, lower: np.ndarray, upper: np.ndarray, truth: Truth, matched: np.ndarray
) -> Intervals:
    """Return the intervals of all proportions, and of the largest of each document."""
    true = truth.proportions[:, matched]
    found: Intervals = {"proportions": (true, lower, upper)}
    if matched.size:
        largest = mean.argmax(axis=1)[:, None]
        found["largest proportions"] = (
            np.take_along_axis(true, largest, axis=1),
            np.take_along_axis(lower, largest[None], axis=2),
            np.take_along_axis(upper, largest[None], axis=2),
        )
    return found


def of_groups(lower: np.ndarray, upper: np.ndarray, truth: Truth, matched: np.ndarray) -> Intervals:
    """Return the intervals of two means and their difference, [levels, topics, 3] in this order."""
    means = truth.means[:, matched].T
    difference = means[:, 1] - means[:, 0]
    return {
        "group means": (means, lower[..., :2], upper[..., :2]),
        "group differences": (difference, lower[..., 2], upper[..., 2]),
    }


def variational(case: Case, truth: Truth, seed: int) -> tuple[Intervals, dict[str, int]]:
    """Return the intervals of the variational posterior, which is beta for each probability."""
    model = peer(case, truth.counts, seed)
    weights, gamma = model.components_, gammas(model, truth.counts, case)
    order = matching.match(weights, truth.topics).order
    total = weights.sum(axis=1, keepdims=True)
    leading = np.argsort(-weights / total, axis=1)[:, :LEADING]
    chosen = np.take_along_axis(weights, leading, axis=1)
    tokens = label_moments(weights, gamma, truth.counts)
    found: Intervals = {
        "prevalence": (truth.prevalence[order], *by_moments(*tokens)),
        "leading words": (
            np.take_along_axis(truth.topics[order], leading, axis=1),
            *by_beta(chosen, total - chosen),
        ),
    }
    rest = gamma.sum(axis=1, keepdims=True)
    mean = gamma / rest
    found |= _proportions(mean, *by_beta(gamma, rest - gamma), truth, order)
    return found | of_groups(*regression(mean, truth.groups), truth, order), {}


def bootstrap(
    case: Case, truth: Truth, seed: int, replicates: int
) -> tuple[Intervals, dict[str, int]]:
    """Return percentile intervals over fits of resampled documents."""
    first = peer(case, truth.counts, seed)
    rng = np.random.default_rng(seed)
    topics, prevalence, proportions, effects = [], [], [], []
    for replicate in range(replicates):
        rows = rng.integers(case.documents, size=case.documents)
        model = peer(case, truth.counts[rows], 1000 * (seed + 1) + replicate)
        order = matching.match(first.components_, model.components_).order
        weights = model.components_[order]
        topics.append(weights / weights.sum(axis=1, keepdims=True))
        counted = weights.sum(axis=1) - WORDS * case.beta
        prevalence.append(counted / counted.sum())
        gamma = gammas(model, truth.counts, case)[:, order]
        proportions.append(gamma / gamma.sum(axis=1, keepdims=True))
        first_group, second = (proportions[-1][rows[truth.groups[rows] == g]] for g in (0, 1))
        means = first_group.mean(axis=0), second.mean(axis=0)
        effects.append(np.stack([*means, means[1] - means[0]], axis=-1))
    order = matching.match(first.components_, truth.topics).order
    leading = np.argsort(-np.mean(topics, axis=0), axis=1)[:, :LEADING]
    chosen = [np.take_along_axis(topic, leading, axis=1) for topic in topics]
    found: Intervals = {
        "prevalence": (truth.prevalence[order], *by_draws(np.stack(prevalence))),
        "leading words": (
            np.take_along_axis(truth.topics[order], leading, axis=1),
            *by_draws(np.stack(chosen)),
        ),
    }
    found |= of_documents(np.stack(proportions), truth, order)
    return found | of_groups(*by_draws(np.stack(effects)), truth, order), {}


def topica_stm(case: Case, truth: Truth, seed: int) -> tuple[Intervals, dict[str, int]]:
    """Return the intervals of topica's structural topic model, from draws of the proportions."""
    import topica

    model = topica.STM(case.topics, seed=seed)
    model.fit(texts_of(truth.counts), truth.groups[:, None].astype(float))
    draws = topica.posterior_theta_samples(model, nsims=DRAWS, seed=seed)
    return by_topica(model, draws, truth), {}


def topica_lda(case: Case, truth: Truth, seed: int) -> tuple[Intervals, dict[str, int]]:
    """Return the intervals of topica's Gibbs sampler, from states of its chain."""
    import topica

    model = topica.LDA(
        case.topics,
        alpha_sum=case.alpha * case.topics,
        beta=case.beta,
        optimize_interval=0,
        seed=seed,
    )
    model.fit(texts_of(truth.counts), iters=1000, num_theta_draws=DRAWS)
    return by_topica(model, np.asarray(model.theta_draws, np.float64), truth), {}


def texts_of(counts: np.ndarray) -> list[list[str]]:
    """Return the words of each document."""
    return [[str(word) for word in np.repeat(np.arange(WORDS), row)] for row in counts]


def by_topica(model: Any, draws: np.ndarray, truth: Truth) -> Intervals:
    """Return the intervals of draws of proportions [draws, D, K], and of topica's regression."""
    import topica

    topics = np.full((draws.shape[2], WORDS), 1e-12)
    topics[:, [int(word) for word in model.vocabulary]] = model.topic_word
    order = matching.match(topics, truth.topics).order
    lengths = truth.counts.sum(axis=1)
    found: Intervals = {
        "prevalence": (truth.prevalence[order], *by_draws(lengths @ draws / lengths.sum())),
        **of_documents(draws, truth, order),
    }
    members = np.eye(2)[truth.groups]
    means = topica.estimate_effect(draws, members, add_intercept=False)
    differences = topica.estimate_effect(draws, members[:, 1:])
    centre, error = (
        np.stack(
            [
                [*getattr(mean, name), getattr(difference, name)[1]]
                for mean, difference in zip(means, differences, strict=True)
            ]
        )
        for name in ("coef", "se")
    )
    reach = np.stack([stats.norm.ppf((1 + level) / 2) * error for level in LEVELS])
    return found | of_groups(centre - reach, centre + reach, truth, order)


def peer(case: Case, counts: np.ndarray, seed: int) -> LatentDirichletAllocation:
    """Fit scikit-learn's LDA to convergence of its perplexity, in at most 100 passes."""
    model = LatentDirichletAllocation(
        case.topics,
        doc_topic_prior=case.alpha,
        topic_word_prior=case.beta,
        max_iter=100,
        evaluate_every=10,
        random_state=seed,
    )
    return model.fit(counts)


def gammas(model: LatentDirichletAllocation, counts: np.ndarray, case: Case) -> np.ndarray:
    """Return the parameters of the proportions' variational posteriors, whose sum is known."""
    total = case.alpha * case.topics + counts.sum(axis=1, keepdims=True)
    return model.transform(counts) * total


def label_moments(
    weights: np.ndarray, gamma: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of the share of the tokens in each topic, [K].

    In the variational posterior the labels of tokens are independent.
    """
    topics = np.exp(special.digamma(weights) - special.digamma(weights.sum(axis=1, keepdims=True)))
    rows, words = np.nonzero(counts)
    p = np.exp(special.digamma(gamma))[rows] * topics.T[words]
    p /= p.sum(axis=1, keepdims=True)
    number = counts[rows, words][:, None]
    total = number.sum()
    return (number * p).sum(axis=0) / total, np.sqrt((number * p * (1 - p)).sum(axis=0)) / total


def regression(proportions: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return intervals of group means and their difference, [levels, K, 3], by least squares."""
    parts = [proportions[groups == g] for g in (0, 1)]
    means = [part.mean(axis=0) for part in parts]
    freedom = len(groups) - 2
    spread = sum(((part - mean) ** 2).sum(axis=0) for part, mean in zip(parts, means, strict=True))
    errors = [np.sqrt(spread / freedom / len(part)) for part in parts]
    centre = np.stack([*means, means[1] - means[0]], axis=-1)
    error = np.stack([*errors, np.hypot(*errors)], axis=-1)
    reach = np.stack([stats.t.ppf((1 + level) / 2, freedom) * error for level in LEVELS])
    return centre - reach, centre + reach


def by_moments(mean: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of beta intervals, with the levels in front."""
    lower, upper = zip(*(beta_interval(mean, sd, level) for level in LEVELS), strict=True)
    return np.stack(lower), np.stack(upper)


def by_beta(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the central intervals of beta distributions."""
    tails = [(1 - level) / 2 for level in LEVELS]
    return (
        np.stack([special.betaincinv(a, b, tail) for tail in tails]),
        np.stack([special.betainccinv(a, b, tail) for tail in tails]),
    )


def by_draws(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the central intervals of n draws, [n, ...].

    A further exchangeable draw is between them with the probability of the level: with n draws, the
    quantile p is at place p (n + 1).
    """
    tails = np.array([(1 - level) / 2 for level in LEVELS])
    lower, upper = (np.quantile(draws, p, axis=0, method="weibull") for p in (tails, 1 - tails))
    return lower, upper


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a Markdown table: mean shares over corpora and their standard errors."""
    yield "| quantity | method | corpora | 50% | 80% | 95% |"
    yield "|---|---|---|---|---|---|"
    for quantity in QUANTITIES:
        for method in METHODS:
            here = [r for r in rows if (r["quantity"], r["method"]) == (quantity, method)]
            here = [row for row in here if row["intervals"]]
            if here:
                yield f"| {quantity} | {method} | {len(here)} | {' | '.join(shares(here))} |"
    yield from ("", "| case | prevalence | leading words | proportions | withheld |")
    yield "|---|---|---|---|---|"
    by_case = defaultdict(list)
    mine = [row for row in rows if row["method"] == OURS]
    for row in mine:
        by_case[row["case"]].append(row)
    for case, here in (*by_case.items(), ("all", mine)):
        topics = [row for row in here if row["quantity"] == "prevalence"]
        number = sum(row["topics"] for row in topics)
        apart, few = (sum(row[reason] for row in topics) / number for reason in REASONS)
        held = [
            shares([r for r in here if r["quantity"] == name and r["intervals"]])[-1]
            for name in QUANTITIES[:3]
        ]
        yield f"| {case} | {' | '.join(held)} | {apart:.0%} not in all chains, {few:.0%} slow |"


def shares(rows: list[dict[str, Any]]) -> list[str]:
    """Return the share of intervals that hold the truth at each level, in percent."""
    if not rows:
        return ["–"] * len(LEVELS)
    number = np.array([row["intervals"] for row in rows])
    told = []
    for level in LEVELS:
        held = np.array([row[held_at(level)] for row in rows])
        share = held.sum() / number.sum()
        # Of a ratio of sums, with corpora as the independent units
        error = np.sqrt(((held - share * number) ** 2).sum()) / number.sum()
        told.append(f"{100 * share:.1f} ({100 * error:.1f})")
    return told


if __name__ == "__main__":
    main()
