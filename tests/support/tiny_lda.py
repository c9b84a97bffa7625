"""LDA small enough to enumerate, and mutants of the library's code."""

import inspect
import itertools
import types
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy import special


def table(documents, num_words):
    """The count table [D, V] of documents given as lists of words."""
    counts = [np.bincount(np.asarray(d, int), minlength=num_words) for d in documents]
    return sp.csr_array(np.array(counts, np.int32))


def assignments(num_tokens, num_topics):
    """All assignments of tokens to topics, [K^N, N]; state s has the digits of s."""
    rows = list(np.ndindex((num_topics,) * num_tokens))
    return np.array(rows, int).reshape(len(rows), num_tokens)


def number(labels, num_topics):
    """The rows of `assignments` equal to the rows of labels; K^N if a label is no topic."""
    labels = np.asarray(labels, np.int64)
    row = np.ravel_multi_index(
        np.minimum(labels, num_topics - 1).T, (num_topics,) * labels.shape[1]
    )
    return np.where((labels < num_topics).all(axis=1), row, num_topics ** labels.shape[1])


def _log_polya(counts, concentration):
    """Log Dirichlet-multinomial weight of counts [..., K], for one order of the draws."""
    a = counts + concentration
    return special.gammaln(a).sum(axis=-1) - special.gammaln(a.sum(axis=-1))


def one_hot(labels, num_topics):
    return (np.asarray(labels)[..., None] == np.arange(num_topics)).astype(float)


def conditional(words, phi, alpha):
    """P(z | phi, alpha, words) of a document: all z [K^n, n] and their probabilities."""
    z = assignments(len(words), len(phi))
    log_p = _log_polya(one_hot(z, len(phi)).sum(axis=1), alpha)
    log_p += np.log(phi[z, words]).sum(axis=1)
    return z, special.softmax(log_p)


class Posterior(NamedTuple):
    """p(z, phi | words): all z [S, N], their probabilities; phi_k | z ~ Dirichlet(a), [S, K, V]."""

    words: np.ndarray
    starts: np.ndarray
    alpha: np.ndarray
    z: np.ndarray
    probabilities: np.ndarray
    a: np.ndarray


def posterior(corpus, alpha, beta):
    """Enumerate the posterior of a device corpus, with beta [V] or [K, V]."""
    words, starts = np.asarray(corpus.tokens), np.asarray(corpus.starts)
    alpha, beta = np.asarray(alpha), np.asarray(beta)
    z = assignments(len(words), len(alpha))
    hot = one_hot(z, len(alpha))
    a = beta + np.einsum("snk,nw->skw", hot, one_hot(words, beta.shape[-1]))
    log_p = _log_polya(a, 0).sum(axis=1)
    for first, last in itertools.pairwise(starts):
        log_p += _log_polya(hot[:, first:last].sum(axis=1), alpha)
    return Posterior(words, starts, alpha, z, special.softmax(log_p), a)


def log_dirichlet(rng, a):
    """Logs of Dirichlet draws, without underflow: Gamma(a) = Gamma(a + 1) U^(1 / a)."""
    log_gamma = np.log(rng.gamma(a + 1)) - rng.exponential(size=np.shape(a)) / a
    return special.log_softmax(log_gamma, axis=-1)


def draw(law, rng, size):
    """Exact draws of z [size, N] and log phi [size, K, V]."""
    s = rng.choice(len(law.z), size, p=law.probabilities)
    return law.z[s], log_dirichlet(rng, law.a[s])


def features(law, z, first, second, logs, beta):
    """Functions of (z, phi), linear in moments of the phi_k, which are independent given z.

    Args:
        law: The posterior; only its words, starts and alpha are used.
        z: Labels [n, N].
        first: phi or its mean given z, [n, 2, V].
        second: The same of phi_kw phi_kv, [n, 2, V, V].
        logs: The same of log phi, [n, 2, V].
        beta: Weights of the log phi, so that a word without tokens has unit variance.
    """
    num_tokens, num_words = z.shape[1], first.shape[-1]
    hot = one_hot(z, 2)
    values = {"log phi": (beta * logs).sum(axis=(1, 2))}
    for w in range(num_words):
        values["phi", w] = first[:, 0, w]
        values["squared difference", w] = (
            second[:, :, w, w].sum(axis=1) - 2 * first[:, 0, w] * first[:, 1, w]
        )
        for v in range(w):
            values["overlap", w, v] = second[:, :, w, v].sum(axis=1)
    for i in range(num_tokens):
        values["label", i] = hot[:, i, 0]
        values["likelihood", i] = (hot[:, i] * first[:, :, law.words[i]]).sum(axis=1)
        for j in range(i):
            values["together", i, j] = (hot[:, i] * hot[:, j]).sum(axis=1)
    theta = [
        law.alpha + hot[:, first:last].sum(axis=1) for first, last in itertools.pairwise(law.starts)
    ]
    theta = [t / t.sum(axis=1, keepdims=True) for t in theta]
    for d in range(len(theta)):
        for e in range(d):
            values["theta", d, e] = (theta[d] * theta[e]).sum(axis=1)
    return values


def exact(law, beta):
    """Posterior means of the features."""
    total = law.a.sum(axis=-1, keepdims=True)
    mean = law.a / total
    products = law.a[..., None] * (law.a[..., None, :] + np.eye(law.a.shape[-1]))
    second = products / (total * (total + 1))[..., None]
    logs = special.digamma(law.a) - special.digamma(total)
    values = features(law, law.z, mean, second, logs, beta)
    return {name: float(law.probabilities @ value) for name, value in values.items()}


def observed(law, z, log_phi, beta):
    """The features of draws."""
    log_phi = np.asarray(log_phi, np.float64)
    phi = np.exp(log_phi)
    second = phi[..., None] * phi[..., None, :]
    return features(law, np.asarray(z), phi, second, log_phi, beta)


def mutated(module, *pieces):
    """The module with pieces of its source, old and new in turn, replaced; classes stay its own."""
    source = inspect.getsource(module)
    for old, new in zip(pieces[::2], pieces[1::2], strict=True):
        assert source.count(old) == 1, f"{module.__name__} has no single {old!r} to mutate"
        source = source.replace(old, new)
    mutant = types.ModuleType("mutant")
    exec(compile(source, "mutant", "exec"), mutant.__dict__)
    vars(mutant).update({k: v for k, v in vars(module).items() if inspect.isclass(v)})
    return mutant
