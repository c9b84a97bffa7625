"""Would split-merge moves of topics be accepted? Their log acceptance ratios, near equilibrium.

    python benchmarks/lda_split_merge.py [--corpora sotu ap] [--proposals 200] [--keep FILE]

Moves of the kind of Jain and Neal (2004), with the topics integrated out and K fixed, so that a
merge needs a split: `resplit` pools the tokens of two topics and divides them again; `exchange`
pools the tokens of two topics in one of them and divides a third. A division starts from random
sides for the pooled tokens, makes restricted Gibbs sweeps, and its last sweep, whose probability
is known, is the proposal. The labels are those of memoised SCIR after `--passes`; proposals are
judged, never made, so each is one from the same state.

"uniform" chooses the topics at random; "best" is the exchange of the two topics whose merge costs
least with the topic whose division gains most, by one division of each.
"""

import argparse
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import kept
import numpy as np
import scipy.sparse as sp
from lda_corpora import NAMES, training_counts
from lda_mixing import ALPHA, BETA
from lda_recorder import SHARED
from scipy.special import gammaln

from simplex_jax._src.corpus import device
from simplex_jax._src.models.lda import model
from simplex_jax._src.runtime.driver import run


class Tokens(NamedTuple):
    """Documents and words of tokens, [N] each, and the shape [D, V] of their corpus."""

    documents: np.ndarray
    words: np.ndarray
    shape: tuple[int, int]


class Proposal(NamedTuple):
    """New labels [N], the change of the log density, and the log acceptance ratio."""

    labels: np.ndarray
    gain: float
    log_ratio: float


def log_density(tokens: Tokens, labels: np.ndarray, topics: int) -> float:
    """Return the log density of labels 0..topics-1, up to a constant of these topics."""
    documents, words = tokens.shape
    of_documents = np.bincount(tokens.documents * topics + labels, minlength=documents * topics)
    of_words = np.bincount(labels * words + tokens.words, minlength=topics * words)
    of_topics = np.bincount(labels, minlength=topics)
    value = gammaln(of_documents + ALPHA).sum() + gammaln(of_words + BETA).sum()
    return float(value - gammaln(of_topics + words * BETA).sum())


@partial(jax.jit, static_argnames="shape")
def _sweep(
    key: jax.Array,
    documents: jax.Array,
    words: jax.Array,
    weights: jax.Array,
    sides: jax.Array,
    forced: jax.Array,
    shape: tuple[int, int],
) -> tuple[jax.Array, jax.Array]:
    """Return sides after a restricted Gibbs sweep, and the log probability of each draw.

    Weights are 1, or 0 for padding; a draw is forced to a side of 0 or 1, and free at -1.
    """
    start = (
        jnp.zeros((shape[0], 2)).at[documents, sides].add(weights),
        jnp.zeros((shape[1], 2)).at[words, sides].add(weights),
        jnp.zeros(2).at[sides].add(weights),
    )

    def step(counts: tuple, token: tuple) -> tuple:
        document, word, weight, side, wish, uniform = token
        places = ((document, side), (word, side), (side,))
        counts = tuple(n.at[at].add(-weight) for n, at in zip(counts, places, strict=True))
        of_document, of_word, totals = counts
        scores = jnp.log(of_document[document] + ALPHA) + jnp.log(of_word[word] + BETA)
        logs = jax.nn.log_softmax(scores - jnp.log(totals + shape[1] * BETA))
        new = jnp.where(wish < 0, (uniform < jnp.exp(logs[1])).astype(sides.dtype), wish)
        places = ((document, new), (word, new), (new,))
        counts = tuple(n.at[at].add(weight) for n, at in zip(counts, places, strict=True))
        return counts, (new, weight * logs[new])

    uniforms = jax.random.uniform(key, sides.shape)
    _, result = jax.lax.scan(step, start, (documents, words, weights, sides, forced, uniforms))
    return result


class Division:
    """Tokens in two topics, as a proposal divides them: from a launch state of these tokens alone.

    Nothing here depends on the sides that the tokens have, only on which tokens they are. So the
    launch state is as probable from either end of the move, and cancels.
    """

    def __init__(self, key: jax.Array, tokens: Tokens, members: np.ndarray, sweeps: int):
        self.key, self.members = key, members
        size = 1 << max(3, int(members.size - 1).bit_length())
        pad = (0, size - members.size)
        self.arguments = (
            jnp.pad(tokens.documents[members], pad),
            jnp.pad(tokens.words[members], pad),
            jnp.pad(jnp.ones(members.size), pad),
        )
        self.shape = tokens.shape
        self.launch = jax.random.bernoulli(key, shape=(size,)).astype(jnp.int32)
        free = jnp.full(size, -1, jnp.int32)
        for number in range(sweeps):
            self.launch, _ = self._sweep(jax.random.fold_in(key, number), free)

    def _sweep(self, key: jax.Array, forced: jax.Array) -> tuple[jax.Array, jax.Array]:
        return _sweep(key, *self.arguments, self.launch, forced, shape=self.shape)

    def propose(self) -> tuple[np.ndarray, float]:
        """Return new sides, bool, and the log probability of proposing them."""
        free = jnp.full_like(self.launch, -1)
        sides, logs = self._sweep(jax.random.fold_in(self.key, 2**20), free)
        return np.asarray(sides)[: self.members.size] == 1, float(np.asarray(logs, float).sum())

    def log_probability(self, sides: np.ndarray) -> float:
        """Return the log probability of proposing these sides."""
        forced = jnp.zeros_like(self.launch).at[: self.members.size].set(sides)
        _, logs = self._sweep(self.key, forced)
        return float(np.asarray(logs, float).sum())


