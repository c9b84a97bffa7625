"""Methods that the library does not have, to compare its samplers with.

`plmc`, `myula`, `reflected_cir` and `rld` are samplers like those of `simplex_jax.samplers`, from
the papers; `convex`, `parameterisations`, `step_rules` and `transitions` are what they need. For
LDA, `collapsed_gibbs` is exact; `online_vb`, `hybrid` and `scvb0` follow a variational posterior by
stochastic steps. Each of those has `build(corpus, shape, ...) -> (kernel, stream)` and the state of
`models.lda`, whose position is the logarithm of the estimated topics, [K, V].
"""
