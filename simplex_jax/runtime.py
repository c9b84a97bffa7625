"""Hooks of `simplex_jax.run`, and several processes that share a run.

A hook is a function, or a `Hook`, that is called after every chunk with an event, which has `step`,
the number of updates done; `first_step` and `last_step` of the run; `state`; `info`, that of the
last update; `seconds`, the time spent in updates, and `compile_seconds`; and `metrics`, a dict of
numbers for later hooks: an evaluation writes them, `Progress` shows, `MetricsLog` records and
`EarlyStop` watches them. The run ends if a hook returns True.
"""

from simplex_jax._src.runtime.hooks import EarlyStop, Equilibrium, Hook, MetricsLog, Progress
from simplex_jax._src.runtime.processes import is_first, join

__all__ = ["EarlyStop", "Equilibrium", "Hook", "MetricsLog", "Progress", "is_first", "join"]


def __dir__() -> list[str]:
    return __all__
