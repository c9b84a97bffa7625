"""The sites of a numpyro model whose labels `LDAGibbs` draws, and checks of the model."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax._src.numpyro import density, sites
from simplex_jax._src.numpyro.lda_counts import TopicCounts, WordCounts
from simplex_jax._src.numpyro.sites import Values

# Tolerance for the sum of a topic's probabilities, larger than rounding errors.
_SLACK = 1e-3

Trace: TypeAlias = Mapping[str, Any]
"""A trace of a model: its sites by name."""


class Names(NamedTuple):
    """The names of the two sites of counts."""

    documents: str  # of topics in documents
    words: str  # of words in topics


class Given(NamedTuple):
    """The parameters given which labels are drawn."""

    alpha: jax.Array  # concentrations of the shares, [1, K], or [D, K] if documents differ
    log_topics: jax.Array  # [K, V], normalised


def given(trace: Trace, own: Names) -> Given:
    """Return the parameters of the laws of the two sites."""
    of_documents, of_words = (sites.base(trace[name]["fn"]) for name in own)
    alpha = jnp.asarray(of_documents.concentration)
    log_topics = jnp.broadcast_to(of_words.logs(), jnp.shape(trace[own.words]["value"]))
    return Given(alpha.reshape(-1, alpha.shape[-1]), log_topics)


def check_sites(trace: Trace, own: Names) -> None:
    """Raise a ValueError unless exactly the two sites are latent, with the right laws."""
    latent = [
        name for name, site in trace.items() if site["type"] == "sample" and not site["is_observed"]
    ]
    for name, law in zip(own, (TopicCounts, WordCounts), strict=True):
        if name not in latent:
            raise ValueError(
                f"LDAGibbs needs the latent site {name!r}, but the model has "
                f"{sites.listed(latent)}: give both of its sites to its block, Gibbs([("
                f"LDAGibbs(...), {sites.listed(own)}), ...])"
            )
        site = trace[name]
        if not isinstance(actual := sites.base(site["fn"]), law):
            raise ValueError(
                f"site {name!r} must have the law {law.__name__}; it has {type(actual).__name__}"
            )
        if site["scale"] is not None or density.masked(site["fn"]):
            raise ValueError(
                f"site {name!r} is scaled or masked, so labels cannot be drawn for it; move "
                "handlers.scale and handlers.mask to other sites"
            )
    others = [
        name
        for name in latent
        if name not in own and trace[name]["infer"].get("enumerate") != "parallel"
    ]
    if others:
        raise ValueError(
            f"LDAGibbs draws {sites.listed(own)}, not {sites.listed(others)}: with numpyro 0.22 "
            f"use Gibbs([(LDAGibbs(...), {sites.listed(own)}), (NUTS(model), None)]), or SCIR "
            "in place of NUTS"
        )


def check_shapes(trace: Trace, own: Names, lengths: np.ndarray, num_words: int) -> None:
    """Raise a ValueError unless counts match the shapes of a corpus and its lengths, [D]."""
    shapes = [jnp.shape(trace[name]["value"]) for name in own]
    num_topics = shapes[0][-1]
    needed = ((lengths.size, num_topics), (num_topics, num_words))
    for name, shape, need, axes in zip(own, shapes, needed, ("[D, K]", "[K, V]"), strict=True):
        if shape != need:
            raise ValueError(
                f"site {name!r} must have the shape {axes} = {need} for this corpus; its shape is "
                f"{shape}"
            )
    totals = sites.base(trace[own.documents]["fn"]).total_count
    if isinstance(totals, jax.core.Tracer):
        return
    wrong = np.flatnonzero(np.broadcast_to(totals, lengths.shape) != lengths)
    if wrong.size:
        raise ValueError(
            f"site {own.documents!r} must have the lengths of the documents of the corpus, "
            f"counts.sum(axis=1); document {wrong[0]} has {lengths[wrong[0]]} tokens"
        )


def check_topics(log_topics: jax.Array, own: Names) -> None:
    """Raise a ValueError unless the probabilities of each topic add up to 1."""
    sums = jnp.exp(log_topics).sum(axis=1)
    right = jnp.abs(sums - 1) < _SLACK
    if isinstance(right, jax.core.Tracer) or right.all():
        return
    k = int(jnp.argmin(right))
    raise ValueError(
        f"the probabilities of topic {k} of site {own.words!r} add up to {float(sums[k]):.4g}, not "
        "1: normalise them, as jax.nn.softmax does, or jax.nn.log_softmax their logarithms"
    )


def check_others(traced: Callable[[Values, jax.Array], Trace], own: Names, z: Values) -> None:
    """Raise a ValueError if labels depend on more than alpha and the topics.

    `traced` traces the model at values of the counts and with a key; z are values of the counts.
    The program of the model shows that nothing else depends on the counts, and that alpha and the
    topics depend on no number that the model draws, as for a site that is summed out.
    """
    parts: list[str] = []

    def numbers(z: Values, key: jax.Array) -> list[jax.Array]:
        trace = traced(z, key)
        alpha, log_topics = given(trace, own)
        parts_by_name = {"the value of alpha": alpha, "the value of the topics": log_topics}
        for name, site in trace.items():
            if site["type"] == "sample" and name not in own:
                parts_by_name[f"site {name!r}"] = site["fn"].log_prob(site["value"])
        parts[:] = parts_by_name
        return [density.summed(part) for part in parts_by_name.values()]

    key = jax.random.key(0)
    of_counts = density.depending(lambda z: numbers(z, key), z)
    of_key = density.depending(lambda key: numbers(z, key)[:2], key)
    for part, does in zip(parts, of_counts, strict=True):
        if does:
            raise ValueError(
                f"{part} depends on the counts {sites.listed(own)}, which LDAGibbs would ignore "
                "when it draws labels: only deterministic sites may"
            )
    for part, does in zip(parts, of_key, strict=False):
        if does:
            raise ValueError(
                f"{part} depends on numbers that the model draws itself, such as a site that is "
                "summed out: give that site its own block"
            )
