"""Models that people write in numpyro, for `numpyro_ess.py` and as examples of the kernels."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.nn import logsumexp
from numpyro.infer import NUTS, init_to_value

from simplex_jax._src.numpyro.distributions import (
    LogDirichlet,
    VonMisesFisher,
    VonMisesFisherReparam,
)
from simplex_jax._src.numpyro.scir import SCIR


class Example(NamedTuple):
    """A model, its data, two kernels for it, and the statistics to watch.

    Attributes:
        model: A numpyro model.
        args: Its arguments.
        kernel: Our kernel of it.
        watch: Samples of all sites to numbers that do not depend on the order of components.
        rival: The kernel it is compared with, by default NUTS on the same model.
        warmup: Number of warm-up steps of our kernel, for each of the rival's.
    """

    model: Callable
    args: tuple
    kernel: Any
    watch: Callable[[dict], jax.Array]
    rival: Any
    warmup: int


def example(
    model: Callable,
    args: tuple,
    watch: Callable,
    kernel: Any = None,
    rival: Any = None,
    warmup: int = 1,
) -> Example:
    return Example(model, args, kernel or SCIR(model), watch, rival or NUTS(model), warmup)


def dirichlet_multinomial(size: int = 50, rows: int = 30, seed: int = 0) -> Example:
    """Counts of a sparse vector of probabilities."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(size, 0.1))
    x = jnp.asarray(rng.multinomial(10, p, rows))

    def model(x: jax.Array) -> None:
        p = numpyro.sample("p", dist.Dirichlet(jnp.full(size, 0.1)))
        with numpyro.plate("rows", len(x)):
            numpyro.sample("x", dist.Multinomial(10, p), obs=x)

    return example(model, (x,), lambda samples: samples["p"])


