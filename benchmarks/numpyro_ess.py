"""Effective samples per second of our kernels and NUTS on the same numpyro models, in one run.

    python benchmarks/numpyro_ess.py [--data ../shared/data] [--seconds 20] [--only NAME | cost]

Our kernels are SCIR and, for models that NUTS moves alone, NUTS in normal scores of learned
references (`learn_reference`). Rivals are numpyro's NUTS, which breaks sticks on the simplex, and
for models with Dirichlet or LogDirichlet sites NUTS in log ratios and on gamma variates
(`numpyro_coordinates.py`).

Each kernel is compiled, warmed up, and then sampled for about the given time. Compilation, pilots
and warm-up are not counted, but a kernel is given up if its warm-up takes longer than `--patience`.
Times are processor time, so that other work on the machine does not count; run it on one core
(`taskset -c 0`). The effective sample size is numpyro's, for the slowest and the median number;
R-hat is the largest, of the halves of the chain; "apart" is the largest difference of means from
SCIR's, in standard errors. The cost of a minibatch step is measured for growing numbers of rows.
"""

import argparse
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import kept
import numpy as np
import numpyro
from numpyro.diagnostics import split_gelman_rubin
from numpyro.infer import NUTS
from numpyro_coordinates import COORDINATES, has_dirichlet, in_coordinates
from numpyro_models import Example, examples, mixture

from simplex_jax._src.numpyro import chooser
from simplex_jax._src.numpyro.chooser import Chain
from simplex_jax._src.numpyro.reference import learn_reference
from simplex_jax._src.numpyro.sgmcmc import SGMCMC
from simplex_jax._src.samplers import sgrld

NUMBERS = ("slowest", "median", "r_hat", "apart")
OURS = ("SCIR", "NUTS in scores")
RIVALS = ("NUTS", *(f"NUTS, {name}" for name in COORDINATES))


def sample(
    example: Example,
    kernel: Any,
    warmup: int,
    seconds: float,
    chunk: int,
    patience: float = math.inf,
) -> Chain | None:
    """Sample an example for some processor seconds; None as in `chooser.run_pilot`."""
    return chooser.run_pilot(
        kernel,
        example.watch,
        args=example.args,
        kwargs={},
        key=jax.random.key(0),
        num_warmup=warmup,
        seconds=seconds,
        chunk=chunk,
        patience=patience,
        clock=time.process_time,
    )


def compare(example: Example, warmup: int, seconds: float, chunk: int) -> tuple[Chain, Chain]:
    """Sample an example by our kernel and by its rival."""
    ours = sample(example, example.kernel, example.warmup * warmup, seconds, chunk)
    theirs = sample(example, example.rival, warmup, seconds, chunk)
    assert ours is not None
    assert theirs is not None
    return ours, theirs


def rivals(example: Example) -> dict[str, Any]:
    """Return the rivals: NUTS, and NUTS in other coordinates of the simplex."""
    result = {"NUTS": example.rival}
    if isinstance(example.rival, NUTS) and has_dirichlet(example.model, example.args):
        for name, coordinates in COORDINATES.items():
            rewritten = partial(in_coordinates, coordinates=coordinates)
            result[f"NUTS, {name}"] = example.rival.wrap_model(rewritten)
    return result


def in_scores(example: Example) -> NUTS:
    """Return NUTS in normal scores of learned references."""
    config = learn_reference(jax.random.key(1), example.model, model_args=example.args)
    return example.rival.wrap_model(partial(numpyro.handlers.reparam, config=config))


def kernels(example: Example) -> dict[str, tuple[Callable[[], Any], int]]:
    """Return what makes each kernel, ours first, and its warm-up steps for each of NUTS's."""
    ours = {"SCIR": (lambda: example.kernel, example.warmup)}
    if isinstance(example.rival, NUTS):
        ours["NUTS in scores"] = (lambda: in_scores(example), 1)
    return ours | {name: (lambda rival=rival: rival, 1) for name, rival in rivals(example).items()}


def rates(chain: Chain) -> tuple[float, float]:
    """Return the smallest and the median effective sample size per second; 0 if nothing moved."""
    if not chain.moving.any():
        return 0.0, 0.0
    sizes = chain.sizes
    return sizes.min() / chain.seconds, float(np.median(sizes)) / chain.seconds


def r_hat(chain: Chain) -> float:
    """Return the largest split R-hat of the numbers that changed."""
    moving = chain.watched[None, :, chain.moving].astype(np.float64)
    return float(np.max(split_gelman_rubin(moving), initial=1.0))


