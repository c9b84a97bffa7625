"""The plots that open docs/benchmarks.md, from kept results: python benchmarks/overview.py."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import kept
import matplotlib as mpl
import numpy as np

mpl.use("agg")
import matplotlib.pyplot as plt

FIGURES = kept.RESULTS.parents[1] / "docs" / "figures"
NAMES = {
    "ours": "simplex_jax",
    "tomotopy-2": "tomotopy",
    "topica-sparse-2": "topica, sparse",
    "topica-warp-2": "topica, warp",
    "pyrmallet": "MALLET",
    "sklearn-batch": "scikit-learn, batch",
    "sklearn-online-256": "scikit-learn, online",
    "gensim-2000": "gensim",
}
CORPORA = {"news20": "20 Newsgroups", "ap": "AP", "synth": "synthetic", "nips": "NIPS"}


def rows(name: str) -> list[dict[str, Any]]:
    """Return the rows of a kept result."""
    return json.loads((kept.RESULTS / f"{name}.json").read_text())["rows"]


def perplexity(axes: Iterable[plt.Axes]) -> None:
    """Draw held-out perplexity against training seconds, a panel for each corpus."""
    measured = rows("lda_peers")
    for ax, (corpus, title) in zip(axes, CORPORA.items(), strict=True):
        for number, (tool, name) in enumerate(NAMES.items()):
            points = [row for row in measured if (row["corpus"], row["tool"]) == (corpus, tool)]
            if not points:
                continue
            # Scores of averages where the tool or its samples give them.
            seconds = [row["seconds"] for row in points]
            scores = [row["averaged"] or row["single"] for row in points]
            look: Mapping[str, Any] = {"zorder": 3, "s": 36} if tool == "ours" else {"s": 22}
            marker = "o" if tool == "ours" else "^vsDPXd"[number - 1]
            ax.scatter(seconds, scores, label=name, marker=marker, color=f"C{number}", **look)
        ax.set(title=title, xlabel="seconds of training", yscale="log")
        ax.yaxis.set_major_formatter("{x:,.0f}")
        ax.yaxis.set_minor_formatter("{x:,.0f}")
        ax.tick_params(which="both", labelsize=8)


def speed(ax: plt.Axes) -> None:
    """Draw tokens a second, medians over seeds, for numbers of topics."""
    cases = [("lda_peers", "nips", "NIPS\nK = 50")]
    cases += [("lda_peers_wikipedia", "wikipedia", "Wikipedia\nK = 200")]
    cases += [("lda_peers_wikipedia", "wikipedia-1000", "Wikipedia\nK = 1,000")]
    for offset, tool in ((-0.2, "ours"), (0.2, "tomotopy-2")):
        values = [
            np.median(
                [
                    row["tokens_per_second"] / 1e6
                    for row in rows(name)
                    if (row["corpus"], row["tool"]) == (corpus, tool)
                ]
            )
            for name, corpus, _ in cases
        ]
        bars = ax.bar(np.arange(len(cases)) + offset, values, 0.38, label=NAMES[tool])
        ax.bar_label(bars, fmt="{:.3g}")
    ax.set_xticks(range(len(cases)), [label for *_, label in cases])
    ax.set(ylabel="million tokens a second")
    ax.legend(frameon=False)


def main() -> None:
    """Draw both."""
    plt.rcParams |= {"axes.spines.top": False, "axes.spines.right": False}
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
    perplexity(axes)
    axes[0].set_ylabel("held-out perplexity")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=8)
    figure.savefig(FIGURES / "lda_peers.png", dpi=110)
    figure, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
    speed(ax)
    figure.savefig(FIGURES / "lda_speed.png", dpi=110)


if __name__ == "__main__":
    main()
