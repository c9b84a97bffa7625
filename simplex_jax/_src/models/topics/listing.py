"""Topics as lines of text."""

import numpy as np

from simplex_jax._src.report.display import counted

MOST = 100
"""Topics that a command lists; more would push important lines off the screen."""


def listed(prevalence: np.ndarray, described: list[str], most: int = MOST) -> list[str]:
    """Return one line per topic, most prevalent first, and a line that counts omitted ones."""
    order = np.argsort(-prevalence, kind="stable")
    lines = [f"{k:4d} {100 * prevalence[k]:5.1f}%  {described[k]}" for k in order[:most]]
    if omitted := len(order) - len(lines):
        share = prevalence[order[most:]].sum()
        lines.append(
            f"and {counted(omitted, 'topic')} of {100 * share:.1f}% in all, see topics.csv"
        )
    return lines


def leading(mean: np.ndarray, vocabulary: tuple[str, ...], most: int = 10) -> list[str]:
    """Return the words of each topic with the largest probabilities or loadings, as one text."""
    order = np.argsort(-mean, axis=1, kind="stable")[:, :most]
    return [" ".join(vocabulary[word] for word in row) for row in order]
