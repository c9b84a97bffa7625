"""The distinct words of documents and how often each occurs, for methods that take them at once."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simplex_jax._src.corpus.device import DeviceCorpus


class Entries(NamedTuple):
    """A corpus by distinct words.

    Attributes:
        corpus: The corpus, with every distinct word of a document in place of its tokens.
        counts: How often each occurs in its document, float32 [N].
        lengths: Number of tokens of every document, float32 [D].
    """

    corpus: DeviceCorpus
    counts: jax.Array
    lengths: jax.Array


def of(corpus: DeviceCorpus) -> Entries:
    """Return the entries of a corpus, whose equal tokens of a document lie side by side.

    Those that do not are several entries of the same word.

    Example:
        >>> import scipy.sparse as sp
        >>> from baselines import entries
        >>> from simplex_jax._src.corpus import device
        >>> found = entries.of(device.to_device(sp.csr_array([[2, 0, 1], [0, 1, 0]])))
        >>> found.corpus.tokens.tolist(), found.corpus.starts.tolist(), found.counts.tolist()
        ([1, 0, 2], [0, 1, 3], [1.0, 2.0, 1.0])
    """
    starts = np.asarray(corpus.starts)
    tokens = np.asarray(corpus.tokens)[: starts[-1]]
    begins = np.ones(tokens.size + 1, bool)  # an entry, or the end
    begins[1:-1] = tokens[1:] != tokens[:-1]
    begins[starts] = True
    places = np.flatnonzero(begins)
    counts = np.diff(places)
    if counts.size == 0:  # as in a corpus without tokens, one that belongs to no document
        places, counts = np.zeros(2, int), np.zeros(1, int)
        tokens = np.zeros(1, np.int32)
    first = np.searchsorted(places[:-1], starts) if starts[-1] else np.zeros_like(starts)
    return Entries(
        DeviceCorpus(
            jnp.asarray(tokens[places[:-1]]), jnp.asarray(first.astype(np.int32)), corpus.order
        ),
        jnp.asarray(counts.astype(np.float32)),
        jnp.asarray(np.diff(starts).astype(np.float32)),
    )
