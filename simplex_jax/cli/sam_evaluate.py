"""`simplex-jax sam evaluate`: how well a fitted model predicts other documents."""

import json
from pathlib import Path
from typing import Any

import click
import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax.cli import describe, options, sam_options
from simplex_jax.cli import sam_documents as new
from simplex_jax.cli.errors import one_line_errors
from simplex_jax.evaluate import spherical, spherical_checks
from simplex_jax.models import sam_documents
from simplex_jax.runtime import output
from simplex_jax.spherical import saved


@click.command()
@click.argument("input", type=options.PATH)
@options.model_option
@click.option(
    "--samples", default=1_000, type=click.IntRange(1), help="Draws of the shares of each document."
)
@options.seed_option
@sam_options.file_options
@options.common_options
@one_line_errors
def evaluate(
    input: Path, model: Path, samples: int, seed: int, quiet: bool, **reading: Any
) -> None:
    """Print how well the topics of a run predict the documents of INPUT, as JSON.

    `log_perplexity` is the mean over the documents of minus the log of their density on the sphere
    given the mean topics, by importance sampling of their topic shares with proposals of Laplace's
    approximation; `effective_samples` is the median over documents of the number of independent
    draws that those were worth, and `least_effective_samples` the smallest. `standard_error` is
    that of the mean over such documents, from their standard deviation; null for one. Beside it
    stands `prior_draws`, the same by 200 draws of the prior, which is how Liu et al. (2016)
    evaluate: where its effective samples are near 1, it is no estimate of the same number.
    """
    say = describe.speaker(quiet)
    loaded = saved.load(model)
    found = new.read(loaded, input, reading)
    say(found.said)
    vectors = sam_documents.to_device(found.vectors.values)
    given = jnp.asarray(loaded.mean), vectors, loaded.alpha, loaded.kappa1
    key_importance, key_prior = jax.random.split(jax.random.key(seed))
    exact = spherical.importance(key_importance, *given, samples)
    published = spherical.prior_draws(key_prior, *given)
    measures: dict[str, Any] = {
        "log_perplexity": spherical.log_perplexity(exact.log_p),
        "standard_error": _standard_error(exact.log_p),
        "documents": len(exact.log_p),
        "without_direction": len(found.names) - len(found.rows),
        "effective_samples": float(np.median(exact.ess)),
        "least_effective_samples": float(exact.ess.min()),
        "prior_draws": {
            "log_perplexity": spherical.log_perplexity(published.log_p),
            "effective_samples": float(np.median(published.ess)),
        },
    }
    for warning in spherical_checks.effective_warnings(measures["effective_samples"]):
        say(f"warning: {warning}")
    click.echo(json.dumps(output.plain(measures), indent=2))


def _standard_error(values: np.ndarray) -> float | None:
    """Return the standard error of a mean; a single value does not tell it."""
    if len(values) < 2:
        return None
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
