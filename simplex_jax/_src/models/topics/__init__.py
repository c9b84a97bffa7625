"""Shared code for topic models of counts: documents, local step, concentrations, proportions."""
