"""Mixed memberships of a network by minibatches of nodes: SCIR and others on political blogs.

    python benchmarks/papers/scir_networks.py [--quick] [--out FOLDER] [--seed N] [--data FOLDER]

Baker, Fearnhead, Fox and Nemeth (2018, section 1) name networks as sparse simplex models in which
SCIR should do better than SGRLD, without an experiment. This is the assortative mixed-membership
stochastic blockmodel, in the form of Gopalan and Blei (2013) and of Li, Ahn and Welling (2016), who
sample it by SGRLD (neither paper was at hand: what follows is derived from the model). With N nodes
and K communities,

    pi_i ~ Dirichlet(alpha, ..., alpha),           memberships of node i
    beta_k ~ Beta(1, 1),                           strength of community k
    z_ij ~ pi_i and z_ji ~ pi_j for every pair,    their labels
    y_ij ~ Bernoulli(beta_k) if z_ij = z_ji = k, otherwise Bernoulli(epsilon)

A pair has the likelihood sum_k pi_ik pi_jk f_k + (1 - sum_k pi_ik pi_jk) f_0, where f_k and f_0 are
the Bernoulli probabilities of y_ij. The expected labels given pi and beta are

    P(z_ij = k | y_ij) prop. to pi_ik (pi_jk f_k + (1 - pi_jk) f_0)
    P(z_ij = z_ji = k | y_ij) prop. to pi_ik pi_jk f_k

The rows pi_i have the first as counts, summed over j, and the pairs (beta_k, 1 - beta_k) the
second, summed over linked and unlinked pairs. An update uses n nodes, all their links and m nodes
drawn uniformly for each. Those not linked to the node represent, scaled by N / m, all that are not.
The update moves the memberships of the n nodes, and then the strengths, whose counts are scaled by
N / (2 n): both counts are unbiased. Steps decay as h (1 + t / 100)^-0.33.

The reference is Gibbs sampling of all pairs: labels are drawn, and then memberships and strengths
exactly. It makes as many sweeps as a node has visits in a run of the samplers.

Links are undirected, from the largest component of the blogs. A tenth of the links is held out,
with as many unlinked pairs; a second such set, with another seed and runs of half the length,
chooses step sizes. Neither is trained on. All methods start at the same memberships, from clusters
of the leading eigenvectors: from memberships without structure, runs end in modes of one or two
communities. The score is the perplexity of Li et al., exp of minus the mean over held-out pairs of
the log of the probability of y_ij, averaged over the samples of the second half of a run.
"""

import functools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import common
import jax
import jax.numpy as jnp
import numpy as np
from baselines import reflected_cir
from scipy.cluster import vq
from scipy.sparse import csgraph

from simplex_jax._src import draws, schedules
from simplex_jax._src.base import Kernel, bind
from simplex_jax._src.batches import permutation
from simplex_jax._src.estimators import Estimator, no_memory
from simplex_jax._src.samplers import scir, sgrld, smld

COMMUNITIES = 10
ALPHA = 1 / COMMUNITIES
ETA = 1.0
EPSILON = 0.002  # a tenth of the share of linked pairs
NODES, OTHERS = 50, 50  # n and m
HELD_OUT = 0.1
EVERY = 50  # updates between two scores

UNLINKED, LINKED, HIDDEN = 0, 1, 2
"""Status of a pair; held-out pairs, and a node with itself, are hidden."""


class Network(NamedTuple):
    """A training network, and pairs to score.

    Attributes:
        status: Status of every pair, uint8 [N, N].
        neighbours: Links of every node that are not held out, [N, D], N where there are fewer.
        pairs: Held-out pairs, [P, 2].
        linked: Whether they are linked, [P].
    """

    status: jax.Array
    neighbours: jax.Array
    pairs: jax.Array
    linked: jax.Array


class Params(NamedTuple):
    """Logs of memberships [N, K], and of strengths and their complements [K, 2]."""

    pi: jax.Array
    beta: jax.Array


