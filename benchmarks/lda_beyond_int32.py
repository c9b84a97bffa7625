"""LDA over more tokens than int32 can index, on disk and in memory.

    python benchmarks/lda_beyond_int32.py --kill     # tokens and labels in files, 5 GiB of memory
    python benchmarks/lda_beyond_int32.py --memory   # in memory, 15 GiB
    python benchmarks/lda_beyond_int32.py --kill --tokens 10000000000 --times 10 --words 250 \
        --passes 0.15

Documents with known topics and shares, 20 million tokens of them, are written to a store repeatedly
until it has --tokens, 2.2 x 10^9. With --times each of their tokens is there as many times, and a
token of --words up to 256 takes a byte: 10^10 tokens then need 10 GB in a file, 10 GB for labels,
twice that for two checkpoints, and 2 GB for the store. `simplex-jax lda` runs over it with its
tokens and labels in files, or in memory on two devices, each of which indexes half of the tokens.
With --kill it is killed after its first checkpoint, and continues with --resume. A few words of
each true topic are its seed words, so that a pass finds the topics and numbers them alike.

The labels in the last checkpoint are compared with the true shares of the documents: in the first
and the last copy of the documents, and on both sides of positions 2^31, 2^32 and 2^33 in the
device's order, where an update has visited some. The final digest of the topics must be the same in
files and in memory, killed or not.
"""

import argparse
import hashlib
import json
import time
from itertools import repeat
from pathlib import Path

import kept
import lda_growth
import numpy as np
import scipy.sparse as sp

TOPICS, ONCE = 20, 20_000
"""Topics, and documents that are written repeatedly."""


def documents(
    words: int, times: int = 1, seed: int = 0
) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
    """Return counts [ONCE, words] of documents of some 1,000 words, their shares, and topics.

    All counts are multiplied by `times`.
    """
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(words, 0.05), TOPICS)
    shares = rng.dirichlet(np.full(TOPICS, 0.2), ONCE)
    lengths = np.maximum(50, rng.lognormal(6.8, 0.5, ONCE)).astype(np.int64)
    each = rng.multinomial(lengths, shares)
    counts = sp.csr_array((ONCE, words), dtype=np.int32)
    for topic, tokens in enumerate(each.T):
        word = rng.choice(words, tokens.sum(), p=topics[topic])
        row, ones = np.repeat(np.arange(ONCE), tokens), np.ones(tokens.sum(), np.int32)
        counts += sp.coo_array((ones, (row, word)), shape=counts.shape).tocsr()
    return times * counts, each / lengths[:, None], topics


