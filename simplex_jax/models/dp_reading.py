"""What the states of a Dirichlet-process mixture say."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp

from simplex_jax.base import PyTree
from simplex_jax.models import dp_families, dp_labels
from simplex_jax.models.dp_families import Family
from simplex_jax.models.dp_state import Info, Mixture, State


def occupied(state: State) -> jax.Array:
    """Return the number of clusters with rows, int32; leading axes, as of chains, are kept."""
    return jnp.sum(state.occupancy > 0, axis=-1, dtype=jnp.int32)


def labels_of(state: State, info: Info) -> jax.Array:
    """Keep the labels of all rows: a `collect` of `run`."""
    del info
    return state.labels


def log_predictive(family: Family, mixture: Mixture, rows: PyTree) -> jax.Array:
    r"""Return the log predictive density of each row under the mixture of a state, [n].

    It is :math:`\log \big( \sum_{j \le C} w_j f(x \mid \theta_j) + w_{> C} \int f(x \mid \theta)\,
    dG_0(\theta) \big)`: what the sticks beyond the C at hand weigh is predicted by the prior, of
    which their atoms are draws. Factors that the family leaves out are left out.

    Args:
        family: The law of the components.
        mixture: The position of a state, without an axis of chains.
        rows: Any rows that the family takes.
    """
    size, capacity = dp_families.size(rows), mixture.log_weights.shape[0]
    at_once = dp_labels.rows_at_once(capacity, size)
    parts = dp_labels.in_parts(jnp.arange(size, dtype=jnp.int32), at_once, size)

    def part(ids: jax.Array) -> jax.Array:
        mine = dp_families.take(rows, ids)
        inside = logsumexp(family.log_likelihood(mine, mixture.atoms) + mixture.log_weights, axis=1)
        return jnp.logaddexp(inside, mixture.log_rest + family.log_predictive(mine))

    return lax.map(part, parts).ravel()[:size]
