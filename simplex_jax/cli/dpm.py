"""The commands about the Dirichlet-process mixture."""

from simplex_jax.cli.dpm_evaluate import evaluate
from simplex_jax.cli.dpm_fit import fit
from simplex_jax.cli.dpm_report import report
from simplex_jax.cli.dpm_transform import transform
from simplex_jax.cli.groups import DefaultGroup

dpm = DefaultGroup(
    "dpm",
    default="fit",
    commands=[fit, transform, evaluate, report],
    short_help="Find clusters of rows, and how many there are.",
)