def write(path: Path, counts: sp.csr_array, tokens: int) -> float:
    """Write copies of the documents up to a number of tokens; return the seconds."""
    from simplex_jax._src.corpus import store

    begun = time.perf_counter()
    copies = -(-tokens // int(counts.sum()))
    store.write_blocks(
        path, repeat(counts, copies), [f"w{word}" for word in range(counts.shape[1])]
    )
    return time.perf_counter() - begun


def labels_of(run: Path) -> np.ndarray:
    """Return the labels of the newest checkpoint of a run, [devices, n], in the devices' order."""
    from simplex_jax._src.runtime.checkpoint.store import _mapped

    newest = sorted((run / "checkpoint").glob("[0-9]*"))[-1]
    leaves = json.loads((newest / "manifest.json").read_text())["leaves"]
    number = next(i for i, leaf in enumerate(leaves) if leaf["path"][-1] == "labels")
    labels = _mapped(newest / "arrays-0.npz")[str(number)]
    return labels.reshape(-1, labels.shape[-1])


def errors(run: Path, path: Path, shares: np.ndarray) -> dict[str, float]:
    """Return the distance of the document shares, by their labels, from the true ones.

    This is half the sum of the differences, from 0 to 1: the part of a document's tokens that would
    have to change topics. Documents that no update has visited yet do not count.
    """
    from simplex_jax._src.corpus import device, store

    lengths, labels = np.diff(store.open(path).starts), labels_of(run)
    order, devices = device.in_order(lengths), len(labels)
    dealt = [np.cumsum(lengths[order[number::devices]]) for number in range(devices)]
    places, ends = np.empty_like(order), np.cumsum(lengths[order])
    places[order] = np.arange(order.size)
    groups = {
        "first copy": places[:2_000],
        "last copy": places[-ONCE:][:2_000],
        "last places": np.arange(max(0, order.size - 20_000), order.size),
    }
    for power in (31, 32, 33):
        boundary = int(np.searchsorted(ends, 2**power))
        some = min(20_000, order.size - boundary - 1)
        if some > 0:
            groups[f"before place 2^{power}"] = np.arange(boundary - some, boundary)
            groups[f"after place 2^{power}"] = np.arange(boundary, boundary + some) + 1

    def error(place: int) -> float:
        number, end = place % devices, int(dealt[place % devices][place // devices])
        inside = labels[number, end - lengths[order[place]] : end]
        if inside[0] == TOPICS:  # not visited
            return np.nan
        result = np.bincount(inside, minlength=TOPICS) / inside.size
        return 0.5 * float(np.abs(result - shares[order[place] % ONCE]).sum())

    found = {name: np.array([error(place) for place in group]) for name, group in groups.items()}
    return {
        name: float(np.nanmean(part)) for name, part in found.items() if not np.isnan(part).all()
    }


def checkpoints(out: Path) -> list[int]:
    """Return the updates after which a run saved its checkpoints."""
    return [int(path.name.rpartition("-")[2]) for path in (out / "checkpoint").glob("[0-9]*")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=2_200_000_000)
    parser.add_argument("--words", type=int, default=5_000)
    parser.add_argument("--times", type=int, default=1, help="that each token is there")
    parser.add_argument("--passes", type=float, default=1.5)
    parser.add_argument("--memory", action="store_true", help="on two devices, and not in files")
    parser.add_argument("--kill", action="store_true", help="kill it, and go on")
    parser.add_argument("--out", type=Path, default=Path("build/lda_beyond_int32"))
    parser.add_argument("--keep", type=Path, help="the JSON file, if not in --out")
    options = parser.parse_args()
    counts, shares, topics = documents(options.words, options.times)
    path, seeds = options.out / "store", options.out / "seeds.txt"
    if not path.exists():
        print(f"store: {write(path, counts, options.tokens):.0f} s", flush=True)
    seeds.write_text("".join(words_of(topic) + "\n" for topic in topics))

    out = options.out / ("memory" if options.memory else "files")
    run = ["lda", str(path), "--stream", "--counts", "memoised", "--topics", str(TOPICS)]
    run += ["--passes", str(options.passes), "--holdout", "0", "--seed-words", str(seeds)]
    run += ["--devices", "2"] if options.memory else []
    run += ["--checkpoint-every", "60" if options.kill else "100000"]
    told = {"predicted": lda_growth.predicted(run)}
    run, rows = [*run, "--out", str(out), "--overwrite"], []
    if options.kill:
        row = lda_growth.observed(run, out, lambda: bool(checkpoints(out)))
        rows.append({"updates": max(checkpoints(out)), **told, **row})
        run = ["lda", "--resume", str(out)]
    row = lda_growth.observed(run, out)
    rows.append({"updates": max(checkpoints(out)), **told, **row})
    keep = options.keep or options.out / f"lda_beyond_int32_{out.name}.json"
    kept.write(
        keep,
        rows,
        tokens=options.tokens,
        times=options.times,
        topics=TOPICS,
        words=options.words,
        passes=options.passes,
        errors={name: round(error, 4) for name, error in errors(out, path, shares).items()},
        digest=hashlib.sha256((out / "topics.npz").read_bytes()).hexdigest(),
    )
    print(keep.read_text())


def words_of(topic: np.ndarray) -> str:
    """Return the seed words of a topic, its ten most probable ones."""
    return " ".join(f"w{word}" for word in np.argsort(-topic)[:10])


if __name__ == "__main__":
    main()