def mixture(
    rows: int = 200, parts: int = 30, width: float = 0.2, subsample: int | None = None
) -> Example:
    """A mixture of known normal parts, three of them with data: most weights are near 0.

    Centres are 1 apart: with width 0.2 parts are empty or not, with 1 each could be its neighbours.
    """
    rng = np.random.default_rng(1)
    centres = jnp.arange(parts) - parts / 2
    places = np.asarray(centres)[rng.choice([2, parts // 3, parts // 3 + 1], rows)]
    x = jnp.asarray(rng.normal(places, width), jnp.float32)

    def model(x: jax.Array) -> None:
        w = numpyro.sample("w", dist.Dirichlet(jnp.full(parts, 0.05)))
        with numpyro.plate("rows", rows, subsample_size=subsample) as i:
            parts_of = dist.Normal(centres, width)
            seen = x if subsample is None else x[i]
            numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(w), parts_of), obs=seen)

    return example(model, (x,), lambda samples: samples["w"])


def hidden_markov(length: int = 300, states: int = 6) -> Example:
    """A chain with sparse rows of transition probabilities; its path is summed out."""
    rng = np.random.default_rng(2)
    rows = rng.dirichlet(np.full(states, 0.3), states) * 0.9 + 0.1 / states
    z = [0]
    for _ in range(length - 1):
        z.append(rng.choice(states, p=rows[z[-1]]))
    x = jnp.asarray(rng.normal(1.5 * np.array(z)), jnp.float32)

    def model(x: jax.Array) -> None:
        with numpyro.plate("from", states):
            rows = numpyro.sample("rows", dist.Dirichlet(jnp.full(states, 0.2)))
        emitted = dist.Normal(1.5 * jnp.arange(states), 1.0).log_prob(x[:, None])
        logs = jnp.log(rows)

        def forward(log_p: jax.Array, log_e: jax.Array) -> tuple[jax.Array, None]:
            return logsumexp(log_p[:, None] + logs, axis=0) + log_e, None

        last, _ = jax.lax.scan(forward, emitted[0], emitted[1:])
        numpyro.factor("x", logsumexp(last))

    return example(model, (x,), lambda samples: samples["rows"].reshape(-1, states**2))


def adjacency(folder: Path, size: int) -> np.ndarray:
    """Links, in either direction, between the most linked blogs of `polblogs`."""
    words = (folder / "polblogs" / "polblogs.gml").read_text("utf-8").split()
    edges = [
        (int(words[i + 1]), int(words[i + 3]))
        for i, word in enumerate(words)
        if word == "source"
        if words[i + 2] == "target"
    ]
    a = np.zeros((max(map(max, edges)) + 1,) * 2, bool)
    for source, target in edges:
        a[source, target] = a[target, source] = source != target
    most = np.argsort(-a.sum(axis=0), kind="stable")[:size]
    return a[np.ix_(most, most)]


def memberships(folder: Path, size: int = 100, blocks: int = 3) -> Example:
    """Mixed-membership blocks of a network, the block of each link summed out.

    The number of links of a pair is Poisson(pi_i B pi_j), with sparse memberships pi.
    """
    links = adjacency(folder, size)
    i, j = (jnp.asarray(k) for k in np.triu_indices(size, 1))
    y = jnp.asarray(links[np.triu_indices(size, 1)], jnp.float32)

    def model(y: jax.Array) -> None:
        with numpyro.plate("nodes", size):
            pi = numpyro.sample("pi", dist.Dirichlet(jnp.full(blocks, 0.1)))
        inside = numpyro.sample("inside", dist.Gamma(2.0, 4.0).expand([blocks]).to_event(1))
        between = numpyro.sample("between", dist.Gamma(1.0, 10.0))
        rates = between + (inside - between) * jnp.eye(blocks)
        mean = jnp.maximum(((pi @ rates)[i] * pi[j]).sum(axis=-1), 1e-12)
        numpyro.sample("y", dist.Poisson(mean).to_event(1), obs=y)

    def watch(samples: dict) -> jax.Array:
        pi = samples["pi"]
        together = (pi[:, :-1] * pi[:, 1:]).sum(axis=-1)[:, :20]
        return jnp.concatenate([together, samples["between"][:, None]], axis=1)

    # All memberships are accepted or rejected together: steps are short, and many.
    return example(model, (y,), watch, warmup=60)


def blocks(folder: Path, size: int = 40, blocks: int = 10) -> Example:
    """A stochastic block model of a network: most of the blocks are empty.

    Given the blocks of the nodes, which a `DiscreteGibbs` block moves for both, weights and rates
    are conjugate.
    """
    links = adjacency(folder, size)
    first, second = np.triu_indices(size, 1)
    y = jnp.asarray(links[first, second], jnp.float32)
    pairs = np.triu_indices(blocks)
    place = np.zeros((blocks, blocks), int)
    place[pairs] = place[pairs[::-1]] = np.arange(len(pairs[0]))

    def model(y: jax.Array) -> None:
        w = numpyro.sample("w", dist.Dirichlet(jnp.full(blocks, 0.1)))
        rates = numpyro.sample("rates", dist.Gamma(1.0, 4.0).expand([len(pairs[0])]).to_event(1))
        with numpyro.plate("nodes", size):
            z = numpyro.sample("z", dist.Categorical(w))
        mean = rates[jnp.asarray(place)[z[first], z[second]]]
        numpyro.sample("y", dist.Poisson(mean).to_event(1), obs=y)

    def watch(samples: dict) -> jax.Array:
        """Sorted weights, and the rate of links within the block of the first node."""
        w, z, rates = samples["w"], samples["z"], samples["rates"]
        own = rates[jnp.arange(len(w)), jnp.diagonal(jnp.asarray(place))[z[:, 0]]]
        return jnp.concatenate([jnp.sort(w, axis=1), own[:, None]], axis=1)

    from numpyro.infer import DiscreteGibbs, Gibbs

    kernels = [
        Gibbs([(block(model), ["w", "rates"]), (DiscreteGibbs(model), ["z"])])
        for block in (SCIR, NUTS)
    ]
    return example(model, (y,), watch, *kernels)


def factorisation(rows: int = 30, columns: int = 20, factors: int = 3) -> Example:
    """Counts with means theta beta, a sparse gamma prior on both; the means are watched.

    Rows of theta are independent given beta, and columns of beta given theta: the plates say so.
    """
    rng = np.random.default_rng(3)
    mean = rng.gamma(0.3, 1 / 0.3, (rows, factors)) @ rng.gamma(0.3, 1 / 0.3, (factors, columns))
    x = jnp.asarray(rng.poisson(mean))

    def model(x: jax.Array) -> None:
        law = dist.Gamma(0.3, 0.3).expand([factors]).to_event(1)
        of_rows, of_columns = numpyro.plate("rows", rows, dim=-2), numpyro.plate("columns", columns)
        with of_rows:
            theta = numpyro.sample("theta", law)
        with of_columns:
            beta = numpyro.sample("beta", law)
        with of_rows, of_columns:
            mean = jnp.maximum((theta * beta).sum(axis=-1), 1e-12)
            numpyro.sample("x", dist.Poisson(mean), obs=x)

    def watch(samples: dict) -> jax.Array:
        theta, beta = samples["theta"][:, :5, 0], samples["beta"][:, :5]
        return jnp.log1p(theta @ beta.mT).reshape(len(theta), -1)

    return example(model, (x,), watch)


def hierarchical(groups: int = 8, size: int = 20, summed_out: bool = False) -> Example:
    """Groups with probabilities about common ones, with a learned concentration.

    The groups can be summed out, which leaves the distribution of the rest unchanged.
    """
    rng = np.random.default_rng(4)
    common = rng.dirichlet(np.full(size, 0.2))
    p = rng.dirichlet(3.0 * common + 1e-6, groups)
    x = jnp.asarray([rng.multinomial(60, row) for row in p])

    def model(x: jax.Array) -> None:
        common = numpyro.sample("common", LogDirichlet(jnp.full(size, 0.5)))
        strength = numpyro.sample("strength", dist.Gamma(2.0, 0.5))
        alpha = jnp.maximum(strength * jnp.exp(common), 1e-6)
        with numpyro.plate("groups", groups):
            if summed_out:
                law = dist.DirichletMultinomial(alpha, 60)
            else:
                p = numpyro.sample("p", LogDirichlet(alpha))
                law = dist.Multinomial(60, logits=p)
            numpyro.sample("x", law, obs=x)

    def watch(samples: dict) -> jax.Array:
        common = jnp.exp(samples["common"])
        watched = [common, jnp.log(samples["strength"])[:, None]]
        if not summed_out:
            watched.append(jnp.exp(samples["p"]).reshape(len(common), -1))
        return jnp.concatenate(watched, axis=1)

    return example(model, (x,), watch)


def directions(rows: int = 200, parts: int = 4) -> Example:
    """A mixture of von Mises-Fisher laws: weights by SCIR, directions by NUTS, or all by NUTS.

    Both start at the prior's directions: parts that swap places do not swap back.
    """
    key = jax.random.key(5)
    means = jnp.eye(3)[jnp.arange(rows) % 3]
    about = jnp.concatenate([jnp.eye(3), -jnp.ones((1, 3)) / 3**0.5])[:parts]
    x = VonMisesFisher(means, 12.0).sample(key)

    @partial(numpyro.handlers.reparam, config={"mean": VonMisesFisherReparam()})
    def model(x: jax.Array) -> None:
        w = numpyro.sample("w", dist.Dirichlet(jnp.full(parts, 0.1)))
        mean = numpyro.sample("mean", VonMisesFisher(about, 5.0).to_event(1))
        with numpyro.plate("rows", len(x)):
            laws = VonMisesFisher(mean, 12.0)
            numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(w), laws), obs=x)

    from numpyro.infer import Gibbs

    start = init_to_value(values={"mean_normal": about})
    rival = NUTS(model, init_strategy=start)
    kernel = Gibbs([(SCIR(model), ["w"]), (NUTS(model, init_strategy=start), None)])
    return example(model, (x,), lambda samples: samples["w"], kernel, rival)


def examples(folder: Path) -> dict[str, Callable[[], Example]]:
    """All models by name, at the size of the benchmark."""
    return {
        "Dirichlet-multinomial, 50 categories": dirichlet_multinomial,
        "mixture, 200 rows, 27 of 30 parts empty": mixture,
        "mixture, 100,000 rows, 27 of 30 parts empty": partial(mixture, 100_000),
        "mixture, 200 rows, 30 parts that overlap": partial(mixture, width=1.0),
        "hidden Markov model, 6 states": hidden_markov,
        "block model, polblogs, 10 blocks": partial(blocks, folder),
        "mixed memberships, polblogs": partial(memberships, folder),
        "Gamma-Poisson factorisation": factorisation,
        "hierarchical Dirichlet, learned concentration": hierarchical,
        "hierarchical Dirichlet, groups summed out": partial(hierarchical, summed_out=True),
        "von Mises-Fisher mixture": directions,
    }
