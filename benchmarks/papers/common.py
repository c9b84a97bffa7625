"""Shared by the experiments: options, output, parallel chains, exact draws, distances.

A run of a script writes `table.csv`, `table.md`, `figure.png` and `settings.json` into its folder,
replacing those of an earlier run. With `--keep` it also writes the rows of the table, with
versions, date and machine, to a small file from which `tables.py` makes the tables of
`docs/experiments.md`.
"""

import csv
import json
import platform
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from scipy import special
from tables import markdown

from simplex_jax._src.base import Info, Kernel, PyTree, State
from simplex_jax._src.batches import Stream

sys.path.append(str(Path(__file__).parents[1]))
import kept as kept_results

BUILD = Path(__file__).resolve().parents[2] / "build" / "papers"
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
TUNING = 1000  # seeds from here on are only for choosing steps

COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f"),
    *("#882255", "#44aa99", "#999933", "#332288", "#ddcc77", "#aa4499"),
)
"""As many as an experiment has methods; the first are safe for colour-blind readers (Okabe and
Ito)."""

STYLE: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}


def options(name: str) -> Callable:
    """Add `--quick`, `--out`, `--keep` and `--seed`; `--out` is `build/papers/<name>`."""

    def decorate(command: Callable) -> Callable:
        for option in (
            click.option("--seed", type=int, default=0, show_default=True, help="Of all draws."),
            click.option(
                "--out",
                type=click.Path(path_type=Path, file_okay=False),
                default=BUILD / name,
                show_default=True,
                help="Folder of the table, the figure and the settings, which are written over.",
            ),
            click.option(
                "--keep",
                type=click.Path(path_type=Path, dir_okay=False),
                expose_value=False,  # only for `write`, which asks for it
                callback=_remember,
                help="File to keep the rows in, benchmarks/results/papers/NAME.json.",
            ),
            click.option("--quick", is_flag=True, help="A run of seconds, to see that it works."),
        ):
            command = option(command)
        return command

    return decorate


def _remember(context: click.Context, option: click.Parameter, value: Path | None) -> None:
    context.meta["keep"] = value


