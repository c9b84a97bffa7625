"""A hidden Markov model of text by minibatches of subsequences: SCIR and others against Gibbs.

    python benchmarks/papers/scir_hmm.py [--quick] [--out FOLDER] [--seed N]

Baker, Fearnhead, Fox and Nemeth (2018, section 1) name the hidden Markov model, "with
simplex-constrained transition distributions", and show no experiment. The symbols x_t are 27,
letters and the blank, from the State of the Union addresses, which come with the package. With K =
6 states

    A_k ~ Dirichlet(0.1, ..., 0.1), [K]         transitions from state k
    B_k ~ Dirichlet(0.1, ..., 0.1), [27]        symbols of state k
    z_1 ~ uniform,   z_t | z_t-1 ~ A[z_t-1],   x_t | z_t ~ B[z_t]

The counts of A and B are the expected transitions, sum_t P(z_t-1 = j, z_t = k | x), and the
expected symbols, sum_t P(z_t = k | x) 1(x_t = v), by forward and backward messages. A batch has n
subsequences, drawn with replacement from the text's subsequences of 50 symbols. Messages run over a
subsequence and a buffer on either side (Ma, Foti and Fox 2017; that paper was not at hand), and
only the subsequence's counts are used, scaled by the number of subsequences over n. With buffers as
long as the text they are unbiased.

The reference is forward filtering, backward sampling of the whole text, with exact Dirichlet draws,
from several chains. All chains of all methods start at the last draw of a Gibbs burn-in: a hidden
Markov model has many modes, and the experiment measures how well samplers draw around one of them.
Samplers run 2000 updates and then 2000 that are kept, with expected labels and a carried total.
Their distance is the mean Kolmogorov-Smirnov distance of log A_jk and of log B_kv, over all
entries, to the Gibbs draws; the step size minimises the mean of both over other seeds. "Gibbs" is
the distance between two halves of the Gibbs chains. The predictive density is that of the symbols
that follow the text, averaged over draws.
"""

import functools
import lzma
import string
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import click
import common
import jax
import jax.numpy as jnp
import numpy as np
from baselines import reflected_cir
from jax.scipy.special import logsumexp
from scipy import stats

from simplex_jax._src import batches, draws, estimators
from simplex_jax._src.base import Kernel, static
from simplex_jax._src.estimators import Estimator
from simplex_jax._src.samplers import scir, sgrld, smld

STATES, SYMBOLS = 6, 27
ALPHA = 0.1
LENGTH, HELD_OUT = 10_000, 5_000
WINDOW, BUFFER = 50, 10
BATCH_SIZES = (2, 20)
NONE = -1  # a symbol before the text, or after it

Position = dict[str, jax.Array]
"""Logs of "transitions" [K, K] and "symbols" [K, V]."""


class Method(NamedTuple):
    """A sampler, and the grid of its step size."""

    build: Callable[..., Kernel]
    steps: Sequence[float]


# Rows have some thousand counts, so SGRLD, with a total of about 1, and SMLD need small steps.
METHODS = {
    "SCIR": Method(scir.build, (1.0, 0.3, 0.1, 0.03, 0.01)),
    "reflected Euler": Method(reflected_cir.build, (1.0, 0.3, 0.1, 0.03, 0.01)),
    "SGRLD": Method(sgrld.build, (3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6)),
    "SMLD": Method(smld.build, (3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6)),
}


