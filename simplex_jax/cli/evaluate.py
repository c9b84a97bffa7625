"""`simplex-jax lda evaluate`: how well a fitted model predicts other documents."""

import json
from pathlib import Path
from typing import Any

import click
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from simplex_jax import corpus as corpora
from simplex_jax.cli import describe, documents, options
from simplex_jax.cli.errors import one_line_errors
from simplex_jax.evaluate import perplexity
from simplex_jax.evaluate.coherence import MEASURES, coherence, diversity
from simplex_jax.runtime import output
from simplex_jax.topics import saved

# INPUT, --observed, --target
_GIVEN = ([True, False, False], [False, True, True])


@click.command()
@click.argument("input", required=False, type=options.PATH)
@options.model_option
@click.option("--observed", type=options.PATH, help="Part of each document that is known.")
@click.option("--target", type=options.PATH, help="Part of the same documents to predict.")
@options.seed_option
@options.file_options
@options.common_options
@one_line_errors
def evaluate(
    input: Path | None,
    model: Path,
    observed: Path | None,
    target: Path | None,
    seed: int,
    quiet: bool,
    **reading: Any,
) -> None:
    """Print how well the topics of a run predict other documents, as JSON.

    Either give the two parts of the documents as --observed and --target, or whole documents as
    INPUT, whose tokens are then split at random in two halves. The topic shares of a document are
    inferred from the observed part given the mean topics; `perplexity` is exp of the mean negative
    log-probability of the tokens of the target. Tokens of words that the model does not know are
    left out. Coherences are those of the ten top words in these documents.
    """
    if [path is not None for path in (input, observed, target)] not in _GIVEN:
        raise click.UsageError("give either INPUT, or both --observed and --target")
    say = describe.speaker(quiet)
    loaded = saved.load(model)
    if input is not None:
        found = documents.read(loaded, input, reading)
        say(documents.described(found))
        parts = corpora.split_tokens(found.corpus.counts, seed)
        unknown = {"unknown_tokens": found.unknown}
    else:
        sides = [documents.read(loaded, path, reading) for path in (observed, target) if path]
        for name, side in zip(("observed", "target"), sides, strict=True):
            say(f"{name}: {documents.described(side)}")
        parts = sides[0].corpus.counts, sides[1].corpus.counts
        unknown = {"unknown_tokens": sides[0].unknown, "unknown_target_tokens": sides[1].unknown}
    click.echo(json.dumps(output.plain(_measures(loaded, parts, seed) | unknown), indent=2))


def _measures(
    model: saved.Model, parts: tuple[sp.csr_array, sp.csr_array], seed: int
) -> dict[str, Any]:
    observed, target = parts
    if observed.shape != target.shape:
        raise ValueError(
            f"--observed has {observed.shape[0]} documents and --target {target.shape[0]}: "
            "give two parts of the same documents, in the same order"
        )
    data = perplexity.completion(observed, target)
    mean = np.maximum(model.mean, np.finfo(np.float32).tiny)
    log_p = perplexity.log_predictive(
        jax.random.key(seed), jnp.log(mean), jnp.asarray(model.alpha, jnp.float32), data
    )
    whole = observed + target
    return {
        "perplexity": perplexity.perplexity(log_p, data.counts),
        "documents": observed.shape[0],
        "target_tokens": int(target.sum()),
        "coherence": {name: _mean(coherence(model.mean, whole, measure=name)) for name in MEASURES},
        "diversity": diversity(model.mean),
    }


def _mean(values: np.ndarray) -> float | None:
    """Mean over the topics whose top words occur in the documents; None if there are none."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else None
