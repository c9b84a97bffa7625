"""Runs of the command line that are cut short by a signal at a known step."""

import os

from simplex_jax.runtime.hooks import MetricsLog


def cut(number: int, step: int) -> type[MetricsLog]:
    """A metrics log, for `cli.runs`, that sends this process a signal once a step is logged."""

    class Cut(MetricsLog):
        def __call__(self, event):
            super().__call__(event)
            if event.step >= step:
                os.kill(os.getpid(), number)

    return Cut