def text(length: int) -> np.ndarray:
    """Return the first symbols of the addresses; any run of non-letters is one 0."""
    order = " " + string.ascii_lowercase
    packed = resources.files("simplex_jax._src.corpus").joinpath(
        "data", "state_of_the_union.tsv.xz"
    )
    lines = lzma.decompress(packed.read_bytes()).decode("utf-8").splitlines()
    joined = " ".join(line.split("\t", 1)[1] for line in lines[: length // 20]).lower()
    words = "".join(c if c in order else " " for c in joined).split()
    return np.array([order.index(c) for c in " ".join(words)[:length]], np.int32)


def windows(symbols: np.ndarray, window: int, buffer: int) -> np.ndarray:
    """Return the subsequences of a text, with buffers, [number, symbols].

    There is one symbol more before a buffer than after it, because the first symbol of a
    subsequence comes with its transition.

    Raises:
        ValueError: The text does not divide.
    """
    number, rest = divmod(len(symbols), window)
    if rest:
        raise ValueError(f"a text of {len(symbols)} symbols does not divide by {window}")
    padded = np.pad(symbols, (buffer + 1, buffer), constant_values=NONE)
    index = window * np.arange(number)[:, None] + np.arange(window + 2 * buffer + 1)
    return padded[index]


def likelihoods(symbol_logs: jax.Array, symbols: jax.Array) -> jax.Array:
    """Return the probability of each symbol in each state, [T, K]; 1 without a symbol."""
    result = jnp.exp(symbol_logs).T[jnp.maximum(symbols, 0)]
    return jnp.where((symbols == NONE)[:, None], 1.0, result)


def steps_of(symbols: jax.Array) -> jax.Array:
    """Return whether each symbol follows another, [T]; a text's first does not."""
    there = symbols != NONE
    return there & jnp.concatenate([jnp.zeros(1, bool), there[:-1]])


def filtered(position: Position, symbols: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return P(z_t | x_1 to x_t) [T, K], and log P(x_t | x_1 to x_t-1), [T]."""
    transitions = jnp.exp(position["transitions"])

    def forward(law: jax.Array, inputs: tuple) -> tuple[jax.Array, tuple]:
        likelihood, follows = inputs
        joint = jnp.where(follows, law @ transitions, law) * likelihood
        total = joint.sum()
        return joint / total, (joint / total, jnp.log(total))

    inputs = (likelihoods(position["symbols"], symbols), steps_of(symbols))
    uniform = jnp.full(len(transitions), 1 / len(transitions))
    return jax.lax.scan(forward, uniform, inputs)[1]


def expected_counts(position: Position, symbols: jax.Array, buffer: int) -> Position:
    """Return expected counts of the subsequence between the buffers of `symbols` [T]."""
    laws, _ = filtered(position, symbols)
    transitions = jnp.exp(position["transitions"])
    likelihood, follows = likelihoods(position["symbols"], symbols), steps_of(symbols)

    def backward(message: jax.Array, inputs: tuple) -> tuple[jax.Array, tuple]:
        """Step the backward message from z_t to z_t-1."""
        law, before, likely, follows_here = inputs
        state = law * message
        ahead = likely * message
        pair = before[:, None] * transitions * ahead
        pair = jnp.where(follows_here, pair / pair.sum(), 0)
        earlier = jnp.where(follows_here, transitions @ ahead, message)
        return earlier / earlier.sum(), (state / state.sum(), pair)

    before = jnp.concatenate([laws[:1], laws[:-1]])
    ones = jnp.ones(len(transitions))
    _, (states, pairs) = jax.lax.scan(
        backward, ones, (laws, before, likelihood, follows), reverse=True
    )
    inner = slice(buffer + 1, len(symbols) - buffer)
    seen = jax.nn.one_hot(symbols[inner], position["symbols"].shape[1])
    return {
        "transitions": pairs[inner].sum(axis=0),
        "symbols": jnp.einsum("tk,tv->kv", states[inner], seen),
    }


def _counts(key: jax.Array, position: Position, batch: jax.Array, *, buffer: int) -> Position:
    del key
    result = jax.vmap(expected_counts, (None, 0, None))(position, batch, buffer)
    return jax.tree.map(lambda leaf: leaf.sum(axis=0), result)


def subsequences(number: int, buffer: int) -> Estimator:
    """Return the estimate of all counts from some of `number` subsequences."""
    return estimators.subsampled(static(_counts, buffer=buffer), number)


def drawn_states(key: jax.Array, position: Position, symbols: jax.Array) -> jax.Array:
    """Draw the states of a text, backwards from the last."""
    laws, _ = filtered(position, symbols)
    transitions = jnp.exp(position["transitions"])
    u = jax.random.uniform(key, symbols.shape)

    def backward(state: jax.Array, inputs: tuple) -> tuple[jax.Array, jax.Array]:
        law, number, last = inputs
        weights = jnp.where(last, law, law * transitions[:, state])
        sums = jnp.cumsum(weights)
        state = jnp.minimum((number * sums[-1] >= sums).sum(), len(law) - 1)
        return state, state

    last = jnp.arange(len(symbols)) == len(symbols) - 1
    return jax.lax.scan(backward, jnp.int32(0), (laws, u, last), reverse=True)[1]


@functools.partial(jax.jit, static_argnames=("sweeps", "thin"))
def gibbs(
    key: jax.Array, start: Position, symbols: jax.Array, *, sweeps: int, thin: int = 1
) -> Position:
    """Return every `thin`-th draw of a chain, leaves [sweeps / thin, ...]."""
    rows, columns = start["symbols"].shape

    def sweep(position: Position, t: jax.Array) -> tuple[Position, None]:
        key_states, key_a, key_b = jax.random.split(jax.random.fold_in(key, t), 3)
        states = drawn_states(key_states, position, symbols)
        pairs = jnp.zeros((rows, rows)).at[states[:-1], states[1:]].add(1.0)
        seen = jnp.zeros((rows, columns)).at[states, symbols].add(1.0)
        return {
            "transitions": draws.log_dirichlet(key_a, ALPHA + pairs),
            "symbols": draws.log_dirichlet(key_b, ALPHA + seen),
        }, None

    def keep(position: Position, t: jax.Array) -> tuple[Position, Position]:
        position, _ = jax.lax.scan(sweep, position, t * thin + jnp.arange(thin))
        return position, position

    return jax.lax.scan(keep, start, jnp.arange(sweeps // thin))[1]


@functools.partial(jax.jit, static_argnames=("build", "number", "burn_in", "kept", "thin"))
def sampled(
    keys: jax.Array,
    steps: jax.Array,
    start: Position,
    cut: jax.Array,
    *,
    build: Callable[..., Kernel],
    number: int,
    **lengths: Any,
) -> Position:
    """Return positions of chains side by side, leaves [steps, seeds, kept, ...]."""

    def chain(key: jax.Array, step_size: jax.Array) -> Position:
        key_init, key_run = jax.random.split(key)
        kernel = build(subsequences(len(cut), BUFFER), ALPHA, step_size)
        state = kernel.init(key_init, jax.tree.map(jnp.exp, start))
        return common.trace(key_run, kernel, state, batches.uniform(cut, number), **lengths)

    over_seeds = jax.vmap(chain, in_axes=(0, None))
    # One step size at a time, to hold fewer chains in memory.
    return jax.lax.map(lambda step_size: over_seeds(keys, step_size), steps)


@jax.jit
def predictive(position: Position, symbols: jax.Array) -> jax.Array:
    """Return the log of the mean density of a text over draws, leaves [n, ...], per symbol."""
    logs = jax.vmap(lambda one: filtered(one, symbols)[1].sum())(position)
    return (logsumexp(logs) - jnp.log(len(logs))) / len(symbols)


def distance(result: Mapping[str, np.ndarray], truth: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the mean distance over the entries of each leaf, [draws, rows, columns]."""
    return {
        name: float(
            np.mean(
                [
                    stats.ks_2samp(*pair, method="asymp").statistic
                    for pair in zip(_entries(result[name]), _entries(truth[name]), strict=True)
                ]
            )
        )
        for name in truth
    }


def _entries(leaf: np.ndarray) -> np.ndarray:
    return np.asarray(leaf, np.float64).reshape(len(leaf), -1).T


@click.command(help=__doc__.splitlines()[0])
@common.options("scir_hmm")
@click.option("--seeds", "number", default=3, show_default=True, help="Chains that are averaged.")
def main(quick: bool, out: Path, seed: int, number: int) -> None:
    started = time.perf_counter()
    length, held_out, number = (1000, 200, 1) if quick else (LENGTH, HELD_OUT, number)
    sizes = (2,) if quick else BATCH_SIZES
    names = ("SCIR", "SGRLD") if quick else tuple(METHODS)
    first, sweeps, thin = (50, 100, 1) if quick else (2000, 2000, 4)
    lengths = {"burn_in": 100, "kept": 100} if quick else {"burn_in": 2000, "kept": 500, "thin": 4}
    symbols = text(length + held_out)
    seen, later = jnp.asarray(symbols[:length]), jnp.asarray(symbols[length:])
    cut = jnp.asarray(windows(symbols[:length], WINDOW, BUFFER))

    key_start, key_first, *keys_exact = jax.random.split(common.key_of(seed, "Gibbs"), 6)
    start = _start(key_start)
    start = jax.tree.map(lambda leaf: leaf[-1], gibbs(key_first, start, seen, sweeps=first))
    begun = time.perf_counter()
    exact = jax.vmap(lambda key: gibbs(key, start, seen, sweeps=sweeps, thin=thin))(
        jnp.stack(keys_exact)
    )
    chains = {name: np.asarray(leaf) for name, leaf in exact.items()}
    seconds = (time.perf_counter() - begun) / len(keys_exact)
    truth = {name: np.concatenate(leaf) for name, leaf in chains.items()}
    halves = [{name: np.concatenate(leaf[k::2]) for name, leaf in chains.items()} for k in (0, 1)]
    score = float(predictive(_thinned(truth), later))

    rows, curves = [], {}
    for name in names:
        method = METHODS[name]
        for n in sizes:
            run = functools.partial(
                sampled, start=start, cut=cut, build=method.build, number=n, **lengths
            )
            grid = jnp.asarray(method.steps, jnp.float32)
            tried = _judged(run(_keys(seed + common.TUNING, number), grid), truth)
            mean = [np.mean([sum(ks.values()) for ks in row]) for row in tried]
            best = int(np.nanargmin(np.where(np.isfinite(mean), mean, np.inf)))
            begun = time.perf_counter()
            result = jax.block_until_ready(run(_keys(seed, number), grid[best : best + 1]))
            spent = time.perf_counter() - begun
            ks = _judged(result, truth)[0]
            densities = [
                float(predictive(_thinned({k: leaf[0, s] for k, leaf in result.items()}), later))
                for s in range(number)
            ]
            rows.append(
                {
                    "method": name,
                    "batch": f"{n} of {len(cut)}",
                    "step size": method.steps[best],
                    **{f"KS of {k}": float(np.mean([one[k] for one in ks])) for k in truth},
                    **_spread([sum(one.values()) / 2 for one in ks]),
                    "log density": float(np.mean(densities)),
                    **_tails({k: np.concatenate(leaf[0]) for k, leaf in result.items()}),
                    "seconds": spent / number,
                }
            )
            curves[name, n] = {k: np.concatenate(leaf[0]) for k, leaf in result.items()}
            click.echo(rows[-1])
    ks_exact = distance(*halves)
    rows.append(
        dict.fromkeys(rows[0], "")
        | {"method": "Gibbs", "batch": "all", "log density": score, "seconds": seconds}
        | {f"KS of {k}": value for k, value in ks_exact.items()}
        | _tails(truth)
        | {"KS sd": float("nan")}
    )
    settings = {
        "symbols": length,
        "held out": held_out,
        "states": STATES,
        "alpha": ALPHA,
        "window and buffer": [WINDOW, BUFFER],
        "seeds": [seed, number],
        "tuning seeds": [seed + common.TUNING, number],
        "Gibbs": {"first": first, "sweeps": sweeps, "chains": len(keys_exact)},
        "steps": {name: METHODS[name].steps for name in names},
        **lengths,
    }
    common.write(out, rows, _drawn(curves, truth, sizes[-1]), settings, started)


def _start(key: jax.Array) -> Position:
    keys = jax.random.split(key)
    shapes = {"transitions": (STATES, STATES), "symbols": (STATES, SYMBOLS)}
    return {
        name: draws.log_dirichlet(k, jnp.ones(shape))
        for k, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def _keys(seed: int, number: int) -> jax.Array:
    return jnp.stack([jax.random.key(s) for s in range(seed, seed + number)])


def _judged(result: Position, truth: Mapping[str, np.ndarray]) -> list[list[dict[str, float]]]:
    """Return the distances for every step size and seed."""
    whole = {name: np.asarray(leaf) for name, leaf in result.items()}
    steps, seeds = whole["symbols"].shape[:2]
    return [
        [distance({k: leaf[h, s] for k, leaf in whole.items()}, truth) for s in range(seeds)]
        for h in range(steps)
    ]


def _thinned(result: Mapping[str, Any], number: int = 50) -> Position:
    """Return some draws, evenly spaced."""
    return {
        name: jnp.asarray(leaf)[np.linspace(0, len(leaf) - 1, min(number, len(leaf))).astype(int)]
        for name, leaf in result.items()
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"KS sd": float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")}


def _tails(result: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return how often an entry is below 1e-6."""
    return {
        f"{name} below 1e-6": float((np.asarray(leaf) < np.log(1e-6)).mean())
        for name, leaf in result.items()
    }


def _drawn(curves: Mapping[tuple[str, int], Any], truth: Any, size: int) -> Any:
    figure, axes = common.figure(2, width=4.4)
    for ax, name in zip(axes, truth, strict=True):
        drawn = {key[0]: result for key, result in curves.items() if key[1] == size}
        for colour, (method, result) in zip(common.COLOURS, drawn.items(), strict=False):
            _cumulative(ax, result[name], colour, method)
        _cumulative(ax, truth[name], "black", "Gibbs")
        ax.set(xlabel=f"log10 of an entry of {name}", xlim=(-20, 0), ylim=(0, 1))
    axes[0].set(ylabel="share of entries and draws below")
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def _cumulative(ax: Any, logs: np.ndarray, colour: str, label: str) -> None:
    levels = np.linspace(0, 1, 400)
    quantiles = np.quantile(np.asarray(logs).ravel() / np.log(10), levels)
    ax.plot(quantiles, levels, color=colour, linewidth=1, label=label)


if __name__ == "__main__":
    main()
