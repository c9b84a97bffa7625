"""LDA tools side by side: held-out perplexity over training seconds, with peak memory.

    python benchmarks/lda_peers.py [--corpora synth news20] [--tools ours tomotopy-2] [--seeds 3]

Each tool trains on the same documents with the same K, alpha and beta (with `--defaults` with its
default priors, learned or not), in its own process, one after the other, once for each seed. Topics
are kept at marks and scored when the tool has ended, by the one routine of `common.py`: topic
proportions of held-out documents from half of their tokens by 50 fixed-point iterations of CVB0
with fixed topics, perplexity of the other half. Reading and evaluation are outside the clock; ours
begins at the call of `lda.fit`, with compiled programs on disk ("cold": without any). "Single" are
the topics as the tool reports them, for the samplers (beta + n) / sum of the last labels;
"averaged" is their mean over the second half of the run so far.

Writes results.json (to which later runs add), results.md and one plot per corpus. A full run on
synth and news20 takes half an hour on two quiet cores; `--quick` tries everything in a few minutes.
Needs the folder ../shared with `peers/` and `data/`, and the tools: `pip install tomotopy pyrmallet
topica gensim`; tools that are not installed are skipped.
"""

import argparse
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import kept
import numpy as np
import scipy.sparse as sp
from lda_corpora import NAMES, Task, load
from lda_recorder import SHARED, load_common
from lda_summary import CHECKPOINTS, at, final, number, plot, table
from lda_tools import TOOLS

ALPHA, BETA = 0.1, 0.05


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--points", type=float, default=30.0, help="times topics are judged, about")
    parser.add_argument("--out", type=Path, help="build/lda_peers by default, with --quick apart")
    options = parser.parse_args()
    if options.out is None:
        parts = ["lda_peers", *["defaults"] * options.defaults, *["quick"] * options.quick]
        options.out = Path("build") / "_".join(parts)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "results.json"
    records = json.loads(path.read_text()) if path.exists() else []
    for name in options.corpora:
        task = load(name, options.peers, options.data, options.quick)
        print(f"{name}: {task.train.shape} training counts, {int(task.train.sum()):,} tokens")
        installed = [tool for tool in options.tools if importlib.util.find_spec(TOOLS[tool].module)]
        for tool in sorted(set(options.tools) - set(installed)):
            print(f"  {tool}: {TOOLS[tool].module} is not installed, left out")
        runs = itertools.product(
            options.topics or [task.num_topics], range(options.seeds), installed
        )
        for num_topics, seed, tool in runs:
            record = measure(tool, task._replace(num_topics=num_topics), seed, options)
            same = identity(record)
            records = [r for r in records if identity(r) != same] + [record]
            path.write_text(json.dumps(records, indent=1))
        for num_topics, here in groups(records).items():
            if here[0]["corpus"] == name:
                plot(here, options.out / f"{name}-{num_topics[1]}.png")
    text = "\n\n".join(table(here) for here in groups(records).values())
    (options.out / "results.md").write_text(text + "\n")
    print(text)
    if options.keep:
        kept.write(options.keep, [end(record) for record in records])


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of the training options."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", nargs="+", choices=NAMES, default=["synth", "news20"])
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--topics", nargs="+", type=int, help="numbers of topics of each corpus")
    parser.add_argument("--effort", type=float, default=1.0, help="times the passes of each tool")
    parser.add_argument("--seconds", type=float, help="training time of each tool, at most")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each, seeded 0, 1, ...")
    parser.add_argument("--defaults", action="store_true", help="priors that each tool has")
    parser.add_argument("--quick", action="store_true", help="1,000 documents, a tenth of the work")
    parser.add_argument("--peers", type=Path, default=SHARED / "peers")
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--keep", type=Path, help="a JSON file for the rows of the table")
    return parser


def end(record: dict[str, Any]) -> dict[str, Any]:
    """Return the final figures of a run."""
    last = record["points"][-1]
    named = ("corpus", "num_topics", "tool", "seed", "defaults", "peak_memory")
    figures = {name: record[name] for name in named} | last
    figures["tokens_per_second"] = last["work"] * record["tokens"] / last["seconds"]
    figures |= {"averaged": final(record, "averaged")}
    return figures | {f"after {mark} s": at(record, mark) for mark in CHECKPOINTS}


