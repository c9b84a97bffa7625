"""Flags of XLA for quick runs and quick tests, which mostly compile."""

from importlib.metadata import version

QUICK_FLAGS = "--xla_backend_optimization_level=0"
"""`XLA_FLAGS` that compile fast, without optimisation."""
# Later versions do not know this flag, and end at an unknown one.
if tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11):
    QUICK_FLAGS += " --xla_cpu_use_fusion_emitters=false"
