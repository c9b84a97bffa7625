"""Small corpora for the variational baselines of LDA."""

import functools

import jax.numpy as jnp
from baselines import hybrid, online_vb, scvb0

from simplex_jax._src.corpus import device
from support import tiny_lda
from support.contract_case import Case

COUNTS = tiny_lda.table([[], [2], [1, 2], [0, 0, 1], [3] * 9, [0] * 20 + [3] * 15], 5)


def small(build, **options):
    corpus, shape = device.to_device(COUNTS), (3, 5)

    def built(step_size):
        given = {"alpha": 1e-3, "beta": 1e-3, "batch_size": 3}
        return build(corpus, shape, step_size=step_size, **given, **options)

    kernel, stream = built(0.1)
    return Case(kernel, jnp.ones(shape), stream, lambda step_size: built(step_size)[0])


CASES = {
    "online_vb": functools.partial(small, online_vb.build),
    "hybrid": functools.partial(small, hybrid.build),
    "scvb0": functools.partial(small, scvb0.build),
}
