"""Base against head, interleaved on one machine: is anything slower?

    python benchmarks/guard.py [--base main] [--rounds 5] [--quick] [--keep FILE]

The base is checked out and built in a temporary folder. Each round measures both in processes of
their own, in turns: variates, label sweeps, a topic update, a step of the kernels, the import, the
first call of a fit and README's main command. A line for each has the median of the ratios head /
base over the rounds and its range: a range that holds 1 is no difference.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import kept
import numpy as np

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Measure, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default="main", help="a commit or branch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="small sizes, no command")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measured(quick=chosen.quick)))
        return
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, "base")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", base, chosen.base], check=True)
        try:
            build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
            subprocess.run(build, cwd=base, check=True, capture_output=True)
            rounds = [
                {side: times(tree, chosen.quick) for side, tree in (("base", base), ("head", ROOT))}
                for _ in range(chosen.rounds)
            ]
        finally:
            subprocess.run([*git, "remove", "--force", base], check=True)
    rows = []
    for name in rounds[0]["head"]:
        if name not in rounds[0]["base"]:  # new
            continue
        ratios = [one["head"][name] / one["base"][name] for one in rounds]
        rows.append({"what": name, "ratio": float(np.median(ratios))})
        rows[-1] |= {"least": min(ratios), "most": max(ratios)}
        rows[-1]["seconds"] = float(np.median([one["head"][name] for one in rounds]))
        print(
            "{what:32s} {ratio:5.2f} ({least:.2f} to {most:.2f})  {seconds:.3g} s".format(
                **rows[-1]
            )
        )
    if chosen.keep:
        kept.write(chosen.keep, rows)


def times(tree: Path, quick: bool) -> dict[str, float]:
    """Measure a tree in a process of its own, and its import and main command in others."""

    def run(*command: str) -> tuple[float, str]:
        began = time.perf_counter()
        environment = {"PYTHONPATH": str(tree), "PATH": "/usr/bin:/bin", "HOME": str(tree)}
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tree / "benchmarks",
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return time.perf_counter() - began, done.stdout

    options = ["--quick"] if quick else []
    script = str(Path(__file__).resolve())  # the head's, for both
    result = json.loads(run(script, "--measure", *options)[1].splitlines()[-1])
    result["import of a kernel"], _ = run("-c", "from simplex_jax.samplers import scir")
    result["import of lda"], _ = run("-c", "from simplex_jax import lda")
    if not quick:
        with tempfile.TemporaryDirectory() as place:
            result["simplex-jax lda"], _ = run(
                "-m", "simplex_jax", "lda", "--quiet", "--out", f"{place}/run"
            )
    return result


def measured(*, quick: bool) -> dict[str, float]:
    """Return seconds by name, of public functions only, so that other versions can be measured."""
    import jax
    import jax.numpy as jnp

    from simplex_jax import corpus, draws, estimators, gradients, lda, samplers

    size = 100_000 if quick else 2_000_000
    key, logs = jax.random.key(0), jnp.zeros(size)
    result = {}
    variates = {
        "gamma variates": lambda key: draws.loggamma(key, jnp.full(size, 0.1)),
        "CIR variates": lambda key: draws.cir(key, logs, jnp.float32(0.5), jnp.float32(0.5)),
        "Poisson variates": lambda key: draws.poisson(key, jnp.full(size, 3.0)),
    }
    for name, function in variates.items():
        result[name] = best(jax.jit(function), key)
    data = jnp.arange(1000) % 10
    simplex = {"alpha": 0.5, "step_size": 0.1}
    counts = estimators.categorical(size=1000)
    real = gradients.density(lambda x: -(x**2).sum() / 2)
    kernels = {
        "scir": (samplers.scir.build(counts, **simplex), data),
        "sgrld": (samplers.sgrld.build(counts, **simplex), data),
        "sgld": (samplers.sgld.build(real, step_size=0.1), None),
    }
    for name, (kernel, batch) in kernels.items():
        state = kernel.init(key, jnp.ones(10))
        result[f"a step of {name}"] = best(jax.jit(kernel.update), key, state, batch)
    texts = corpus.embedded_corpus()
    for topics in (50,) if quick else (50, 1000):
        began = time.perf_counter()
        lda.fit(texts, topics, passes=1, chains=1, seed=0)
        result[f"first fit of {topics} topics"] = time.perf_counter() - began
        fitted = lda.fit(texts, topics, passes=5 if quick else 30, chains=1, seed=0)
        last = fitted.metrics[-1]
        result[f"a pass, {topics} topics"] = last["seconds"] / last["passes"]
    return result


def best(function: object, *arguments: object) -> float:
    """Return the shortest of several calls, after the first, which compiles."""
    import jax

    jax.block_until_ready(function(*arguments))  # type: ignore[operator]
    seconds = []
    for _ in range(7):
        began = time.perf_counter()
        jax.block_until_ready(function(*arguments))  # type: ignore[operator]
        seconds.append(time.perf_counter() - began)
    return min(seconds)


if __name__ == "__main__":
    main()
