"""How long the programs of this package take to compile, and how large they are.

    python benchmarks/compile_times.py [--only NAME] [--keep benchmarks/results/compile_times.json]

Reports processor seconds, which other work on the machine affects little, to trace, lower and
compile one update of each; the instructions of the lowered program, the same on every machine; and
the kernels of the compiled one, each of which takes XLA 8 to 22 ms on a CPU. For a whole
fit: how much longer the first call takes than the second, the programs it compiles with their
instructions, and the programs that the second compiles again.
"""

import argparse
import contextlib
import functools
import importlib
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import kept
import numpy as np
import numpyro_models
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from simplex_jax._src import samplers
from simplex_jax._src.base import Kernel
from simplex_jax._src.corpus import device
from simplex_jax._src.models import dpm, hdp, lda, sam
from simplex_jax._src.models.dpm import families
from simplex_jax._src.models.dpm import model as dpm_mixture
from simplex_jax._src.models.hdp import kernel as hdp_kernel
from simplex_jax._src.models.sam import joint
from simplex_jax._src.models.sam import model as sam_model
from simplex_jax._src.runtime.programs import quick_options

TESTS = Path(__file__).resolve().parents[1] / "tests"
KEY = jax.random.key(0)


class Program(NamedTuple):
    """A function and its arguments, as arrays or shapes."""

    function: Callable
    arguments: tuple
    quick: bool = False  # whether fits compile it with `quick_options`


def update_of(kernel: Kernel, stream: Callable, position: Any) -> Program:
    state = jax.eval_shape(lambda key: kernel.init(key, position), KEY)
    batch = jax.eval_shape(stream, KEY, jnp.int32(0))
    return Program(kernel.update, (KEY, state, batch))


def of_samplers() -> dict[str, Callable[[], Program]]:
    """Return the update of each kernel on the small problem of its tests."""
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
    kinds = ("cir", "langevin", "hamiltonian", "geodesic", "mirror")
    modules = {kind: importlib.import_module(f"support.contract_{kind}") for kind in kinds}
    cases = {name: case for module in modules.values() for name, case in module.CASES.items()}
    cases["sgrld"] = functools.partial(modules["cir"].simplex, samplers.sgrld.build, 0.01)

    def program(name: str) -> Program:
        made = cases[name]()
        return update_of(made.kernel, made.stream, made.position)

    return {name: functools.partial(program, name) for name in samplers.__all__ if name in cases}


def step_of(make: Callable[[], numpyro_models.Example]) -> Program:
    """A step of a numpyro kernel, as in chains that start in one program."""
    example = make()
    kernel, args = example.kernel, example.args
    state = jax.eval_shape(lambda key: kernel.init(key, 100, None, args, {}), KEY)
    return Program(lambda state, args: kernel.sample(state, args, {}), (state, args))


def counts() -> sp.csr_array:
    return sp.csr_array(np.random.default_rng(0).poisson(0.3, (100, 60)))


def points() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(150, 3)) + 4 * rng.integers(0, 3, (150, 1))


def lda_update() -> Program:
    return update_of(*lda.build(device.to_device(counts()), (5, 60)), jnp.ones((5, 60)))


def hdp_update() -> Program:
    kernel, stream = hdp_kernel.build(device.to_device(counts()), capacity=16)
    return update_of(kernel, stream, jnp.ones((16, 60)))


def sam_update() -> Program:
    rows = normalize(counts())
    documents = joint.to_device(rows)
    hyper = joint.hyperparameters(joint.mean_direction(rows))
    start = jnp.full((5, 60), 60**-0.5)
    return update_of(*sam_model.build(documents, (5, 60), hyper=hyper), start)


def dpm_update() -> Program:
    rows = jnp.asarray(points(), jnp.float32)
    family = families.gaussian(jnp.zeros(3), jnp.eye(3))
    kernel, stream = dpm_mixture.build(rows, family, split_merge=1)
    return update_of(kernel, stream, jnp.zeros(len(rows), jnp.int32))._replace(quick=True)


