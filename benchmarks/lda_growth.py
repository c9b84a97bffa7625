"""How the time of a pass of LDA grows with tokens, topics and words; and large runs as a whole.

    python benchmarks/lda_growth.py                      # growth, each in its own process
    python benchmarks/lda_growth.py --store 300000000    # the command, on this many tokens
    python benchmarks/lda_growth.py --store 738000000 --length 90 --words 141000 --topics 1000 \
        --passes 1                                       # PubMed's size: 8.2 million abstracts

Documents are synthetic: lengths log-normal, words by Zipf's law within three of 200 themes each, so
that there are topics to find. Growth is that of memoised SCIR with updates of all documents, the
median of the passes after the first five. With --store, the corpus is written below --out and
`simplex-jax lda` runs over it for --passes; its peak private memory is reported against its
--dry-run prediction, and mapped store pages separately. Results are written to --out, or where
--keep says, with a picture of the growth.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import kept
import numpy as np
import scipy.sparse as sp

BASE = {"tokens": 3_000_000, "topics": 50, "words": 10_000}
GROWTH = {
    "tokens": [1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000, 300_000_000],
    "topics": [50, 100, 200, 500, 1_000, 2_000, 5_000],
    "words": [10_000, 30_000, 100_000, 300_000, 1_000_000],
}
THEMES, BLOCK = 200, 20_000
LENGTH = float(np.exp(4.4 + 0.8**2 / 2))  # of a document, in the mean


def blocks(
    tokens: int, words: int, seed: int = 0, length: float = LENGTH
) -> Iterator[sp.csr_array]:
    """Yield documents [n, V] in blocks, up to a number of tokens; `length` is their mean length."""
    rng, median = np.random.default_rng(seed), np.log(length) - 0.8**2 / 2
    law = np.cumsum(1 / (np.arange(words) + 10.0))
    law /= law[-1]
    shift = rng.integers(words, size=THEMES)
    while tokens > 0:
        lengths = np.maximum(10, rng.lognormal(median, 0.8, BLOCK)).astype(np.int64)
        lengths = lengths[: int(np.searchsorted(np.cumsum(lengths), tokens)) + 1]
        tokens -= int(lengths.sum())
        document = np.repeat(np.arange(lengths.size), lengths)
        themes = rng.integers(THEMES, size=(lengths.size, 3))
        theme = themes[document, rng.integers(3, size=document.size)]
        rank = np.searchsorted(law, rng.random(document.size, np.float32))
        # A third of the tokens are of words that all themes share.
        common = rng.random(document.size, np.float32) < 1 / 3
        word = (rank + np.where(common, 0, shift[theme])) % words
        ones = np.ones(document.size, np.int32)
        counts = sp.coo_array((ones, (document, word)), shape=(lengths.size, words)).tocsr()
        yield sp.csr_array(counts)


def measure(tokens: int, topics: int, words: int) -> dict[str, float]:
    """Return the median seconds of a pass in this process."""
    import jax
    import jax.numpy as jnp

    from simplex_jax._src.corpus import device
    from simplex_jax._src.models.lda import model

    corpus = device.to_device(sp.csr_array(sp.vstack(list(blocks(tokens, words)))))
    shape, documents = (topics, words), device.size(corpus)
    kernel, stream = model.build(corpus, shape, alpha=0.1, beta=0.05, batch_size=documents)
    state = kernel.init(jax.random.key(0), jnp.ones(shape))
    update, seconds = jax.jit(kernel.update, donate_argnums=1), []
    for step in range(12):
        batch = stream(jax.random.key(1), state.step)
        begun = time.perf_counter()
        state, _ = jax.block_until_ready(update(jax.random.key(step), state, batch))
        seconds.append(time.perf_counter() - begun)
    return {
        "tokens": int(corpus.tokens.shape[0]),
        "topics": topics,
        "words": words,
        "seconds": float(np.median(seconds[5:])),
    }


def grow() -> dict[str, list]:
    """Measure every setting in its own process."""
    result: dict[str, list] = {}
    for name, values in GROWTH.items():
        result[name] = []
        for value in values:
            setting = BASE | {name: value}
            done = subprocess.run(
                [sys.executable, __file__, "--one", *(str(number) for number in setting.values())],
                capture_output=True,
                text=True,
                check=True,
            )
            row = json.loads(done.stdout)
            result[name].append(row)
            print(name, json.dumps(row), flush=True)
    return result


def slope(rows: list, name: str) -> float:
    """Return d log seconds / d log value over the upper half of the values."""
    upper = rows[len(rows) // 2 :]
    x, y = (np.log([row[key] for row in upper]) for key in (name, "seconds"))
    return float(np.polyfit(x, y, 1)[0])


def picture(result: dict[str, list], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(result), figsize=(11, 3.4), sharey=True)
    for axis, (name, rows) in zip(axes, result.items(), strict=True):
        axis.loglog([row[name] for row in rows], [row["seconds"] for row in rows], "o-")
        others = ", ".join(f"{key} {value:,}" for key, value in BASE.items() if key != name)
        axis.set_title(f"slope {slope(rows, name):.2f} ({others})", fontsize=8)
        axis.set_xlabel(name)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("seconds a pass")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def command(
    tokens: int, words: int, topics: int, passes: int, place: Path, length: float = LENGTH
) -> dict[str, object]:
    """Write a store, and run the command over it."""
    from simplex_jax._src.corpus import store

    path, begun = place / "store", time.perf_counter()
    if not path.exists():
        names = [f"w{number}" for number in range(words)]
        store.write_blocks(path, blocks(tokens, words, length=length), names)
    writing = time.perf_counter() - begun
    # Written without a table of counts; no shares of documents at the end.
    run = ["lda", str(path), "--stream", "--counts", "memoised"]
    run += ["--topics", str(topics), "--passes", str(passes), "--checkpoint-every", "100000"]
    told, out = predicted(run), place / "run"
    return {
        "tokens": tokens,
        "words": words,
        "topics": topics,
        "passes": passes,
        "writing the store, s": round(writing, 1),
        "predicted": told,
        **observed([*run, "--out", str(out), "--overwrite"], out),
    }


def program() -> str:
    """Return the path of the command."""
    return str(Path(sys.executable).with_name("simplex-jax"))


def predicted(run: list[str]) -> str | None:
    """Return the memory that --dry-run predicts for a run."""
    done = subprocess.run([program(), *run, "--dry-run"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    total = re.search(r"in all +([\d.]+ \w+)", done.stdout)
    return total and total.group(1)


def observed(
    run: list[str], out: Path, stop: Callable[[], bool] = lambda: False
) -> dict[str, object]:
    """Run a command to its end, or kill it, and return its time and memory."""
    begun = time.perf_counter()
    process = subprocess.Popen([program(), *run], stdout=subprocess.DEVNULL)
    peaks = {"Anon": 0.0, "File": 0.0}
    while process.poll() is None:
        peaks = {kind: max(peak, resident(process.pid, kind)) for kind, peak in peaks.items()}
        if stop():
            process.kill()
        time.sleep(0.1)
    lines = out / "metrics.jsonl"
    rows = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
    return {
        "exit": process.returncode,
        "whole command, s": round(time.perf_counter() - begun, 1),
        "training, s": round(rows[-1]["seconds"], 1) if rows else None,
        "own peak, GiB": round(peaks["Anon"], 2),
        "mapped peak, GiB": round(peaks["File"], 2),
    }


def resident(process: int, kind: str) -> float:
    """Return the resident GiB of a process, private ("Anon") or of files ("File")."""
    status = Path(f"/proc/{process}/status").read_text()
    result = re.search(rf"Rss{kind}:\s+(\d+)", status)  # no match once it has ended
    return int(result.group(1)) / 2**20 if result else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", type=int, nargs=3, metavar=("TOKENS", "TOPICS", "WORDS"))
    parser.add_argument("--store", type=int, metavar="TOKENS")
    parser.add_argument("--length", type=float, default=LENGTH, help="of a document, in the mean")
    parser.add_argument("--words", type=int, default=50_000)
    parser.add_argument("--topics", type=int, default=200)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("build/lda_growth"))
    parser.add_argument("--keep", type=Path, help="the JSON file, if not in --out")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one)))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    if options.store:
        row = command(
            *(options.store, options.words, options.topics, options.passes, options.out),
            length=options.length,
        )
        kept.write(options.keep or options.out / f"store_{options.store}.json", [row])
        print(json.dumps(row, indent=1))
        return
    grown = grow()
    rows = [{"varied": name} | row for name, part in grown.items() for row in part]
    slopes = {name: round(slope(part, name), 3) for name, part in grown.items()}
    kept.write(options.keep or options.out / "lda_growth.json", rows, base=BASE, slopes=slopes)
    picture(grown, options.out / "lda_growth.png")
    print(json.dumps(slopes))


if __name__ == "__main__":
    main()