def write(
    out: Path,
    rows: Sequence[Mapping[str, Any]],
    figure: Figure,
    settings: Mapping[str, Any],
    started: float,
    shown: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Print the table, and write it with the figure and the settings; keep it if asked.

    Args:
        out: The folder.
        rows: Rows of the table in `table.csv`; the columns are the keys of the first.
        figure: The figure.
        settings: The run's settings, JSON.
        started: `time.perf_counter()` when the run began.
        shown: Rows of the table that is printed and in `table.md`; None for all.
    """
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "table.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    text = markdown(rows if shown is None else shown)
    (out / "table.md").write_text(text, encoding="utf-8")
    figure.savefig(out / "figure.png", dpi=120)
    with Image.open(out / "figure.png") as image:
        small = image.convert("RGB").quantize(256)  # a third of the bytes
    small.save(out / "figure.png", optimize=True)
    about = {
        "jax": jax.__version__,
        "device": jax.devices()[0].device_kind,
        "machine": platform.platform(),
        "cores": kept_results.cores(),
        "seconds": round(time.perf_counter() - started, 1),
    }
    (out / "settings.json").write_text(
        json.dumps({**settings, **about}, indent=1, default=str), encoding="utf-8"
    )
    if file := click.get_current_context().meta["keep"]:
        facts = {"settings": settings, "seconds": about["seconds"], "device": about["device"]}
        kept_results.write(file, rows, **facts)
    click.echo(text)
    click.echo(f"{about['seconds']} s; table, figure and settings are in {out}")


def figure(
    columns: int, rows: int = 1, width: float = 4.0, height: float = 3.2, **options: Any
) -> tuple[Figure, Any]:
    """Return a figure and its axes, as a vector."""
    with matplotlib.rc_context(STYLE):
        drawn = Figure(figsize=(width * columns, height * rows), layout="constrained")
        return drawn, drawn.subplots(rows, columns, squeeze=False, **options).ravel()


def key_of(seed: int, name: str) -> jax.Array:
    """Return the key of a named part of an experiment."""
    return jax.random.fold_in(jax.random.key(seed), zlib.crc32(name.encode()))


def _position(state: State, info: Info) -> PyTree:
    return state.position


def trace(
    key: jax.Array,
    kernel: Kernel,
    state: State,
    stream: Stream,
    *,
    burn_in: int,
    kept: int,
    thin: int = 1,
    collect: Callable[[State, Info], PyTree] = _position,
) -> PyTree:
    """Return what `collect` gives for every `thin`-th update after the first `burn_in`.

    `collect` gets the state and the mean of the infos since the previous one.

    Unlike `runtime.driver` this can be traced, hence vmapped over seeds, step sizes and data.
    `burn_in` must be a multiple of `thin`.
    """
    key_update, key_stream = jax.random.split(key)

    def move(state: State, _: None) -> tuple[State, Info]:
        batch = stream(key_stream, state.step)
        return kernel.update(jax.random.fold_in(key_update, state.step), state, batch)

    def keep(state: State, _: None) -> tuple[State, PyTree]:
        state, infos = jax.lax.scan(move, state, length=thin)
        info = jax.tree.map(lambda leaf: leaf.mean(axis=0), infos)
        return state, collect(state, info)

    # Weak types would make the carry of the loop change its type.
    state = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(leaf).dtype), state)
    skipped = burn_in // thin  # one loop, not two: the update is compiled once
    kept_values = jax.lax.scan(keep, state, length=skipped + kept)[1]
    return jax.tree.map(lambda leaf: leaf[skipped:], kept_values)


def log_gamma_draws(generator: np.random.Generator, a: np.ndarray, n: int) -> np.ndarray:
    """Draw n rows of logs of independent Gamma(a, 1), [n, K], correct under underflow."""
    shape = (n, len(a))
    uniform = generator.uniform(size=shape)
    return np.log(generator.gamma(np.asarray(a) + 1, size=shape)) + np.log(uniform) / a


def log_dirichlet_draws(generator: np.random.Generator, a: np.ndarray, n: int) -> np.ndarray:
    """Draw n rows of log Dirichlet(a), [n, K]."""
    return special.log_softmax(log_gamma_draws(generator, a, n), axis=-1)


def ks_distance(log_omega: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Return the Kolmogorov-Smirnov distance of the SCIR paper to Dirichlet(a).

    The transform of Rosenblatt (1952) maps a point of the simplex to K - 1 numbers that are
    independent and uniform under Dirichlet(a); the result is the mean of their one-sample
    distances to the uniform distribution.

    Args:
        log_omega: Log-probabilities, [..., samples, K].
        a: Concentrations of the true distribution, [..., K].

    Returns:
        Distances, [...].
    """
    u = rosenblatt(np.asarray(log_omega, np.float64), np.asarray(a, np.float64)[..., None, :])
    u = np.sort(u, axis=-2)
    n = u.shape[-2]
    rank = np.arange(1, n + 1)[:, None]
    distance = np.maximum(rank / n - u, u - (rank - 1) / n).max(axis=-2)
    return distance.mean(axis=-1)


def rosenblatt(log_omega: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Return Beta(a_j, sum of the later a) distribution functions of omega_j / (the rest), [K-1].

    The rest of 1 is summed from the end, in logs, and the smaller of the ratio and its
    complement is used: 1 - 0.99999 has no digits of a sparse tail.
    """
    rest = np.flip(np.logaddexp.accumulate(np.flip(log_omega, -1), axis=-1), -1)
    later = np.flip(np.cumsum(np.flip(a, -1), axis=-1), -1)[..., 1:]
    a, ratio = a[..., :-1], np.exp(log_omega[..., :-1] - rest[..., :-1])
    complement = np.exp(rest[..., 1:] - rest[..., :-1])
    return np.where(
        ratio < 0.5, special.betainc(a, later, ratio), special.betaincc(later, a, complement)
    )
