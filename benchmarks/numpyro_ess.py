"""Effective samples a second of SCIR and of NUTS on the same numpyro models, in one run.

    python benchmarks/numpyro_ess.py [--data ../shared/data] [--seconds 20] [--only NAME | cost]
    python benchmarks/numpyro_ess.py --scores

With --scores, NUTS in normal scores of learned references (`learn_reference`) takes the place of
SCIR; its pilot is not counted either. Rivals are NUTS as numpyro has it, which breaks sticks on the
simplex, and for models with Dirichlet sites NUTS in log ratios (`numpyro_coordinates.py`).

Each kernel is compiled, warmed up, and then sampled for about the given time; compiling and warming
up are not counted, but NUTS is given up where its warm-up takes longer than `--patience`. Times are
those of the processor, so that other work on the machine does not count; run it on one core
(`taskset -c 1`). The effective sample size is numpyro's, of the number that it is smallest for and
of the median one, and "apart" is the largest difference of means in standard errors. The cost of a
step on minibatches is measured for growing numbers of rows.
"""

import argparse
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpyro
from numpyro.infer import NUTS
from numpyro_coordinates import COORDINATES, has_dirichlet, in_log_ratios
from numpyro_models import Example, examples, mixture

from simplex_jax.numpyro_kernels import SGMCMC, learn_reference, pilots
from simplex_jax.numpyro_kernels.pilots import Chain
from simplex_jax.samplers import sgrld


def sample(
    example: Example,
    kernel: Any,
    warmup: int,
    seconds: float,
    chunk: int,
    patience: float = math.inf,
) -> Chain | None:
    """Sample an example for some seconds of the processor; None as in `pilots.sample`."""
    return pilots.sample(
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
    """Return the kernels to compare with: NUTS, and that in other coordinates of the simplex."""
    found = {"NUTS": example.rival}
    if isinstance(example.rival, NUTS) and has_dirichlet(example.model, example.args):
        for name, coordinates in COORDINATES.items():
            rewritten = partial(in_log_ratios, coordinates=coordinates)
            found[f"NUTS, {name}"] = example.rival.wrap_model(rewritten)
    return found


def row(ours: Chain, theirs: Chain | None) -> str:
    """Return what is said of two chains, the second None where it was given up."""
    low, middle = ours.rates()
    text = f"{low:.3g}, {middle:.3g} |"
    if theirs is None:
        return f"{text} still warming up | | |"
    their_low, their_middle = theirs.rates()
    ratios = f"{low / their_low:.3g}, {middle / their_middle:.3g}"
    distance = pilots.apart(ours, theirs)
    return f"{text} {their_low:.3g}, {their_middle:.3g} | {ratios} | {distance:.1f} |"


def in_scores(example: Example) -> Example:
    """Return the example with NUTS in normal scores of learned references as our kernel."""
    config = learn_reference(jax.random.key(1), example.model, model_args=example.args)
    kernel = NUTS(numpyro.handlers.reparam(example.model, config=config))
    return example._replace(kernel=kernel, warmup=1)


STEPS = 200
KERNELS = ("SCIR", "SGMCMC with SGRLD")


def on_minibatches(name: str, rows: int, batch: int) -> tuple[Callable, Any]:
    """Return the compiled program of `STEPS` steps of a mixture, and what it is given."""
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
    """Microseconds of a step on minibatches of `batch` of so many rows, by kernel.

    The median of some repeats, in which numbers of rows take turns.
    """
    found = {}
    for name in KERNELS:
        runs = [on_minibatches(name, size, batch) for size in rows]
        for run, given in runs:
            jax.block_until_ready(run(*given))
        times = np.zeros((repeats, len(rows)))
        for repeat in range(repeats):
            for place, (run, given) in enumerate(runs):
                start = time.process_time()
                jax.block_until_ready(run(*given))
                times[repeat, place] = time.process_time() - start
        found[name] = list(np.median(times, axis=0) / STEPS * 1e6)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warmup", type=int, default=1000)
    parser.add_argument("--only", default="")
    parser.add_argument("--scores", action="store_true", help="NUTS in normal scores for SCIR")
    parser.add_argument("--patience", type=float, default=600.0, help="for the warm-up, in seconds")
    given = parser.parse_args()
    ours = "NUTS in scores" if given.scores else "SCIR"
    print(f"| model | rival | {ours} min, median ESS/s | its min, median ESS/s | ratio | apart |")
    print("|---|---|---|---|---|---|")
    for name, make in examples(given.data).items():
        if given.only not in name:
            continue
        warmup = given.warmup // 5 if "100,000" in name else given.warmup
        chunk = 20 if "100,000" in name else 100
        shown = in_scores(make()) if given.scores else make()
        chain = sample(shown, shown.kernel, shown.warmup * warmup, given.seconds, chunk)
        assert chain is not None
        for rival, kernel in rivals(shown).items():
            theirs = sample(shown, kernel, warmup, given.seconds, chunk, given.patience)
            print(f"| {name} | {rival} | {row(chain, theirs)}", flush=True)
    if given.only in ("", "cost") and not given.scores:
        rows = (10_000, 100_000, 1_000_000)
        print("\n| us a step on 100 of so many rows |", *(f"{n:,} |" for n in rows))
        print("|---" * (1 + len(rows)) + "|")
        for name, costs in step_costs(rows).items():
            print(f"| {name} |", *(f"{cost:.0f} |" for cost in costs), flush=True)


if __name__ == "__main__":
    main()
