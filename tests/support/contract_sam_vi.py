"""A small corpus for variational inference of SAM."""

import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from simplex_jax._src.models.sam import joint, variational
from support.contract_case import Case


def small():
    vectors = np.abs(np.random.default_rng(0).normal(size=(6, 5)))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    documents = joint.to_device(sp.csr_array(vectors))
    mean = joint.mean_direction(sp.csr_array(vectors))
    hyper = joint.hyperparameters(mean, alpha=1.5, sigma=10, kappa0=10, kappa1=50)

    def built(step_size):
        options = {"hyper": hyper, "batch_size": 3, "learn_concentration": True}
        return variational.build(documents, (2, 5), step_size=step_size, **options)

    kernel, stream = built(0.1)
    start = jnp.array([[3.0, 2.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 2.0, 3.0]])
    return Case(kernel, start, stream, lambda step_size: built(step_size)[0])


# A variant, because its ascent ends within 1e-3 of a maximum, depending on rounding.
CASES = {"sam_vi batches": small}