class Pairs(NamedTuple):
    """Pairs of nodes, and their weights.

    Attributes:
        first: Rows of the first nodes, [n].
        second: Numbers of the second nodes, [n, M].
        linked: Whether they are linked, [n, M].
        weight: Weight of each pair, [n, M].
    """

    first: jax.Array
    second: jax.Array
    linked: jax.Array
    weight: jax.Array


def blogs(folder: Path) -> np.ndarray:
    """Return links of the largest component of the political blogs, bool [N, N]."""
    words = (folder / "polblogs" / "polblogs.gml").read_text("utf-8").split()
    edges = [
        (int(words[i + 1]), int(words[i + 3]))
        for i, word in enumerate(words)
        if word == "source" and words[i + 2] == "target"
    ]
    links = np.zeros((max(map(max, edges)) + 1,) * 2, bool)
    for source, target in edges:
        links[source, target] = links[target, source] = source != target
    component = csgraph.connected_components(links, directed=False)[1]
    largest = component == np.bincount(component).argmax()
    return links[np.ix_(largest, largest)]


def drawn_network(seed: int, size: int) -> np.ndarray:
    """Return links of a small network of three communities, for quick runs and tests."""
    generator = np.random.default_rng(seed)
    pi = generator.dirichlet(np.full(3, 0.1), size)
    shared = pi @ pi.T
    upper = np.triu(generator.uniform(size=(size, size)) < 0.5 * shared + 0.01 * (1 - shared), 1)
    return upper | upper.T


def split(links: np.ndarray, seed: int) -> tuple[Network, Network]:
    """Hold out pairs twice; return the network without both sets, for scores and for tuning."""
    generator = np.random.default_rng(seed)
    size = len(links)
    i, j = np.triu_indices(size, 1)
    here = links[i, j]
    number = round(HELD_OUT * here.sum())
    rows = [generator.permutation(np.flatnonzero(here == link)) for link in (True, False)]
    status = np.where(links, LINKED, UNLINKED).astype(np.uint8)
    np.fill_diagonal(status, HIDDEN)
    for row in np.concatenate([part[: 2 * number] for part in rows]):
        status[i[row], j[row]] = status[j[row], i[row]] = HIDDEN
    known = status == LINKED
    neighbours = np.full((size, known.sum(axis=1).max()), size, np.int32)
    for node, row in enumerate(known):
        neighbours[node, : row.sum()] = np.flatnonzero(row)
    networks = []
    for part in range(2):
        held = np.concatenate([part_of[part * number : (part + 1) * number] for part_of in rows])
        networks.append(
            Network(
                jnp.asarray(status),
                jnp.asarray(neighbours),
                jnp.asarray(np.stack([i[held], j[held]], axis=1)),
                jnp.asarray(here[held]),
            )
        )
    return networks[0], networks[1]


