"""Evaluation of fitted models: diagnostics, coherence, comparisons, plots and exports."""
