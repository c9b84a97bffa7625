"""The files and the report of a mixture of unigrams."""

from pathlib import Path
from typing import Any

from simplex_jax._src.models.unigrams.fitting import Fit

from simplex_jax._src.evaluate.coherence import top_words
from simplex_jax._src.models.records import Array, Files, Saved
from simplex_jax._src.report import display, page
from simplex_jax._src.runtime import directory, saved

SHARES = "doc_topics.npz"


def write(fitted: Fit, place: Path) -> None:
    directory.write_vocabulary(place, fitted.vocabulary)
    directory.write_proportions(
        place / SHARES, fitted.names, len(fitted.topics), [(fitted.proportions, None)]
    )


def sizes(run: Saved) -> dict[str, int]:
    words = saved.load_vocabulary(run.directory)
    return {"K": run.settings.num_topics, "V": len(words), "C": run.settings.chains}


def restore(run: Saved) -> dict[str, Any]:
    names, shares, _ = saved.load_proportions(run.directory / SHARES, run.settings.num_topics)
    vocabulary = saved.load_vocabulary(run.directory)
    order, shared = run.arrays["order"].astype(int), run.arrays["shared"].astype(bool)
    return run.arrays | {
        **{"vocabulary": vocabulary, "names": names, "proportions": shares, "order": order},
        "shared": shared,
    }


def context(fitted: Fit, most: int) -> dict[str, Any]:
    return {
        "title": f"{len(fitted.topics)} kinds of documents",
        "lead": f"A mixture of unigrams, seed {fitted.settings.seed}.",
        "sections": [("topics", "Topics")],
        "tiles": [("documents", display.count(fitted.corpus["documents"]))],
        "topics": [
            (share, [fitted.vocabulary[word] for word in words])
            for share, words in zip(fitted.shares, top_words(fitted.topics, most), strict=True)
        ],
        "charts": page.curves(fitted.metrics, "log_density", "log density of held-out documents"),
    }


FILES = Files(
    names=(SHARES, "vocabulary.txt"),
    arrays={
        "topics.npz": {
            "topics": Array("KV", most=1.001),
            "topics_sd": Array("KV", unknown=True),
            "shares": Array("K", most=1.001),
            "shares_sd": Array("K", unknown=True),
            "stability": Array("K", unknown=True),
            "order": Array("CK"),
            "shared": Array("CK"),
        }
    },
    sizes=sizes,
    write=write,
    summary=lambda fitted: {},
    restore=restore,
    report=page.Report(Path(__file__).with_name("report.html"), context, items="words", most=10),
)
