"""Reference draws for the LDA posteriors of posteriordb, which has none.

    python benchmarks/posteriordb.py [POSTERIOR ...] [--draws FOLDER] [--keep FILE]

Two samplers are run for each posterior and compared. For `three_docs1200-ldaK2` the first is exact:
the labels of the tokens are enumerated, so its draws are independent; the second is LDA's Gibbs
sampler with exact SCIR steps of the topics (`lda.build`), begun at exact draws. For the others that
is the first, ten chains from random topics, and the second tomotopy's collapsed Gibbs sampler, ten
chains from random labels (`pip install tomotopy`). Chains of the five topics of Pride and Prejudice
mix slowly: a sample is taken every hundred passes, every twentieth by tomotopy. `--nuts` adds NUTS
on the model with labels summed out, in the coordinates of `GammaReference`, which takes most of the
time.

The posterior is the same whatever the numbers of the topics, which chains rarely exchange. So
everything is judged by quantities that do not depend on the numbers (`quantities`), of all samples
after warm-up, before thinning: R-hat below 1.01, at least 10,000 effective samples in bulk and
tails, or 1,000 where chains mix slowly, and means and variances of the samplers that agree within
their errors. Every fifth sample of ten chains is a draw, and the topics of each draw get numbers by
a uniform permutation: these are draws from the symmetric posterior.

`--draws` writes the draws and their information in posteriordb's format; posteriors that are not
done ("open") have none. `--keep` keeps the diagnostics, and the SHA-256 of the draws, beside those
of earlier runs of the same code for other posteriors. The data are in the folder `posteriordb` of
`--data`, as posteriordb distributes them.
"""

import argparse
import contextlib
import datetime
import functools
import hashlib
import json
import multiprocessing
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import kept
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.sparse as sp
import sources
from arviz_stats.base import array_stats
from lda_recorder import SHARED
from numpyro.handlers import reparam
from numpyro.infer import MCMC, NUTS, init_to_sample
from scipy.special import gammaln
from scipy.stats import norm

from simplex_jax._src.corpus import device
from simplex_jax._src.models import lda
from simplex_jax._src.models.records import versions
from simplex_jax._src.numpyro.reference import GammaReference
from simplex_jax._src.runtime.driver import run

CHAINS, DRAWS, THIN = 10, 1000, 5
"""posteriordb's numbers of chains and of draws in each, and passes from draw to draw."""
WARMUP = 500
NUTS_CHAINS, NUTS_WARMUP, NUTS_SAMPLES = 8, 200, 500
LARGE_RHAT, ENOUGH, ENOUGH_OF_SLOW = 1.01, 10_000, 1_000
FALSE_ALARMS = 1 / 250  # at most, for the largest difference of a posterior
WORDS_WATCHED, DOCUMENTS_WATCHED = 50, 64
EXACT = "three_docs1200-ldaK2"


class Posterior(NamedTuple):
    """A posterior of posteriordb: the file of its data, and a model."""

    data: str
    topics: int
    concentration: float  # of proportions and of topics
    passes: int = 1  # from sample to sample; more where chains mix slowly
    passes_of_check: int = 1  # by tomotopy

    @property
    def is_slow(self) -> bool:
        """Whether chains mix slowly."""
        return self.passes > 1


POSTERIORS = {
    EXACT: Posterior("three_docs1200", 2, 1.0),
    **{f"three_men{i}-ldaK2": Posterior(f"three_men{i}", 2, 1.0) for i in (1, 2, 3)},
    **{
        f"{name}-ldaK5": Posterior(name, 5, 0.1, passes=100, passes_of_check=20)
        for name in ("prideprejudice_chapter", "prideprejudice_paragraph")
    },
}


class Samples(NamedTuple):
    """Samples of proportions [..., samples, M, K] and topics [..., samples, K, V] of chains."""

    theta: np.ndarray
    phi: np.ndarray


