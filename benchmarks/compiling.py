"""Flags of XLA for quick runs and quick tests, which mostly compile."""

from simplex_jax._src.runtime.programs import TWO_GENERATORS

QUICK_FLAGS = "--xla_backend_optimization_level=0"
"""`XLA_FLAGS` that compile fast, without optimisation."""
if TWO_GENERATORS:
    QUICK_FLAGS += " --xla_cpu_use_fusion_emitters=false"
