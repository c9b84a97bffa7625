"""Where chains of topics begin."""

import jax

from simplex_jax.baselines import sam_vi
from simplex_jax.models import sam, sam_documents
from simplex_jax.models.sam_documents import UnitDocuments
from simplex_jax.models.sam_joint import Hyperparameters
from simplex_jax.runtime.driver import run
from simplex_jax.schedules import polynomial_decay

STARTS = ("variational", "prior")
"""Names of the ways to begin."""

UPDATES = 40
"""Updates of variational inference before the first sample."""

BATCH = 4_000
"""Most documents in one of them."""


def topics(
    key: jax.Array, documents: UnitDocuments, hyper: Hyperparameters, count: int, how: str
) -> jax.Array:
    """Return topics [K, V] for a chain to begin with.

    "prior" are directions about the corpus mean, from where samplers take hundreds of passes to
    topics. "variational" goes on from there by `UPDATES` updates of variational inference, of all
    documents or `BATCH` of them, which takes a few passes: the chain forgets it as any start, but
    has less to travel.
    """
    key_start, key_init, key_run = jax.random.split(key, 3)
    first = sam.start(key_start, hyper, count)
    if how == "prior":
        return first
    size = sam_documents.size(documents)
    # Batches are large, and updates few: later ones count for more than in a long run.
    step_size = polynomial_decay(1.0, tau=1.0, kappa=0.6) if size > BATCH else 1.0
    kernel, stream = sam_vi.build(
        documents,
        (count, first.shape[1]),
        hyper=hyper,
        batch_size=min(BATCH, size),
        step_size=step_size,
        local_iterations=5,
        topic_iterations=5,
    )
    state = kernel.init(key_init, first)
    state, _ = run(key_run, kernel, state, stream, UPDATES, collect=_nothing)
    return state.position


def _nothing(state: sam_vi.State, info: sam_vi.Info) -> tuple[()]:
    """Keep nothing of the way."""
    del state, info
    return ()
