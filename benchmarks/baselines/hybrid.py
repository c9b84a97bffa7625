"""Hybrid stochastic variational-Gibbs inference for LDA (Mimno, Hoffman and Blei 2012)."""

from typing import NamedTuple

from jax.typing import ArrayLike

from baselines import natural, online_vb
from simplex_jax._src.base import Kernel
from simplex_jax._src.batches import Stream
from simplex_jax._src.corpus import device
from simplex_jax._src.corpus.device import DeviceCorpus
from simplex_jax._src.models.lda import kernel as lda_kernel
from simplex_jax._src.models.lda import model as lda
from simplex_jax._src.models.lda.kernel import Info, State
from simplex_jax._src.schedules import StepSize

__all__ = ["TEN_SWEEPS", "Info", "State", "build"]


class Local(NamedTuple):
    """How labels are drawn, by the names of `lda.build`."""

    local: str = "collapsed"
    sweeps: int = 1
    burn_in: int = 0


TEN_SWEEPS = Local(sweeps=10, burn_in=5)


def build(
    corpus: DeviceCorpus,
    shape: tuple[int, int],
    *,
    alpha: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    local_step: Local = TEN_SWEEPS,
    step_size: StepSize | None = None,
    batch_size: int = 64,
) -> tuple[Kernel, Stream]:
    r"""Return the kernel of hybrid variational-Gibbs LDA, and its stream of batches.

    Topics have the variational posterior Dirichlet(lambda_k). Given it, the best posterior of the
    labels of a document of a batch, proportions integrated out, is not factorised but sampled:

    .. math::
        P(z_{di} = k) \propto (\alpha_k + n_{dk}^{-di})
            \exp(\psi(\lambda_{kw}) - \psi(\lambda_{k.})), \qquad
        \lambda \leftarrow (1 - \rho) \lambda + \rho \Big(\beta + \frac{D}{|B|} \bar n\Big)

    with the mean counts of the sweeps after the burn-in (Mimno et al. 2012). Start and default step
    size are those of `online_vb`, into whose code Patterson and Teh (2013) put this local step.
    Six to ten sweeps are reported to be enough.

    Args:
        corpus: The corpus, `device.to_device(counts)`.
        shape: (K, V), numbers of topics and words.
        alpha: Concentration of topic proportions, per topic, a scalar or [K]; by default 1 / K.
        beta: Concentration of topics, per word, a scalar, [V] or [K, V]; by default 1 / K.
        local_step: The local step.
        step_size: rho, above 0 and at most 1, or a schedule of it; by default that of `online_vb`.
        batch_size: Documents a batch, cut to those that there are.

    Returns:
        A kernel whose `init` takes topics [K, V], to which noise is given, and whose position is
        the logarithm of the mean topics, lambda normalised; and a stream of uniform batches of
        distinct documents. The weights are `state.sampler.weights`.

    Raises:
        ValueError: An argument is out of range.

    Example:
        >>> import jax, jax.numpy as jnp, scipy.sparse as sp
        >>> from simplex_jax import run
        >>> from simplex_jax._src.corpus import device
        >>> from baselines import hybrid
        >>> counts = sp.csr_array([[3, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 2]])
        >>> kernel, stream = hybrid.build(device.to_device(counts), (2, 4), step_size=0.1)
        >>> state = kernel.init(jax.random.key(0), jnp.ones((2, 4)))
        >>> state, _ = run(jax.random.key(1), kernel, state, stream, num_steps=50)
        >>> jnp.exp(state.position).sum(axis=1).round(3).tolist()
        [1.0, 1.0]
    """
    shape = natural.check_shape(shape, corpus)
    batch_size = natural.batch_size_of(batch_size, corpus)
    config = lda.configure(
        shape,
        **online_vb.concentrations(alpha, beta, shape),
        counts="subsampled",
        batch_size=batch_size,
        **local_step._asdict(),
    )
    counts = lda_kernel.counts_of(lda_kernel.source_of(corpus, config))
    if step_size is None:
        step_size = online_vb.default_step_size()
    kernel = natural.kernel(counts, config, step_size, shape, natural.geometric)
    return kernel, device.uniform_stream(corpus, batch_size)
