"""Perplexity of our LDA over training time, by the evaluation that its peers were measured with.

    python benchmarks/lda_common_evaluation.py [--corpus synth|news20] [--passes N] [--json FILE]

Needs the folder ../shared/peers (or --peers), which holds the corpora and `common.py`: topic
proportions of held-out documents by 50 fixed-point iterations of CVB0 with the topics fixed,
perplexity of the other half of their tokens. K = 50, alpha = 0.1 and beta = 0.05 for all tools.
Seconds are those of training alone: evaluation and compilation are outside the clock.
"""

import argparse
import importlib.util
import json
import os
import resource
from pathlib import Path
from types import ModuleType

import jax
import numpy as np

from simplex_jax import topics


def load_common(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("common", folder / "common.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Curve:
    """A hook that evaluates the sample at hand and the mean of those of the second half."""

    def __init__(self, common: ModuleType, observed, target) -> None:
        self.common, self.data = common, (observed, target)
        self.points: list[dict[str, float]] = []
        self.compile_seconds = 0.0
        self._sum, self._samples = 0.0, 0

    def __call__(self, event) -> None:
        """Evaluate an event."""
        sample = np.exp(np.asarray(event.state.position, np.float64))
        point = {
            "passes": event.metrics["passes"],
            "seconds": round(event.seconds, 2),
            "perplexity": self.common.perplexity(sample, *self.data),
        }
        if 2 * event.step >= event.last_step:
            self._sum, self._samples = self._sum + sample, self._samples + 1
            mean = self._sum / self._samples
            point["perplexity_of_mean"] = self.common.perplexity(mean, *self.data)
        self.points.append(point)
        self.compile_seconds = event.compile_seconds
        print(point, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).parents[2] / "shared" / "peers"
    parser.add_argument("--peers", type=Path, default=default)
    parser.add_argument("--corpus", choices=("synth", "news20"), default="synth")
    parser.add_argument("--passes", type=float, default=200)
    parser.add_argument("--sampler", default="scir")
    parser.add_argument("--counts", default="memoised")
    parser.add_argument("--local")
    parser.add_argument("--step-size", type=float)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--sweeps", type=int)
    parser.add_argument("--evaluations", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    common = load_common(options.peers)
    train, observed, target = common.load(options.corpus)
    given = {
        "passes": options.passes,
        "sampler": options.sampler,
        "counts_estimate": options.counts,
        "local": options.local,
        "step_size": options.step_size,
        "batch_size": options.batch_size,
        "sweeps": options.sweeps,
        "seed": options.seed,
    }
    steps = topics.resolve(train, 50, **given).num_steps
    curve = Curve(common, observed, target)
    fit = topics.fit(
        train, 50, hooks=[curve], eval_every=max(1, steps // options.evaluations), **given
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}, {os.cpu_count()} cores")
    print(f"compilation {curve.compile_seconds:.1f} s, peak memory {peak:.2f} GiB")
    if options.json:
        record = {"settings": fit.settings._asdict(), "points": curve.points}
        options.json.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
