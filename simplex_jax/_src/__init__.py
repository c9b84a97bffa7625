"""The implementation, which is private: what users need is in the modules of `simplex_jax`."""