def groups(records: list[dict[str, Any]]) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Return the records of each corpus and number of topics."""
    cases = dict.fromkeys((record["corpus"], record["num_topics"]) for record in records)
    return {
        case: [record for record in records if (record["corpus"], record["num_topics"]) == case]
        for case in cases
    }


def identity(record: dict[str, Any]) -> tuple[Any, ...]:
    return record["corpus"], record["num_topics"], record["tool"], record["seed"]


def measure(tool: str, task: Task, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Run a tool and score its topics."""
    with tempfile.TemporaryDirectory() as root:
        record = trained(tool, task, seed, options.points, options, Path(root))
        points = judge(record["points"], Path(root), TOOLS[tool].samples, task, options.peers)
    result = record | {"points": points}
    last, kinds = points[-1], ("single", "averaged")
    print(
        f"  {tool}, seed {seed}: {last['work']:.3g} passes in {last['seconds']:.1f} s "
        f"({last['cpu_seconds']:.1f} CPU s), perplexity "
        + ", ".join(f"{kind} {number(final(result, kind))}" for kind in kinds),
        flush=True,
    )
    size = {"documents": task.train.shape[0], "tokens": int(task.train.sum())}
    shape = {"num_topics": task.num_topics, "words": task.train.shape[1]}
    about = {"corpus": task.name, "tool": tool, "seed": seed}
    about |= {"marks": task.marks, "quick": options.quick, "defaults": options.defaults}
    return about | size | shape | result


def trained(
    tool: str, task: Task, seed: int, points: float, options: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    """Run a tool in its own process; return its record, with topics in the folder.

    Topics are kept about `points` times.
    """
    sp.save_npz(folder / "train.npz", task.train, compressed=False)
    alpha, beta = (None, None) if options.defaults else (ALPHA, BETA)
    job = {"num_topics": task.num_topics, "alpha": alpha, "beta": beta, "seed": seed}
    (folder / "task.json").write_text(json.dumps(job))
    command = [sys.executable, str(Path(__file__).with_name("lda_tools.py")), tool, str(folder)]
    effort = options.effort * (0.1 if options.quick else 1)
    command += ["--limit", str(TOOLS[tool].limit * effort)]
    command += ["--seconds", str(options.seconds or task.seconds)]
    command += ["--points", str(points), "--peers", str(options.peers)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # for the BLAS
    if tool.startswith("ours") and tool != "ours-cold":
        environment |= {"JAX_COMPILATION_CACHE_DIR": str(options.out.resolve() / "programs")}
        environment |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        subprocess.run([*command, "--limit", "8", "--points", "1"], env=environment)
    subprocess.run(command, env=environment)
    if not (folder / "record.json").exists():
        raise SystemExit(f"{tool} on {task.name} failed: see above")
    return json.loads((folder / "record.json").read_text())


def judge(
    points: list[dict[str, Any]], folder: Path, samples: bool, task: Task, peers: Path
) -> list[dict[str, Any]]:
    """Evaluate every point, and for samples the mean over the second half of the run so far."""
    files = [folder / point["file"] for point in points]
    wanted: list[tuple[int, str, list[Path]]] = []
    for i, point in enumerate(points):
        wanted.append((i, "averaged" if point["averaged"] else "single", [files[i]]))
        half = [j for j in range(i + 1) if 2 * points[j]["work"] >= point["work"]]
        if samples and len(half) > 2 and i >= 5:
            wanted.append((i, "averaged", [files[j] for j in half]))
    judged = [
        {name: point[name] for name in ("work", "seconds", "cpu_seconds")} for point in points
    ]
    held_out = (task.observed, task.target, peers)
    with ProcessPoolExecutor(initializer=prepare, initargs=held_out) as pool:
        alphas = [points[i].get("alpha", ALPHA) for i, _, _ in wanted]
        values = pool.map(evaluate, [paths for _, _, paths in wanted], alphas)
        for (i, kind, _), value in zip(wanted, values, strict=True):
            judged[i][kind] = value
    return judged


def prepare(observed: sp.csr_array, target: sp.csr_array, peers: Path) -> None:
    global held_out, common  # in a process that only evaluates
    held_out, common = (sp.csr_matrix(observed), sp.csr_matrix(target)), load_common(peers)


def evaluate(paths: list[Path], alpha: float | list[float]) -> float:
    """Perplexity of the mean of the topics in files."""
    topics = [np.load(path).astype(np.float64) for path in paths]
    mean = sum(rows / rows.sum(axis=1, keepdims=True) for rows in topics) / len(topics)
    return common.perplexity(mean, *held_out, np.asarray(alpha))


if __name__ == "__main__":
    main()
