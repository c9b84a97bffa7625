"""Other inference for LDA, to compare the samplers with: the same corpus, kernels and evaluation.

`collapsed_gibbs` is exact; `online_vb`, `hybrid` and `scvb0` follow a variational posterior by
stochastic steps. Each has `build(corpus, shape, ...) -> (kernel, stream)` and the state of
`models.lda`, whose position is the logarithm of the estimated topics, [K, V].
"""