def labels(
    pi_i: jax.Array, pi_j: jax.Array, beta: jax.Array, linked: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the probability of pairs and the weights that sum to it.

    Args:
        pi_i: Memberships of first nodes, [..., K].
        pi_j: Likewise, of the second ones.
        beta: Strengths [K].
        linked: Whether they are linked, [...].

    Returns:
        pi_ik pi_jk f_k, pi_ik (1 - pi_jk) f_0, both [..., K], and their sum over k and both, [...].
    """
    linked = linked[..., None]
    inside = jnp.where(linked, beta, 1 - beta)
    between = jnp.where(linked, EPSILON, 1 - EPSILON)
    same, other = pi_i * pi_j * inside, pi_i * (1 - pi_j) * between
    return same, other, (same + other).sum(axis=-1)


def pairs_of(key: jax.Array, nodes: jax.Array, network: Network, others: int | None) -> Pairs:
    """Return all links of nodes, and pairs representing the rest; with None all pairs."""
    size = len(network.status)
    if others is None:
        second = jnp.broadcast_to(jnp.arange(size), (len(nodes), size))
        status = network.status[nodes]
        return Pairs(nodes, second, status == LINKED, (status != HIDDEN).astype(jnp.float32))
    links = network.neighbours[nodes]
    drawn = jax.random.randint(key, (len(nodes), others), 0, size)
    weight = (network.status[nodes[:, None], drawn] == UNLINKED) * (size / others)
    return Pairs(
        nodes,
        jnp.concatenate([jnp.minimum(links, size - 1), drawn], axis=1),
        jnp.concatenate([jnp.ones_like(links, bool), jnp.zeros_like(drawn, bool)], axis=1),
        jnp.concatenate([(links < size).astype(jnp.float32), weight], axis=1),
    )


def membership_counts(pi: jax.Array, params: Params, pairs: Pairs) -> jax.Array:
    """Return the expected labels of the nodes of pairs, whose memberships are pi [n, K]."""
    pi_j, beta = jnp.exp(params.pi)[pairs.second], jnp.exp(params.beta[:, 0])
    same, other, total = labels(pi[:, None], pi_j, beta, pairs.linked)
    return ((same + other) * (pairs.weight / total)[..., None]).sum(axis=1)


def strength_counts(params: Params, pairs: Pairs) -> jax.Array:
    """Return the expected number of pairs in each community, linked and not, [K, 2]."""
    pi, beta = jnp.exp(params.pi), jnp.exp(params.beta[:, 0])
    same, _, total = labels(pi[pairs.first][:, None], pi[pairs.second], beta, pairs.linked)
    share = same * (pairs.weight / total)[..., None]
    linked = pairs.linked[..., None]
    parts = [jnp.where(linked, share, 0), jnp.where(linked, 0, share)]
    size = len(params.pi)
    scale = size / (2 * len(pairs.first))  # a pair is seen from both ends
    return jnp.stack([scale * part.sum(axis=(0, 1)) for part in parts], axis=-1)


def _memberships(
    key: jax.Array, memory: Any, position: jax.Array, batch: tuple[Params, Pairs]
) -> tuple[jax.Array, Any]:
    del key
    return membership_counts(jnp.exp(position), *batch), memory


def _strengths(
    key: jax.Array, memory: Any, position: jax.Array, batch: tuple[Params, Pairs]
) -> tuple[jax.Array, Any]:
    del key
    params, pairs = batch
    return strength_counts(params._replace(beta=position), pairs), memory


class Method(NamedTuple):
    """A sampler, with its step sizes of memberships, and of strengths in units of them."""

    build: Callable[..., Kernel]
    steps: Sequence[float]
    ratios: Sequence[float]


# At its largest step size SCIR draws afresh, given the counts: larger ones are alike. Reflected
# Euler steps diverge from 2 on. SGRLD and SMLD need steps of the order of the inverse counts of a
# row, a thousand for memberships and up to a hundred thousand for strengths.
METHODS = {
    "SCIR": Method(scir.build, (10.0, 3.0, 1.0, 0.3), (1.0, 0.1)),
    "reflected Euler": Method(reflected_cir.build, (1.5, 1.0, 0.5), (1.0, 0.1)),
    "SGRLD": Method(sgrld.build, (0.1, 0.03, 0.01, 0.003, 0.001), (0.1, 0.01)),
    "SMLD": Method(smld.build, (0.1, 0.03, 0.01, 0.003, 0.001), (0.1, 0.01)),
}


class Chain(NamedTuple):
    """Carry of a run: states of the two kernels, and held-out probabilities."""

    nodes: Any
    strengths: Any
    total: jax.Array  # sum of the held-out pairs' probabilities over the counted samples
    samples: jax.Array


def probability(params: Params, network: Network) -> jax.Array:
    """Return the probability of the held-out pairs' status, [P]."""
    pi = jnp.exp(params.pi)
    i, j = network.pairs.T
    return labels(pi[i], pi[j], jnp.exp(params.beta[:, 0]), network.linked)[2]


def start(network: Network, seed: int) -> Params:
    """Return memberships of nine tenths in each node's cluster, and the cluster strengths.

    The clusters are k-means of the leading eigenvectors of the known links, by their eigenvalues.
    """
    known = np.asarray(network.status == LINKED).astype(float)
    values, vectors = np.linalg.eigh(known)
    points = vectors[:, -COMMUNITIES:] * values[-COMMUNITIES:]
    generator = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an empty cluster
        clusters = vq.kmeans2(points, COMMUNITIES, minit="++", rng=generator)[1]
    own = np.eye(COMMUNITIES)[clusters]
    linked = np.einsum("ik,ij,jk->k", own, known, own)
    strengths = (linked + 1) / (own.sum(axis=0) ** 2 + 50)  # away from 0 and 1
    pi = 0.9 * own + 0.1 / COMMUNITIES
    beta = np.stack([strengths, 1 - strengths], axis=1)
    return Params(*(jnp.asarray(np.log(part), jnp.float32) for part in (pi, beta)))


@functools.partial(jax.jit, static_argnames=("build", "updates", "nodes", "others", "every"))
def sampled(
    key: jax.Array,
    network: Network,
    first: Params,
    step_size: Any,
    ratio: Any,
    *,
    build: Callable[..., Kernel],
    updates: int,
    nodes: int = NODES,
    others: int = OTHERS,
    every: int = EVERY,
) -> tuple[jax.Array, jax.Array, Params]:
    """Run a sampler; return perplexities over time, single and averaged, and its last state."""
    key_init, key_run = jax.random.split(key)
    size = len(network.status)
    kernels = [
        build(Estimator(no_memory, bind(counts)), alpha, schedules.polynomial_decay(h, 100, 0.33))
        for counts, alpha, h in (
            (_memberships, ALPHA, step_size),
            (_strengths, ETA, step_size * ratio),
        )
    ]

    def move(states: tuple[Any, Any], t: jax.Array) -> tuple[tuple[Any, Any], None]:
        whole, strengths = states
        keys = jax.random.split(jax.random.fold_in(key_run, t), 4)
        ids = permutation(keys[0], jnp.arange(nodes), size)
        pairs = pairs_of(keys[1], ids, network, others)
        # The kernel moves only the rows of the batch.
        own = jax.tree.map(lambda leaf: leaf[ids], (whole.position, _more(whole)))
        state = _with(whole._replace(position=own[0]), own[1])
        params = Params(whole.position, strengths.position)
        state, _ = kernels[0].update(keys[2], state, (params, pairs))
        back = jax.tree.map(
            lambda leaf, rows: leaf.at[ids].set(rows),
            (whole.position, _more(whole)),
            (state.position, _more(state)),
        )
        whole = _with(state._replace(position=back[0]), back[1])
        params = params._replace(pi=whole.position)
        strengths, _ = kernels[1].update(keys[3], strengths, (params, pairs))
        return (whole, strengths), None

    def visit(chain: Chain, t: jax.Array) -> tuple[Chain, jax.Array]:
        states, _ = jax.lax.scan(move, chain[:2], t * every + jnp.arange(every))
        result = probability(Params(states[0].position, states[1].position), network)
        counts = (t >= updates // every // 2).astype(result.dtype)
        chain = Chain(*states, chain.total + counts * result, chain.samples + counts)
        return chain, jnp.stack([perplexity(result), perplexity(chain.total / chain.samples)])

    key_pi, key_beta = jax.random.split(key_init)
    chain = Chain(
        kernels[0].init(key_pi, jnp.exp(first.pi)),
        kernels[1].init(key_beta, jnp.exp(first.beta)),
        jnp.zeros(len(network.pairs)),
        jnp.zeros(()),
    )
    chain, scores = jax.lax.scan(visit, chain, jnp.arange(updates // every))
    return scores[:, 0], scores[:, 1], Params(chain.nodes.position, chain.strengths.position)


def _more(state: Any) -> Any:
    """Return the rows of a state apart from the position: a total, or nothing."""
    return getattr(state, "log_total", None)


def _with(state: Any, total: Any) -> Any:
    return state if total is None else state._replace(log_total=total)


def perplexity(probabilities: jax.Array) -> jax.Array:
    """Return exp of minus the mean logarithm."""
    return jnp.exp(-jnp.log(probabilities).mean())


@functools.partial(jax.jit, static_argnames=("sweeps", "every"))
def gibbs(
    key: jax.Array, network: Network, first: Params, *, sweeps: int, every: int = 1
) -> tuple[jax.Array, jax.Array, Params]:
    """Draw labels of all pairs, memberships and strengths; return what `sampled` returns."""

    def sweep(params: Params, t: jax.Array) -> tuple[Params, None]:
        key_labels, key_pi, key_beta = jax.random.split(jax.random.fold_in(key, t), 3)
        nodes, strengths = drawn_counts(key_labels, params, network)
        pi = draws.log_dirichlet(key_pi, ALPHA + nodes)
        return Params(pi, draws.log_dirichlet(key_beta, ETA + strengths)), None

    def visit(carry: tuple, t: jax.Array) -> tuple[tuple, jax.Array]:
        params, total, samples = carry
        params, _ = jax.lax.scan(sweep, params, t * every + jnp.arange(every))
        result = probability(params, network)
        counts = (t >= sweeps // every // 2).astype(result.dtype)
        total, samples = total + counts * result, samples + counts
        return (params, total, samples), jnp.stack(
            [perplexity(result), perplexity(total / samples)]
        )

    carry = (first, jnp.zeros(len(network.pairs)), jnp.zeros(()))
    (params, _, _), scores = jax.lax.scan(visit, carry, jnp.arange(sweeps // every))
    return scores[:, 0], scores[:, 1], params


def drawn_counts(key: jax.Array, params: Params, network: Network) -> tuple[jax.Array, jax.Array]:
    """Draw both labels of every pair; return counts of nodes [N, K] and of communities [K, 2]."""
    size, communities = params.pi.shape
    pi, beta = jnp.exp(params.pi), jnp.exp(params.beta[:, 0])
    kinds = jnp.arange(communities)

    def row(counts: tuple, i: jax.Array) -> tuple[tuple, None]:
        nodes, strengths = counts
        key_first, key_second = jax.random.split(jax.random.fold_in(key, i))
        status = network.status[i]
        linked = status == LINKED
        used = (status != HIDDEN) & (jnp.arange(size) > i)
        same, other, _ = labels(pi[i], pi, beta, linked)
        first = draws.categorical(key_first, same + other)
        # Given the first label, the second is the same, or one of the others.
        at = kinds == first[:, None]
        inside = jnp.where(linked[:, None], beta, 1 - beta)
        between = jnp.where(linked, EPSILON, 1 - EPSILON)[:, None]
        second = draws.categorical(key_second, pi * jnp.where(at, inside, between))
        used_by = used[:, None].astype(pi.dtype)
        of_first, of_second = at * used_by, (kinds == second[:, None]) * used_by
        nodes = (nodes + of_second).at[i].add(of_first.sum(axis=0))
        both = of_first * of_second
        parts = [jnp.where(linked[:, None], both, 0), jnp.where(linked[:, None], 0, both)]
        return (nodes, strengths + jnp.stack([p.sum(axis=0) for p in parts], axis=-1)), None

    zeros = (jnp.zeros((size, communities)), jnp.zeros((communities, 2)))
    return jax.lax.scan(row, zeros, jnp.arange(size))[0]


@click.command(help=__doc__.splitlines()[0])
@common.options("scir_networks")
@click.option("--data", type=click.Path(path_type=Path), default=common.DATA, show_default=True)
@click.option("--seeds", "number", default=3, show_default=True, help="Runs that are averaged.")
@click.option("--updates", default=10_000, show_default=True)
def main(quick: bool, out: Path, seed: int, data: Path, number: int, updates: int) -> None:
    started = time.perf_counter()
    links = drawn_network(0, 60) if quick else blogs(data)
    size = len(links)
    updates, number, nodes, others = (400, 1, 10, 10) if quick else (updates, number, NODES, OTHERS)
    sizes = {"nodes": nodes, "others": others}
    sweeps = updates * nodes // size
    judged, tuning = split(links, seed)
    rows: list[dict[str, Any]] = []
    curves: dict[str, list[Run]] = {}
    for name, method in METHODS.items():
        grid = [(h, ratio) for h in method.steps for ratio in method.ratios]
        grid = grid[1:4:2] if quick else grid
        run = functools.partial(sampled, build=method.build, **sizes)
        tried = [
            _run(run, name, tuning, seed + common.TUNING, *step, updates=updates // 2)
            for step in grid
        ]
        scores = [trial.averaged[-1] for trial in tried]
        best = grid[int(np.nanargmin(scores))]
        curves[name] = [
            _run(run, name, judged, s, *best, updates=updates) for s in range(seed, seed + number)
        ]
        rows.append(_row(name, best, f"{nodes} nodes", updates, curves[name]))
        click.echo({step: round(float(score), 3) for step, score in zip(grid, scores, strict=True)})
        click.echo(rows[-1])
    curves["Gibbs"] = [
        _run(gibbs, "Gibbs", judged, s, sweeps=sweeps) for s in range(seed, seed + number)
    ]
    rows.append(_row("Gibbs", None, "all pairs", sweeps, curves["Gibbs"]))
    click.echo(rows[-1])
    density = float((judged.status == LINKED).sum() / (judged.status != HIDDEN).sum())
    blank = dict.fromkeys(rows[0], "")
    alone = float(np.exp(-(np.log(density) + np.log1p(-density)) / 2))
    rows.append(blank | {"method": "the share of links alone", "averaged": alone})
    settings = {
        "nodes": size,
        "links": int(links.sum()) // 2,
        "held out": len(judged.pairs),
        "communities": COMMUNITIES,
        "alpha": ALPHA,
        "epsilon": EPSILON,
        "batch": sizes,
        "seeds": [seed, number],
        "tuning seed": seed + common.TUNING,
        "steps": {name: [method.steps, method.ratios] for name, method in METHODS.items()},
    }
    common.write(out, rows, _drawn(curves), settings, started)


class Run(NamedTuple):
    """Perplexities over a run, single and averaged, its seconds, and its last state."""

    one: np.ndarray
    averaged: np.ndarray
    seconds: float
    end: Params


def _run(
    run: Callable[..., tuple[jax.Array, jax.Array, Params]],
    name: str,
    network: Network,
    seed: int,
    *steps: float,
    **lengths: int,
) -> Run:
    first = start(network, seed)
    begun = time.perf_counter()
    one, averaged, end = run(common.key_of(seed, name), network, first, *steps, **lengths)
    # The scores are ready when the run is done.
    return Run(np.asarray(one), np.asarray(averaged), time.perf_counter() - begun, end)


def _row(name: str, step: Any, batch: str, updates: int, runs: Sequence[Run]) -> dict[str, Any]:
    averaged = [float(run.averaged[-1]) for run in runs]
    small = [float((np.asarray(run.end.pi) < np.log(1e-3)).mean()) for run in runs]
    strong = [float((np.asarray(run.end.beta[:, 0]) > np.log(5 * EPSILON)).sum()) for run in runs]
    return {
        "method": name,
        "batch": batch,
        "step size": "" if step is None else step[0],
        "of strengths": "" if step is None else step[0] * step[1],
        "updates": updates,
        "seconds": min(run.seconds for run in runs),  # without compilation
        "one sample": float(np.mean([run.one[-1] for run in runs])),
        "averaged": float(np.mean(averaged)),
        "least": min(averaged),
        "most": max(averaged),
        "below 0.001": float(np.mean(small)),
        "communities": float(np.mean(strong)),
    }


def _drawn(curves: Mapping[str, Sequence[Run]]) -> Any:
    figure, (axis,) = common.figure(1, width=5.5, height=3.6)
    for colour, (name, runs) in zip(common.COLOURS, curves.items(), strict=False):
        for number, run in enumerate(runs):
            done = np.linspace(0, 1, len(run.one) + 1)[1:]
            label = name if number == 0 else None
            axis.plot(done, run.one, color=colour, linewidth=0.9, label=label)
    axis.set(xlabel="share of the run", ylabel="perplexity of held-out pairs, one sample")
    axis.set(yscale="log")
    axis.legend(fontsize=7, frameon=False)
    return figure


if __name__ == "__main__":
    main()
