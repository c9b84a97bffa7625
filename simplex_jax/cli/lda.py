"""The commands about latent Dirichlet allocation."""

from simplex_jax.cli.evaluate import evaluate
from simplex_jax.cli.fit import fit
from simplex_jax.cli.groups import DefaultGroup
from simplex_jax.cli.report import report
from simplex_jax.cli.store import store
from simplex_jax.cli.transform import transform

lda = DefaultGroup(
    "lda",
    default="fit",
    commands=[fit, transform, evaluate, report, store],
    short_help="Find the topics of a corpus, and use them.",
)
