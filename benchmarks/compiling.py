"""How quick runs and quick tests compile: in as little time as can be, which is most of theirs."""

from importlib.metadata import version

QUICK_FLAGS = "--xla_backend_optimization_level=0"
"""`XLA_FLAGS` that compile without optimisation, in a quarter to three quarters of the time."""
# Later versions do not know this flag, and end at an unknown one.
if tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11):
    QUICK_FLAGS += " --xla_cpu_use_fusion_emitters=false"
