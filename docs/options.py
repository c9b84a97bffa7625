"""Write docs/options.md and the pages of help of the models from the declarations of options.

usage: python docs/options.py
"""

import importlib
from pathlib import Path

from simplex_jax._src import cli
from simplex_jax._src.cli import HELP
from simplex_jax._src.cli.groups import page_of
from simplex_jax._src.corpus import Reading, TextOptions
from simplex_jax._src.models import NAMES
from simplex_jax._src.options import table

PAGE = Path(__file__).with_suffix(".md")
TITLES = {
    "lda": "latent Dirichlet allocation",
    "dtm": "topics through time and between groups",
    "hdp": "hierarchical Dirichlet process",
    "sam": "spherical admixture model",
    "dpm": "Dirichlet-process mixtures",
}
BEGINNING = """# Options of the models

Each option is an argument of `fit` of its model in Python and, where the table names one with
dashes, an option of the command: `lda.fit(texts, num_topics=20)` is `simplex-jax lda texts/
--topics 20`. The command has more options, for input and output (`simplex-jax lda --help-all`), and
`fit` more arguments, for checkpoints and held-out documents (see its docstring).

`python docs/options.py` writes this page from the declarations in the code, and a test compares
the two.
"""


READING = """## Reading files

These are options of the commands that read a corpus, and arguments of `corpus.read` and
`corpus.convert`. A format that has no use for an option refuses it; `simplex-jax lda --help-all`
names the formats of each.
"""
TEXTS = """The following are those of texts, attributes of `corpus.TextOptions`.
"""


def page() -> str:
    """Return the text of the page."""
    parts = [BEGINNING]
    for name in NAMES:
        of = importlib.import_module(f"simplex_jax._src.models.{name}").MODEL.options
        parts.append(f"## `{name}`: {TITLES[name]}\n\n{table(of)}\n")
    parts.append(f"{READING}\n{table(Reading)}\n\n{TEXTS}\n{table(TextOptions)}\n")
    return "\n".join(parts)


def main() -> None:
    """Write the page, and the help that `simplex-jax MODEL --help` prints without loading JAX."""
    PAGE.write_text(page(), "utf-8")
    HELP.mkdir(exist_ok=True)
    for name in NAMES:
        (HELP / f"{name}.txt").write_text(page_of(cli.main, name), "utf-8")


if __name__ == "__main__":
    main()
