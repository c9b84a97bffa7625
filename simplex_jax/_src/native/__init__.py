"""What the native code of the rooms shares: how it is loaded, its threads and its vectors."""

VARIABLE = "SIMPLEX_JAX_NATIVE"
"""The environment variable that switches native code off, if it is 0."""
