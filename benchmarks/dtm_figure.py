"""One topic through a century: the picture of README, docs/figures/energy.png.

    python benchmarks/dtm_figure.py [--passes 1500] [--seed 0] [--out FILE]

The State of the Union by decade, 30 topics in two chains; the topic is that of "energy". Lines are
posterior means, bands 95% intervals.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from simplex_jax import corpus, dtm

WORDS = ("coal", "oil", "energy", "solar")
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "energy.png"


def main() -> None:
    """Fit the model, and draw the words of the topic."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passes", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=FIGURE)
    chosen = parser.parse_args()
    texts, years = corpus.embedded_corpus(), corpus.embedded_years()
    fitted = dtm.fit(
        texts, 30, times=years, slices="decade", passes=chosen.passes, seed=chosen.seed
    )
    topic = int(np.argmax(fitted.topics[:, fitted.vocabulary.index("energy")]))
    for name, words in zip(fitted.slices.names, fitted.leading_words(topic, 8), strict=True):
        print(name, *(fitted.vocabulary[word] for word in words))
    _, axes = plt.subplots(figsize=(7.5, 3.4), layout="constrained")
    known = [word for word in WORDS if word in fitted.vocabulary]
    fitted.plot(topic, known, axes=axes)
    axes.spines[["top", "right"]].set_visible(False)
    axes.figure.savefig(chosen.out, dpi=150)
    print(f"topic {topic}, stable: {fitted.stable[topic]}")
    print(fitted.verdict, fitted.warnings, sep="\n")


if __name__ == "__main__":
    main()
