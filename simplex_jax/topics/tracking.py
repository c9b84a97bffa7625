"""What is recorded of each evaluation of a run of LDA."""

from collections.abc import Mapping

import numpy as np

from simplex_jax.runtime.hooks import Event
from simplex_jax.runtime.session import Records
from simplex_jax.topics.settings import Settings, Size


def records(settings: Settings, size: Size) -> Records:
    """Return the hook that records evaluations, with the rate of tokens."""

    def measure(event: Event, passes: float) -> Mapping[str, float]:
        rate = round(passes * size.tokens / max(event.seconds, 1e-9))
        stiffness = getattr(event.info.sampler, "stiffness", None)
        more = {} if stiffness is None else {"stiffness": float(np.max(stiffness))}
        return {"tokens_per_second": rate} | more

    per_pass = -(-size.documents // settings.batch_size)
    # Blocks of memoised counts cover the corpus exactly once a pass, the last one being short.
    memoised = settings.counts == "memoised"
    per_step = size.documents / per_pass if memoised else settings.batch_size
    return Records(size.documents, per_step, measure)