def resplit(
    key: jax.Array, tokens: Tokens, labels: np.ndarray, chosen: tuple[int, int], sweeps: int
) -> Proposal:
    """Divide the tokens of two topics anew."""
    members = np.flatnonzero(np.isin(labels, chosen))
    division = Division(key, tokens, members, sweeps)
    sides = labels[members] == chosen[1]
    new, there = division.propose()
    part = Tokens(tokens.documents[members], tokens.words[members], tokens.shape)
    gain = log_density(part, new.astype(int), 2) - log_density(part, sides.astype(int), 2)
    proposed = labels.copy()
    proposed[members] = np.where(new, chosen[1], chosen[0])
    return Proposal(proposed, gain, gain + division.log_probability(sides) - there)


def exchange(
    key: jax.Array, tokens: Tokens, labels: np.ndarray, chosen: tuple[int, int, int], sweeps: int
) -> Proposal:
    """Move the tokens of the second topic to the first, and a part of the third to the second.

    From the new labels, the same move with the topics third, second and first leads back.
    """
    first, second, third = chosen
    key_merge, key_split = jax.random.split(key)
    merged = np.flatnonzero((labels == first) | (labels == second))
    split = np.flatnonzero(labels == third)
    proposed = labels.copy()
    proposed[merged] = first
    here = Division(key_merge, tokens, merged, sweeps).log_probability(labels[merged] == second)
    new, there = Division(key_split, tokens, split, sweeps).propose()
    proposed[split] = np.where(new, second, third)
    members = np.concatenate([merged, split])
    part = Tokens(tokens.documents[members], tokens.words[members], tokens.shape)
    numbers = {first: 0, second: 1, third: 2}
    number = np.vectorize(numbers.__getitem__, otypes=[int])
    gain = log_density(part, number(proposed[members]), 3)
    gain -= log_density(part, number(labels[members]), 3)
    return Proposal(proposed, gain, gain + here - there)


def best(
    key: jax.Array, tokens: Tokens, labels: np.ndarray, topics: int, sweeps: int
) -> tuple[int, int, int]:
    """Return the topics of the exchange with the highest density, by one division of each."""
    of_merges, of_splits = {}, {}
    for pair in combinations(range(topics), 2):
        members = np.flatnonzero(np.isin(labels, pair))
        part = Tokens(tokens.documents[members], tokens.words[members], tokens.shape)
        one, two = np.zeros(members.size, int), (labels[members] == pair[1]).astype(int)
        of_merges[pair] = log_density(part, one, 2) - log_density(part, two, 2)
    for topic in range(topics):
        members = np.flatnonzero(labels == topic)
        part = Tokens(tokens.documents[members], tokens.words[members], tokens.shape)
        sides, _ = Division(jax.random.fold_in(key, topic), tokens, members, sweeps).propose()
        apart = log_density(part, sides.astype(int), 2)
        of_splits[topic] = apart - log_density(part, np.zeros(members.size, int), 2)
    (first, second), third = max(
        ((pair, topic) for pair in of_merges for topic in of_splits if topic not in pair),
        key=lambda move: of_merges[move[0]] + of_splits[move[1]],
    )
    return first, second, third


def trained(train: sp.csr_array, topics: int, passes: int, seed: int) -> tuple[Tokens, np.ndarray]:
    """Return the tokens of a corpus, and their labels after so many passes."""
    held, shape = device.to_device(train), (topics, train.shape[1])
    kernel, stream = model.build(held, shape, alpha=ALPHA, beta=BETA, batch_size=train.shape[0])
    key = jax.random.key(seed)
    state = kernel.init(key, jnp.ones(shape))
    state, _ = run(jax.random.fold_in(key, 1), kernel, state, stream, passes)
    documents = np.repeat(np.arange(train.shape[0]), np.diff(held.starts))
    tokens = Tokens(documents, np.asarray(held.tokens), train.shape)
    return tokens, np.asarray(state.sampler.memory.labels).astype(int)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", nargs="+", choices=("sotu", *NAMES), default=["sotu", "ap"])
    parser.add_argument("--topics", type=int, default=30)
    parser.add_argument("--passes", type=int, default=2_000)
    parser.add_argument("--proposals", type=int, default=200)
    parser.add_argument("--sweeps", type=int, default=10, help="of a division, before its last")
    parser.add_argument("--peers", type=Path, default=SHARED / "peers")
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in options.corpora:
        train = training_counts(name, options.peers, options.data)
        tokens, labels = trained(train, options.topics, options.passes, seed=0)
        favoured = best(jax.random.key(1), tokens, labels, options.topics, options.sweeps)
        rng = np.random.default_rng(0)
        for move, topics in ((resplit, None), (exchange, None), (exchange, favoured)):
            proposals = []
            for number in range(options.proposals if topics is None else options.proposals // 10):
                count = 2 if move is resplit else 3
                chosen = topics or tuple(map(int, rng.permutation(options.topics)[:count]))
                key = jax.random.fold_in(jax.random.key(2), number)
                proposals.append(move(key, tokens, labels, chosen, options.sweeps))
            ratios = np.array([proposal.log_ratio for proposal in proposals])
            row = {
                "corpus": name,
                "move": move.__name__,
                "topics": "uniform" if topics is None else "best",
                "proposals": ratios.size,
                "median log ratio": float(np.median(ratios)),
                "largest log ratio": float(ratios.max()),
                "largest gain": max(proposal.gain for proposal in proposals),
                "accepted of a million": 1e6 * float(np.exp(np.minimum(ratios, 0)).mean()),
            }
            rows.append(row)
            print(row, flush=True)
            if options.keep:
                kept.write(options.keep, rows)


if __name__ == "__main__":
    main()
