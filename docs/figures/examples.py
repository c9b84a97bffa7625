"""The figures of examples on the models' pages, MODEL_example.png: python docs/figures/examples.py.

The code is that of the page, so a figure shows what a reader who runs it gets.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent


def example(page: str) -> dict[str, Any]:
    """Run the Python of a page, and return its variables."""
    text = (HERE.parent / f"{page}.md").read_text("utf-8")
    names: dict[str, Any] = {}
    for code in re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
        exec(code, names)
    return names


def hdp(names: Mapping[str, Any]) -> plt.Figure:
    """Draw the posterior of the number of topics."""
    figure, ax = plt.subplots(figsize=(5, 2.6), layout="constrained")
    _number(ax, names["fitted"].num_topics_posterior, "topics")
    return figure


def dpm(names: Mapping[str, Any]) -> plt.Figure:
    """Draw the rows with their clusters, and the posterior of the number of clusters."""
    rows, fitted = names["rows"], names["fitted"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    left.scatter(*rows.T, c=[f"C{k}" for k in fitted.point.labels], s=10)
    left.set(xlabel="column 0", ylabel="column 1")
    _number(right, fitted.num_clusters_posterior, "clusters")
    return figure


def sam(names: Mapping[str, Any]) -> plt.Figure:
    """Draw the words of both signs in the most prevalent topic."""
    fitted, topic, order = names["fitted"], names["topic"], names["order"]
    words = [*order[:8], *order[-8:]]
    loadings, deviations = fitted.topics[topic][words], fitted.topics_sd[topic][words]
    figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
    colors = ["C1" if loading < 0 else "C0" for loading in loadings]
    ax.barh(
        [fitted.vocabulary[word] for word in words], loadings, xerr=2 * deviations, color=colors
    )
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set(xlabel="loading")
    return figure


def _number(ax: plt.Axes, posterior: Mapping[int, float], what: str) -> None:
    ax.bar(list(posterior), list(posterior.values()), color="C0")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set(xlabel=f"number of {what}", ylabel="posterior probability")


def main() -> None:
    """Draw all."""
    plt.rcParams |= {"axes.spines.top": False, "axes.spines.right": False}
    for draw in (hdp, sam, dpm):
        draw(example(draw.__name__)).savefig(HERE / f"{draw.__name__}_example.png", dpi=110)


if __name__ == "__main__":
    main()