UPDATES: dict[str, Callable[[], Program]] = {
    **of_samplers(),
    "SCIR, one simplex": functools.partial(step_of, numpyro_models.dirichlet_multinomial),
    "SCIR, factorisation": functools.partial(step_of, numpyro_models.factorisation),
    "SCIR, hierarchical": functools.partial(step_of, numpyro_models.hierarchical),
    "Gibbs, SCIR and NUTS": functools.partial(step_of, numpyro_models.directions),
    "lda": lda_update,
    "hdp": hdp_update,
    "sam": sam_update,
    "dpm": dpm_update,
}


FITS: dict[str, Callable[[], Any]] = {
    "lda.fit": lambda: lda.fit(counts(), num_topics=5, passes=5, seed=0),
    "hdp.fit": lambda: hdp.fit(counts(), passes=5, seed=0, chains=1),
    "sam.fit": lambda: sam.fit(counts(), num_topics=5, passes=5, seed=0),
    "dpm.fit": lambda: dpm.fit(points(), family=families.gaussian_of(points()), passes=5, seed=0),
}


def instructions(program: Program) -> int:
    """Return the number of instructions of a lowered program."""
    return jax.jit(program.function).lower(*program.arguments).as_text().count(" = ")


def measure(program: Program) -> dict[str, float]:
    clock, times = time.process_time, [time.process_time()]
    traced = jax.jit(program.function).trace(*program.arguments)
    times.append(clock())
    lowered = traced.lower()
    times.append(clock())
    compiled = lowered.compile(quick_options() if program.quick else None)
    times.append(clock())
    seconds = dict(zip(("trace", "lower", "compile"), np.diff(times), strict=True))
    kernels = len(re.findall(r" (?:fusion|custom-call)\(", compiled.as_text()))
    return {**seconds, "instructions": instructions(program), "kernels": kernels}


@contextlib.contextmanager
def compiled() -> Iterator[list[int]]:
    """Collect the instruction counts of all programs compiled within the block."""
    result: list[int] = []
    with tempfile.TemporaryDirectory() as place:
        jax.config.update("jax_dump_ir_to", place)
        try:
            yield result
        finally:
            jax.config.update("jax_dump_ir_to", "")
        for path in Path(place).iterdir():
            lines = path.read_text().splitlines()  # some are source locations
            result.append(sum(line.count(" = ") for line in lines if not line.startswith("#")))


def calls(fit: Callable[[], Any]) -> dict[str, float]:
    """Return the first call's extra time over the second, and what both compile."""
    jax.clear_caches()
    times, programs = [time.process_time()], []
    for _ in range(2):
        with compiled() as result:
            fit()
        times.append(time.process_time())
        programs.append(result)
    first, second = np.diff(times)
    size, again = sum(programs[0]), len(programs[1])
    return {
        "first call": first - second,
        "programs": len(programs[0]),
        "instructions": size,
        "again": again,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    rows = []
    print(
        "| update | trace | lower | compile | instructions | kernels |\n|---|---|---|---|---|---|"
    )
    for name, make in UPDATES.items():
        if given.only in name:
            result = measure(make())
            rows.append({"program": name, **result})
            seconds = " | ".join(f"{result[part]:.2f}" for part in ("trace", "lower", "compile"))
            print(f"| {name} | {seconds} | {result['instructions']:,} | {result['kernels']} |")
            sys.stdout.flush()
    print("\n| fit | first call less the second | programs | instructions | compiled again |")
    print("|---|---|---|---|---|")
    for name, fit in FITS.items():
        if given.only in name:
            result = calls(fit)
            rows.append({"program": name, **result})
            numbers = f"{result['programs']} | {result['instructions']:,} | {result['again']}"
            print(f"| {name} | {result['first call']:.1f} | {numbers} |", flush=True)
    if given.keep:
        kept.write(given.keep, rows)


if __name__ == "__main__":
    main()
