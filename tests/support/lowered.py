"""Lowers the update of every kernel for TPU, without native code; run by `test_lowering.py`.

Prints a line for each: its name, then what a TPU has not (64-bit floats, foreign calls), if any.
"""

import functools
import importlib
import re

import jax
import numpy as np

from simplex_jax._src.models import pipeline
from support.contracts import CASES, KERNELS

KEY = jax.random.key(0)
# XLA has an eigendecomposition of its own for TPU, by this name.
ABSENT = {
    "float64": r"tensor<[^>]*f64>",
    "a foreign call": r"stablehlo\.custom_call @(?!Sharding|Eigh)",
}


def lowered(update, *arguments):
    """The module of a program for TPU, as text."""
    return jax.export.export(jax.jit(update), platforms=["tpu"])(*arguments).mlir_module()


def _with_data(update, data, state, batch):
    return update(jax.random.wrap_key_data(data), state, batch)


def models():
    """The update of each model by name, on tiny data, with what it takes."""
    counts = np.random.default_rng(0).poisson(1.0, (8, 12))
    table = {"x": [0.1, 2.5, 0.3, 2.7, 1.9], "kind": ["a", "b", "a", "b", "b"]}
    for name, data, options in (
        ("lda", counts, {"num_topics": 3, "engine": "xla"}),
        ("lda", counts, {"num_topics": 3, "engine": "xla", "sampler": "sgrld"}),
        ("hdp", counts, {"engine": "xla"}),
        ("sam", counts, {"num_topics": 3}),
        ("dpm", table, {}),
    ):
        model = importlib.import_module(f"simplex_jax._src.models.{name}").MODEL
        chosen = model.options(chains=1, steps=1, **options)
        run = model.prepare(pipeline.plan_of(model, data, chosen, pipeline.Session()), None)
        yield name, run.kernel.update, run.state, run.feed(0)(KEY, 0)


def main():
    for name in KERNELS:
        case = CASES[name]()
        state = case.kernel.init(KEY, case.position)
        tell(name[1], case.kernel.update, state, case.stream(KEY, 0))
    for name, *arguments in models():
        tell(name, *arguments)


def tell(name, update, state, batch):
    text = lowered(functools.partial(_with_data, update), jax.random.key_data(KEY), state, batch)
    found = [what for what, pattern in ABSENT.items() if re.search(pattern, text)]
    print(name, *found, sep="\t", flush=True)


if __name__ == "__main__":
    main()
