"""Batches of a stored corpus, prepared on the host while the device works on earlier ones."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import jax
import numpy as np

from simplex_jax._src import arguments
from simplex_jax._src.corpus.device import MOST_TOKENS, Documents
from simplex_jax._src.corpus.store.stored import Stored

_AHEAD = 2


def batches(
    stored: Stored,
    batch_size: int,
    key: jax.Array,
    first_step: int = 0,
    *,
    among: np.ndarray | None = None,
) -> Iterator[Documents]:
    """Yield uniform subsets of distinct documents forever; a thread prepares the next ones.

    The batch of a step depends only on `key` and the step, so a resumed run has the same batches as
    an uninterrupted one. Documents of a batch are in the order of the store. The thread ends when
    the iterator is closed or garbage-collected.

    Args:
        stored: D documents.
        batch_size: Documents in a batch, 1..D.
        key: A typed PRNG key.
        first_step: The step of the first batch.
        among: Distinct numbers of the documents to draw from; by default all.

    Returns:
        An iterator of compact documents with NumPy leaves. `tokens` is int32 [room] in all of them,
        where room is the number of tokens in the `batch_size` longest documents, the smallest that
        never drops a token. Entries beyond the tokens of a batch are 0 and belong to no document.

    Raises:
        ValueError: `batch_size` is not in 1..D, `first_step` is negative, or the longest documents
            have more tokens than int32 can number.

    Example:
        >>> import pathlib, tempfile
        >>> import jax
        >>> from simplex_jax import corpus
        >>> from simplex_jax._src.corpus import store
        >>> with tempfile.TemporaryDirectory() as place:
        ...     fruit = corpus.from_counts([[2, 1], [0, 3], [1, 0]])
        ...     stored = store.write(pathlib.Path(place, "fruit"), fruit)
        ...     batch = next(store.batches(stored, 2, jax.random.key(0)))
        >>> batch.tokens.shape, batch.starts.shape
        ((6,), (2,))
    """
    ids = np.arange(stored.documents) if among is None else np.asarray(among)
    arguments.at_least("batch_size", batch_size, 1)
    arguments.at_least("first_step", first_step, 0)
    if batch_size > len(ids):
        raise ValueError(f"batch_size {batch_size} is larger than the data: at most {len(ids)}")
    lengths = stored.starts[ids + 1] - stored.starts[ids]
    room = max(1, int(np.partition(lengths, len(ids) - batch_size)[-batch_size:].sum()))
    if room > MOST_TOKENS:
        raise ValueError(
            f"batch_size {batch_size}: its longest documents have {room} tokens, and a batch holds "
            f"at most {MOST_TOKENS}; give a smaller one"
        )
    seed = np.asarray(jax.random.key_data(key)).ravel().tolist()

    def batch(step: int) -> Documents:
        rng = np.random.default_rng([*seed, step])
        chosen = rng.choice(len(ids), batch_size, replace=False, shuffle=False)
        return stored.batch(np.sort(ids[chosen]), room)

    def prepared() -> Iterator[Documents]:
        pool = ThreadPoolExecutor(1, "corpus-batches")
        try:
            waiting = deque(pool.submit(batch, first_step + i) for i in range(_AHEAD))
            for step in count(first_step + _AHEAD):
                ready = waiting.popleft().result()
                waiting.append(pool.submit(batch, step))
                yield ready
        finally:
            # Also reached when the generator is closed or lost. Do not wait for the thread: a lost
            # generator may be collected in that very thread.
            pool.shutdown(wait=False, cancel_futures=True)

    return prepared()