def row(name: str, kernel: str, chain: Chain | None, reference: Chain | None) -> dict[str, Any]:
    """Return the figures of a chain against its model's first; None if it was given up."""
    facts: dict[str, Any] = {"model": name, "kernel": kernel}
    if chain is None:
        return facts | dict.fromkeys(NUMBERS)
    apart = 0.0 if reference is None else chooser.distance_between(chain, reference)
    return facts | dict(zip(NUMBERS, (*rates(chain), r_hat(chain), apart), strict=True))


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return kept rows as the table of docs/benchmarks.md, a line per model.

    A cell has the effective samples per second of the slowest and the median number, and R-hat if
    it is above 1.01. The ratio is that of our best to the best of NUTS, and apart the largest
    distance from SCIR of a kernel whose R-hat is not above 1.01, if there is one. Kernels that have
    not run have no column.
    """
    run = {facts["kernel"] for facts in rows}
    columns = [kernel for kernel in (*OURS, *RIVALS) if kernel in run]
    lines = ["| model | " + " | ".join(columns) + " | ratio | apart |"]
    lines.append("|---" * (3 + len(columns)) + "|")
    for model in dict.fromkeys(facts["model"] for facts in rows):
        of = {facts["kernel"]: facts for facts in rows if facts["model"] == model}
        cells = [_cell(of.get(kernel)) for kernel in columns]
        ratios = [_best(of, OURS, name) / _best(of, RIVALS, name) for name in NUMBERS[:2]]
        cells.append(", ".join(f"{ratio:.2g}" for ratio in ratios if not math.isnan(ratio)))
        converged = [facts["apart"] for facts in of.values() if (facts["r_hat"] or 2) <= 1.01]
        cells.append(f"{max(converged):.1f}" if len(converged) > 1 else "")
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(facts: dict[str, Any] | None) -> str:
    if facts is None:
        return ""
    if facts["slowest"] is None:
        return "still warming up"
    doubt = f" ({facts['r_hat']:.2f})" if facts["r_hat"] > 1.01 else ""
    slowest, median = (float(f"{facts[name]:.3g}") for name in NUMBERS[:2])
    return f"{slowest:,g}, {median:,g}{doubt}"


def _best(of: dict[str, dict[str, Any]], names: Sequence[str], number: str) -> float:
    rates = [of[name][number] for name in names if name in of]
    return max((rate for rate in rates if rate), default=math.nan)


def line(facts: dict[str, Any]) -> str:
    """Return a row of the table."""
    if facts["slowest"] is None:
        return f"| {facts['model']} | {facts['kernel']} | still warming up | | | |"
    rates = f"{facts['slowest']:.3g} | {facts['median']:.3g}"
    rest = f"{facts['r_hat']:.2f} | {facts['apart']:.1f}"
    return f"| {facts['model']} | {facts['kernel']} | {rates} | {rest} |"


STEPS = 200
ON_MINIBATCHES = ("SCIR", "SGMCMC with SGRLD")


def on_minibatches(name: str, rows: int, batch: int) -> tuple[Callable, Any]:
    """Return the compiled program of `STEPS` steps of a mixture, and its arguments."""
    shown = mixture(rows, subsample=batch)
    kernel = shown.kernel
    if name != "SCIR":
        kernel = SGMCMC(shown.model, partial(sgrld.build, step_size=1e-3))
    state = kernel.init(jax.random.key(0), 0, None, shown.args, {})

    def many(state, args):
        return jax.lax.fori_loop(0, STEPS, lambda _, s: kernel.sample(s, args, {}), state)

    run = jax.jit(many).lower(state, shown.args).compile()
    return run, (state, shown.args)


def step_costs(rows: Sequence[int], batch: int = 100, repeats: int = 7) -> dict[str, list[float]]:
    """Microseconds per step on minibatches of `batch` rows, by kernel.

    The median of some repeats, in which numbers of rows alternate.
    """
    result = {}
    for name in ON_MINIBATCHES:
        runs = [on_minibatches(name, size, batch) for size in rows]
        for run, given in runs:
            jax.block_until_ready(run(*given))
        times = np.zeros((repeats, len(rows)))
        for repeat in range(repeats):
            for place, (run, given) in enumerate(runs):
                start = time.process_time()
                jax.block_until_ready(run(*given))
                times[repeat, place] = time.process_time() - start
        result[name] = list(np.median(times, axis=0) / STEPS * 1e6)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warmup", type=int, default=1000)
    parser.add_argument("--only", default="")
    parser.add_argument("--patience", type=float, default=600.0, help="for a warm-up, in seconds")
    parser.add_argument("--keep", type=Path, help="a JSON file; rows of other models stay in it")
    given = parser.parse_args()
    # Kept rows of other models stay.
    earlier = kept.read(given.keep)["rows"] if given.keep and given.keep.exists() else []
    rows = [facts for facts in earlier if given.only not in facts["model"]]
    print("| model | kernel | slowest, ESS/s | median, ESS/s | R-hat | apart |")
    print("|---|---|---|---|---|---|")
    for name, make in examples(given.data).items():
        if given.only not in name:
            continue
        warmup, chunk = (given.warmup // 5, 20) if "100,000" in name else (given.warmup, 100)
        example, reference = make(), None
        for kernel, (build, steps) in kernels(example).items():
            chain = sample(example, build(), steps * warmup, given.seconds, chunk, given.patience)
            rows.append(row(name, kernel, chain, reference) | {"seconds": given.seconds})
            reference = reference or chain
            print(line(rows[-1]), flush=True)
            if given.keep:
                kept.write(given.keep, rows)
    if given.only in ("", "cost"):
        rows = (10_000, 100_000, 1_000_000)
        print("\n| us a step on 100 of so many rows |", *(f"{n:,} |" for n in rows))
        print("|---" * (1 + len(rows)) + "|")
        for name, costs in step_costs(rows).items():
            print(f"| {name} |", *(f"{cost:.0f} |" for cost in costs), flush=True)


if __name__ == "__main__":
    main()