Traces: TypeAlias = dict[str, np.ndarray]
"""Quantities that do not depend on topics' numbers, [chains, samples]."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("posteriors", nargs="*", default=list(POSTERIORS), metavar="POSTERIOR")
    parser.add_argument("--nuts", action="store_true")
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--draws", type=Path)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    rows, information = earlier(options.keep, options.posteriors)
    for name in options.posteriors:
        counts = read(options.data / "posteriordb", POSTERIORS[name].data)
        row, info, draws = reference(name, counts, with_nuts=options.nuts)
        if row["state"] == "done":
            row["sha256"] = write(options.draws, name, info, draws)
            information[name] = _without_parameters(info)
        rows.append(row)
        print(json.dumps(row, default=str), flush=True)
        if options.keep:
            kept.write(options.keep, rows, information=information)


def _without_parameters(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return information without its lists, which have thousands of parameters."""
    single = {
        name: value for name, value in info["diagnostics"].items() if not isinstance(value, list)
    }
    del single["diagnostic_information"]
    return {**info, "diagnostics": single}


def earlier(out: Path | None, but: Sequence[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return what a file has of other posteriors, by the same code: runs can be made in parts."""
    if out is None or not out.is_file():
        return [], {}
    result = kept.read(out)
    if result["about"]["digest"] != sources.digest(Path(__file__)):
        return [], {}
    rows = [row for row in result["rows"] if row["posterior"] not in but]
    return rows, {name: info for name, info in result["information"].items() if name not in but}


def read(folder: Path, name: str) -> np.ndarray:
    """Return the counts of words in documents, int [M, V]."""
    with zipfile.ZipFile(folder / f"{name}.json.zip") as archive:
        data = json.loads(archive.read(f"{name}.json"))
    counts = np.zeros((data["M"], data["V"]), np.int64)
    np.add.at(counts, (np.array(data["doc"]) - 1, np.array(data["w"]) - 1), 1)
    return counts


def reference(
    name: str, counts: np.ndarray, *, with_nuts: bool
) -> tuple[dict[str, Any], dict[str, Any], Samples]:
    """Return diagnostics, posteriordb's information, and the draws."""
    model = POSTERIORS[name]
    begun = time.perf_counter()
    row: dict[str, Any] = {"posterior": name}
    is_exact = name == EXACT
    if is_exact:
        found = enumeration(counts)
        row |= {f"log10_weight {mode}": value for mode, value in mode_weights(found).items()}
        exact = enumerated(found, CHAINS * DRAWS, seed=0)
        first: Iterator[Samples] = map(Samples, *exact)
        others = {"second": gibbs(counts, model, seed=1, start=exact.phi[:, 0])}
    else:
        first = gibbs(counts, model, seed=0)
        others = {"second": by_tomotopy(counts, model, seed=1)}
    if with_nuts:
        others["nuts"] = nuts(counts, model, seed=2)
    watched, draws = traced(first, counts, model, step=1 if is_exact else THIN)
    row |= {"quantities": len(watched), **convergence(watched)}
    for sampler, chains in others.items():
        traces, _ = traced(chains, counts, model)
        row |= {f"{sampler}_{key}": value for key, value in convergence(traces).items()}
        row[f"{sampler}_largest_z"] = largest_z(watched, traces)
    # Independent draws are as many as there are; estimates scatter about their number.
    enough = 0 if is_exact else ENOUGH_OF_SLOW if model.is_slow else ENOUGH
    done = (
        row["r_hat"] < LARGE_RHAT
        and (model.is_slow or row["second_r_hat"] < LARGE_RHAT)
        and min(row["ess_bulk"], row["ess_tail"]) >= enough
        and all(row[f"{sampler}_largest_z"] < large_z(len(watched)) for sampler in others)
    )
    draws = relabelled(draws, seed=2)
    info = information_of(name, draws, row)
    sizes = np.array([info["diagnostics"][f"effective_sample_size_{p}"] for p in ("bulk", "tail")])
    outside = (abs(sizes - info["diagnostics"]["ndraws"]) >= reach(draws)).any(axis=0)
    row |= {
        "state": "done" if done else "open",
        "seconds": time.perf_counter() - begun,
        "parameters": sizes.shape[1],
        "parameters_outside_bounds": int(outside.sum()),
        "least_size_of_a_parameter": float(sizes.min()),
    }
    return row, info, draws


def traced(
    chains: Iterable[Samples], counts: np.ndarray, model: Posterior, step: int = 1
) -> tuple[Traces, Samples]:
    """Return the quantities of all samples, and every step-th sample; chains come one by one."""
    traces, samples = [], []
    for chain in chains:
        traces.append(quantities(chain, counts, model))
        samples.append(Samples(chain.theta[step - 1 :: step], chain.phi[step - 1 :: step]))
    return (
        {name: np.stack([trace[name] for trace in traces]) for name in traces[0]},
        Samples(*(np.stack(part) for part in zip(*samples, strict=True))),
    )


class Enumeration(NamedTuple):
    """Log weights of the labels of three documents: the first has words 0 and 1, the others one.

    Tokens of one word in one document are exchangeable: of their labels only the numbers of those
    of the first topic matter, i, j, k and l of the four kinds of tokens. The topics see e = j + k
    only, so that j can be summed out.
    """

    numbers: tuple[int, int, int, int]  # of tokens of the four kinds
    by_j: np.ndarray  # of the documents, [i, j, e]
    total: np.ndarray  # of documents and topics, [i, e, l]


def enumeration(counts: np.ndarray) -> Enumeration:
    """Sum over all labels; both concentrations are 1."""
    a, b, c, d = (int(counts[at]) for at in ((0, 0), (0, 1), (1, 1), (2, 2)))
    if counts.shape != (3, 3) or counts.sum() != a + b + c + d:
        raise ValueError("the enumeration is for three documents with the words 0 and 1, 1, and 2")
    log_documents = [_log_document(n) for n in (a + b, c, d)]
    i, j, e, last = (np.arange(n + 1) for n in (a, b, b + c, d))
    k = e - j[:, None]
    inner = np.where(
        (k >= 0) & (k <= c),
        _log_choose(b)[:, None] + (_log_choose(c) + log_documents[1])[np.clip(k, 0, c)],
        -np.inf,
    )
    first = log_documents[0][i[:, None] + j] + _log_choose(a)[:, None]
    by_j = first[:, :, None] + inner
    total = np.logaddexp.reduce(by_j, axis=1)[:, :, None] + _log_choose(d) + log_documents[2]
    for own in ((i, e, last), (a - i, b + c - e, d - last)):  # the labels of each topic
        words = [gammaln(1 + number) for number in own]
        tokens = own[0][:, None, None] + own[1][:, None] + own[2]
        total += words[0][:, None, None] + words[1][:, None] + words[2] - gammaln(3 + tokens)
    return Enumeration((a, b, c, d), by_j, total)


def mode_weights(found: Enumeration) -> dict[str, float]:
    """Return log10 of the weights of the modes, by which documents share most of their topics."""
    a, b, c, d = found.numbers
    names = ("0 | 1, 2", "0, 2 | 1", "0, 1 | 2", "0, 1, 2")
    cut = [(range(n + 1), n / 2) for n in (a, b + c, d)]
    sides = [np.array(numbers) > half for numbers, half in cut]
    logs = {name: -np.inf for name in names}
    for x, y, z in np.ndindex(2, 2, 2):
        part = found.total[np.ix_(sides[0] == x, sides[1] == y, sides[2] == z)]
        name = names[(0 if y == z else 1 if x == z else 2) if len({x, y, z}) > 1 else 3]
        peak = part.max()
        logs[name] = np.logaddexp(logs[name], peak + np.log(np.exp(part - peak).sum()))
    all_of_them = np.logaddexp.reduce(list(logs.values()))
    return {name: float((value - all_of_them) / np.log(10)) for name, value in logs.items()}


def enumerated(found: Enumeration, number: int, seed: int) -> Samples:
    """Return independent draws."""
    a, b, c, d = found.numbers
    rng = np.random.default_rng(seed)
    weight = np.exp(found.total - found.total.max()).ravel()
    cells = np.searchsorted(np.cumsum(weight), rng.random(number) * weight.sum())
    at_i, at_e, at_l = np.unravel_index(cells, found.total.shape)
    at_j = (found.by_j[at_i, :, at_e] + rng.gumbel(size=(number, b + 1))).argmax(axis=1)
    ones = np.stack([at_i, at_j, at_e - at_j, at_l], axis=1)  # labels of the first topic
    labels = np.stack([ones, np.array([a, b, c, d]) - ones], axis=2)  # [number, 4, K]
    documents = np.stack([labels[:, 0] + labels[:, 1], labels[:, 2], labels[:, 3]], axis=1)
    words = np.stack([labels[:, 0], labels[:, 1] + labels[:, 2], labels[:, 3]], axis=2)
    shape = (CHAINS, number // CHAINS)
    return _given_labels(
        documents.reshape(*shape, *documents.shape[1:]),
        words.reshape(*shape, *words.shape[1:]),
        1.0,
        rng,
    )


def _log_document(tokens: int) -> np.ndarray:
    """Return the log probabilities of labels of a document by the number of the first topic."""
    n = np.arange(tokens + 1)
    return gammaln(1 + n) + gammaln(1 + tokens - n) - gammaln(2 + tokens)


def _log_choose(total: int) -> np.ndarray:
    n = np.arange(total + 1)
    return gammaln(total + 1) - gammaln(n + 1) - gammaln(total - n + 1)


def gibbs(
    counts: np.ndarray, model: Posterior, seed: int, start: np.ndarray | None = None
) -> Iterator[Samples]:
    """Yield chains of `lda.build` after warm-up, from topics [chains, K, V] or random ones."""
    documents, words = counts.shape
    corpus = device.to_device(sp.csr_array(counts))
    kernel, stream = lda.build(
        corpus,
        (model.topics, words),
        alpha=model.concentration,
        beta=model.concentration,
        batch_size=documents,
    )
    order = np.asarray(corpus.order)  # of the documents there
    of_token = jnp.asarray(np.repeat(order, counts.sum(axis=1)[order]))

    def collect(state: Any) -> tuple[jax.Array, jax.Array]:
        memory = state.sampler.memory
        labels = memory.labels.astype(jnp.int32)
        tally = jnp.zeros((documents, model.topics), jnp.int32).at[of_token, labels].add(1)
        return tally, memory.counts.astype(jnp.int32)

    rng = np.random.default_rng(seed)
    for chain in range(CHAINS):
        key_topics, key_init, *keys = jax.random.split(jax.random.key(seed + 100 * chain), 4)
        topics = (
            jax.random.dirichlet(key_topics, jnp.ones(words), (model.topics,))
            if start is None
            else jnp.asarray(start[chain], jnp.float32)
        )
        state = kernel.init(key_init, topics)
        warmup, passes = WARMUP * model.passes, DRAWS * THIN * model.passes
        state, _ = run(keys[0], kernel, state, stream, warmup, collect=lambda *_: 0)
        state, numbers = run(
            *(keys[1], kernel, state, stream, passes),
            collect=lambda state, *_: collect(state),
            thin=model.passes,
            chunk=100 * model.passes,
        )
        documents_of, topics_of = jax.tree.map(np.asarray, numbers)
        yield _given_labels(documents_of, topics_of, model.concentration, rng)


def _given_labels(
    documents: np.ndarray, topics: np.ndarray, concentration: float, rng: np.random.Generator
) -> Samples:
    """Draw proportions and topics given numbers of labels [..., M, K] and [..., K, V].

    In float64, which holds the smallest probabilities.
    """
    drawn = []
    for numbers in (documents, topics):
        weights = rng.standard_gamma(concentration + numbers)
        weights /= weights.sum(axis=-1, keepdims=True)
        drawn.append(weights)
    return Samples(*drawn)


def by_tomotopy(counts: np.ndarray, model: Posterior, seed: int) -> Iterator[Samples]:
    """Yield chains of tomotopy's collapsed Gibbs sampler, after warm-up, from random labels."""
    rng = np.random.default_rng(seed)
    seeds = (seed + 100 * chain for chain in range(CHAINS))
    chain = functools.partial(_labels_by_tomotopy, counts, model, WARMUP, DRAWS * THIN)
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        for numbers in pool.map(chain, seeds):
            yield _given_labels(*numbers, model.concentration, rng)


def _labels_by_tomotopy(
    counts: np.ndarray, model: Posterior, warmup: int, samples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of labels, [samples, M, K] and [samples, K, V]."""
    import tomotopy

    prior = model.concentration
    chain = tomotopy.LDAModel(k=model.topics, alpha=prior, eta=prior, seed=seed)
    for row in counts:
        chain.add_doc([str(word) for word in np.repeat(np.arange(len(row)), row)])
    chain.optim_interval = 0  # keep alpha
    chain.train(warmup * model.passes_of_check, workers=1)
    vocabulary = np.array([int(word) for word in chain.used_vocabs])
    words = vocabulary[np.concatenate([document.words for document in chain.docs])]
    of_token = np.repeat(np.arange(len(counts)), counts.sum(axis=1))
    documents = np.zeros((samples, len(counts), model.topics), np.int16)
    topics = np.zeros((samples, model.topics, counts.shape[1]), np.int16)
    for sample in range(samples):
        chain.train(model.passes_of_check, workers=1)
        labels = np.concatenate([document.topics for document in chain.docs])
        np.add.at(documents[sample], (of_token, labels), 1)
        np.add.at(topics[sample], (labels, words), 1)
    if not np.array_equal(topics[-1].sum(axis=0), counts.sum(axis=0)):
        raise AssertionError("tomotopy has other words")
    return documents, topics


def nuts(counts: np.ndarray, model: Posterior, seed: int) -> Iterator[Samples]:
    """Yield chains of NUTS on the model with labels summed out.

    The distribution given the expected labels at the posterior's mode is normal in its coordinates,
    and chains start at draws of it.
    """
    rows, columns = np.nonzero(counts)
    number = jnp.asarray(counts[rows, columns], jnp.float32)
    # Relative to the saturated model, so that a float32 holds the sum.
    saturated = jnp.log(number / jnp.asarray(counts.sum(axis=1))[rows])
    prior = model.concentration

    def summed_out() -> None:
        with numpyro.plate("documents", len(counts)):
            theta = numpyro.sample("theta", dist.Dirichlet(jnp.full(model.topics, prior)))
        with numpyro.plate("topics", model.topics):
            phi = numpyro.sample("phi", dist.Dirichlet(jnp.full(counts.shape[1], prior)))
        log_p = jnp.log((theta @ phi)[rows, columns])
        numpyro.factor("words", (number * (log_p - saturated)).sum())

    theta, phi = expected_labels(counts, model, np.random.default_rng(seed))
    references = {"theta": GammaReference(prior + theta), "phi": GammaReference(prior + phi)}
    sampler = MCMC(
        NUTS(reparam(summed_out, config=references), init_strategy=init_to_sample),
        num_warmup=NUTS_WARMUP,
        num_samples=NUTS_SAMPLES,
        num_chains=NUTS_CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(jax.random.key(seed))
    samples = sampler.get_samples(group_by_chain=True)
    yield from map(Samples, np.asarray(samples["theta"]), np.asarray(samples["phi"]))


def expected_labels(
    counts: np.ndarray, model: Posterior, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return expected numbers of labels, [M, K] and [K, V], at the best mode of five searches."""
    best = (-np.inf, np.empty(0), np.empty(0))
    for _ in range(5):
        phi = rng.dirichlet(np.ones(counts.shape[1]), model.topics)
        theta = np.full((len(counts), model.topics), 1 / model.topics)
        for _ in range(300):  # expectation maximisation
            weight = counts / (theta @ phi)
            of_documents, of_topics = theta * (weight @ phi.T), phi * (theta.T @ weight)
            theta = of_documents + model.concentration
            theta /= theta.sum(axis=1, keepdims=True)
            phi = of_topics + model.concentration
            phi /= phi.sum(axis=1, keepdims=True)
        level = _log_joint(theta[None], phi[None], counts, model.concentration + 1)[0]
        best = max(best, (level, of_documents, of_topics), key=lambda found: found[0])
    return best[1:]


def quantities(samples: Samples, counts: np.ndarray, model: Posterior) -> Traces:
    """Trace quantities of a chain that do not depend on the numbers of the topics.

    They are the log joint density, the share of the larger topic, inner products of the proportions
    of each two of the longest documents, sums and sums of squares over topics for the most frequent
    words, and probabilities of the five most frequent words of each of these documents.
    """
    theta, phi = samples
    found: Traces = {"log joint density": _log_joint(theta, phi, counts, model.concentration)}
    lengths = counts.sum(axis=1)
    found["largest topic"] = (np.moveaxis(theta, -2, -1) @ (lengths / lengths.sum())).max(axis=-1)
    longest = np.sort(np.argsort(-lengths, kind="stable")[:DOCUMENTS_WATCHED])
    for at, i in enumerate(longest):
        for j in longest[: at + 1]:
            found[f"documents {j}, {i}"] = (theta[:, i] * theta[:, j]).sum(axis=-1)
    for word in np.argsort(-counts.sum(axis=0), kind="stable")[:WORDS_WATCHED]:
        found[f"word {word}"] = phi[..., word].sum(axis=-1)
        found[f"word {word}, squares"] = (phi[..., word] ** 2).sum(axis=-1)
    for document in longest:
        for word in np.argsort(-counts[document], kind="stable")[:5]:
            p = (theta[:, document] * phi[..., word]).sum(axis=-1)
            found[f"word {word} in document {document}"] = p
    return {name: trace.astype(np.float64) for name, trace in found.items()}


def _log_joint(
    theta: np.ndarray, phi: np.ndarray, counts: np.ndarray, concentration: float
) -> np.ndarray:
    """Return log p(w, theta, phi) up to a constant, of samples [n, M, K] and [n, K, V]."""
    rows, columns = np.nonzero(counts)
    number = counts[rows, columns]
    found = np.zeros(len(theta))
    for at, (proportions, topics) in enumerate(zip(theta, phi, strict=True)):
        p = np.einsum("rk,kr->r", proportions[rows], topics[:, columns])
        found[at] = number @ np.log(p)
        if concentration != 1:
            found[at] += (concentration - 1) * (np.log(proportions).sum() + np.log(topics).sum())
    return found


def convergence(traces: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the largest R-hat and the smallest effective sizes of all traces."""
    arrays = list(traces.values())
    return {
        "r_hat": max(_stat("rhat", trace) for trace in arrays),
        "ess_bulk": min(_stat("ess", trace, method="bulk") for trace in arrays),
        "ess_tail": min(_stat("ess", trace, method="tail", prob=(0.05, 0.95)) for trace in arrays),
    }


def _stat(name: str, trace: np.ndarray, **options: Any) -> float:
    return float(getattr(array_stats, name)(trace, chain_axis=0, draw_axis=1, **options))


def largest_z(first: Traces, second: Traces) -> float:
    """Return the largest difference of two samplers' means and variances, in its errors."""
    largest = 0.0
    for name, trace in first.items():
        centre = trace.mean()
        for power in (1, 2):
            moved = [(part - centre) ** power for part in (trace, second[name])]
            errors = [part.std() / np.sqrt(_stat("ess", part, method="mean")) for part in moved]
            z = abs(moved[0].mean() - moved[1].mean()) / np.hypot(*errors)
            largest = max(largest, float(z))
    return largest


def large_z(quantities: int) -> float:
    """Return what the largest of means and variances, were all independent, seldom reaches."""
    return float(norm.isf(FALSE_ALARMS / 2 / (2 * quantities)))


def relabelled(samples: Samples, seed: int) -> Samples:
    """Give the topics of each draw numbers by a uniform permutation."""
    rng = np.random.default_rng(seed)
    theta, phi = samples
    order = rng.random((*theta.shape[:2], theta.shape[-1])).argsort(axis=-1)
    return Samples(
        np.take_along_axis(theta, order[:, :, None, :], axis=-1),
        np.take_along_axis(phi, order[:, :, :, None], axis=-2),
    )


def parameters(draws: Samples) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name of each parameter, indices from 1, and its draws, [chains, draws]."""
    for name, array in (("theta", draws.theta), ("phi", draws.phi)):
        for i, j in np.ndindex(array.shape[2:]):
            yield f"{name}[{i + 1},{j + 1}]", array[:, :, i, j]


def as_json(draws: Samples) -> Iterator[str]:
    """Yield draws in posteriordb's format, in parts: of each chain, the draws of each parameter."""
    for chain in range(len(draws.theta)):
        yield ",{" if chain else "[{"
        separator = ""
        for name, (row,) in parameters(Samples(*(part[chain : chain + 1] for part in draws))):
            short = [float(f"{number:.7g}") for number in row.tolist()]
            yield f'{separator}"{name}":{json.dumps(short, separators=(",", ":"))}'
            separator = ","
        yield "}"
    yield "]"


def reach(draws: Samples) -> float:
    """Return how far effective sizes may be from the number of draws by posteriordb's rules."""
    return float(4 * np.sqrt(7 * draws.theta.shape[0] * draws.theta.shape[1]))


def information_of(name: str, draws: Samples, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return posteriordb's information on reference draws, with the checks that it makes."""
    names: list[str] = []
    sizes: dict[str, list[float]] = {"bulk": [], "tail": [], "rhat": [], "lag": []}
    for parameter, array in parameters(draws):
        names.append(parameter)
        trace = array.astype(np.float64)
        sizes["bulk"].append(_stat("ess", trace, method="bulk"))
        sizes["tail"].append(_stat("ess", trace, method="tail", prob=(0.05, 0.95)))
        sizes["rhat"].append(_stat("rhat", trace))
        centred = trace - trace.mean(axis=1, keepdims=True)
        lag = (centred[:, 1:] * centred[:, :-1]).sum(axis=1) / (centred**2).sum(axis=1)
        sizes["lag"].append(float(lag.mean()))
    short = {key: [float(f"{value:.6g}") for value in values] for key, values in sizes.items()}
    number = draws.theta.shape[0] * draws.theta.shape[1]
    sampler = "exact enumeration of all labels" if name == EXACT else "Gibbs sampling, exact SCIR"
    return {
        "name": name,
        "inference": {
            "method": "analytical" if name == EXACT else "simplex_jax",
            "method_arguments": {
                "sampler": sampler,
                "chains": CHAINS,
                "warmup": 0 if name == EXACT else WARMUP * POSTERIORS[name].passes,
                "thin": 1 if name == EXACT else THIN * POSTERIORS[name].passes,
                "seed": 0,
            },
        },
        "diagnostics": {
            "diagnostic_information": {"names": names},
            "ndraws": number,
            "nchains": CHAINS,
            "effective_sample_size_bulk": short["bulk"],
            "effective_sample_size_tail": short["tail"],
            "r_hat": short["rhat"],
            "mean_lag1_ac": short["lag"],
        },
        "checks_made": {
            "ndraws_is_10k": number == 10_000,
            "nchains_is_gte_4": CHAINS >= 4,
            "ess_within_bounds": all(
                abs(size - number) < reach(draws) for size in sizes["bulk"] + sizes["tail"]
            ),
            "r_hat_below_1_01": max(sizes["rhat"]) < LARGE_RHAT,
            "abs_mean_lag1_ac_below_0_05": max(map(abs, sizes["lag"])) < 0.05,
        },
        "comments": (
            "The posterior does not depend on the numbers of the topics. Each draw has them in the "
            "order of a uniform permutation, so parameters are exchangeable over topics; chains "
            "were judged before, by quantities that do not depend on the order: R-hat "
            f"{row['r_hat']:.4f}, at least {row['ess_bulk']:.0f} effective samples in bulk and "
            f"{row['ess_tail']:.0f} in tails, means and variances within "
            f"{row['second_largest_z']:.1f} standard errors of those of another sampler."
        ),
        "added_by": "simplex_jax",
        "added_date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": versions(),
    }


def write(folder: Path | None, name: str, info: Mapping[str, Any], draws: Samples) -> str:
    """Write draws and information to posteriordb's folders, if any; return the draws' SHA-256."""
    digest = hashlib.sha256()
    with contextlib.ExitStack() as stack:
        if folder is not None:
            for part in ("draws", "info"):
                (folder / part).mkdir(parents=True, exist_ok=True)
            text = json.dumps(info, indent=2) + "\n"
            (folder / "info" / f"{name}.info.json").write_text(text, "utf-8")
            entry = zipfile.ZipInfo(f"{name}.json", (1980, 1, 1, 0, 0, 0))  # the same bytes always
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive = stack.enter_context(
                zipfile.ZipFile(folder / "draws" / f"{name}.json.zip", "w")
            )
            file = stack.enter_context(archive.open(entry, "w", force_zip64=True))
        for text in as_json(draws):
            digest.update(text.encode())
            if folder is not None:
                file.write(text.encode())
    return digest.hexdigest()


if __name__ == "__main__":
    main()
