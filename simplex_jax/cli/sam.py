"""The commands about the spherical admixture model."""

from simplex_jax.cli.groups import DefaultGroup
from simplex_jax.cli.sam_evaluate import evaluate
from simplex_jax.cli.sam_fit import fit
from simplex_jax.cli.sam_report import report
from simplex_jax.cli.sam_transform import transform

sam = DefaultGroup(
    "sam",
    default="fit",
    commands=[fit, transform, evaluate, report],
    short_help="Find topics that are directions, with words that they lack.",
)
