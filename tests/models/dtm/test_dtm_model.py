"""The Gibbs sampler of topics in slices, against enumeration and by joint tests (Geweke 2004).

Chains start from draws of everything from the prior. Updates given the words, and new words given
labels and topics, leave their joint distribution alone. False-alarm rate: 1e-3 a test.
"""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import special, stats
from support import statistics_checks as checks
from support import tiny_lda

from simplex_jax._src import draws
from simplex_jax._src.models.dtm import model
from simplex_jax._src.models.dtm.model import Prior
from simplex_jax._src.models.topics.native import library
from simplex_jax._src.samplers import dirichlet_paths as paths

K, V = 2, 3
# A course of two slices, and a slice of its own; the documents of a slice are not side by side.
PARENTS, GAPS = np.array([-1, 0, -1]), np.array([1.0, 1.5, 1.0])
LENGTHS, PLACE = (3, 4, 2, 5, 3), np.array([0, 1, 0, 2, 1])
T = len(PARENTS)
COUNTS = tiny_lda.table([[0] * length for length in LENGTHS], V)
LAYOUT = model.lay_out(COUNTS, PLACE, T)


def slice_of_tokens(layout, slices):
    """Slice and document of every token, from the layout alone."""
    where, owner = np.zeros((2, len(layout.tokens)), int)
    for t in range(slices):
        for start, length, number in zip(*(np.asarray(x[t]) for x in layout[1:]), strict=True):
            where[start : start + length] = t
            owner[start : start + length] = number
    return where, owner


WHERE, OWNER = slice_of_tokens(LAYOUT, T)
PLACES = np.append(0, np.cumsum(np.diff(OWNER) != 0))  # documents in the order of the tokens
DEVIATION = 1.0
# The scale of the prior of m^-1/2 at which tiny documents tell something of m.
WIDE = ("_OWN_DEVIATION, _MOVES = 100.0, 0.1,", f"_OWN_DEVIATION, _MOVES = 100.0, {DEVIATION},")
ALPHA, BETA = Prior(0.8, 4.0), Prior(0.6, 4.0)


def built(alpha=ALPHA, beta=BETA, **options):
    kernel, _ = model.build(
        LAYOUT, (K, V), GAPS, PARENTS, alpha=alpha, beta=beta, engine="xla", **options
    )
    return jax.tree.map(jnp.asarray, kernel.update.args[0])


def test_documents_are_laid_out_by_slice():
    counts = tiny_lda.table([[0, 1, 1], [2], [], [1, 2]], V)
    layout = model.lay_out(counts, np.array([1, 0, 1, 1]), 3)
    assert np.asarray(layout.tokens).tolist() == [2, 1, 2, 0, 1, 1]
    assert np.asarray(layout.lengths).tolist() == [[1, 0, 0], [0, 2, 3], [0, 0, 0]]
    assert np.asarray(layout.ids)[1].tolist() == [2, 3, 0]
    # Starts and the end of a slice delimit its documents.
    assert np.asarray(layout.starts).tolist() == [[0, 1, 1], [1, 1, 3], [6, 6, 6]]


def gamma_of(key, prior):
    return jnp.exp(draws.loggamma(key, prior.shape)) * prior.mean / prior.shape


def path_of(key, beta, size, made, number):
    """A draw of paths [number, T, size] and all that they depend on."""
    keys = jax.random.split(key, 4)
    mean, sd = made["pace_prior"]
    u = jax.random.uniform(keys[0], (number,), minval=1e-6, maxval=1 - 1e-6)
    c = (made["deviation"] * jnp.tan(0.5 * math.pi * u)) ** -2
    r = jnp.exp(mean + sd * jax.random.normal(keys[1], (number,)))
    base = draws.log_dirichlet(keys[2], jnp.full((number, size), beta))
    rows = []
    for t, parent in enumerate(PARENTS):
        q, w = jnp.exp(base), 1.0
        if parent >= 0:
            stays = jnp.exp(-r * GAPS[t])[:, None]
            q, w = stays * jnp.exp(rows[parent]) + (1 - stays) * q, -1 / jnp.expm1(-2 * r * GAPS[t])
        shapes = jnp.maximum((c * w)[:, None] * q, 1e-12)
        rows.append(draws.log_dirichlet(jax.random.fold_in(keys[3], t), shapes))
    return base, c, r, jnp.maximum(jnp.stack(rows, axis=1), -1e12)


def own_of(key):
    """A draw of m, in its range."""
    least, most = model.OWN_RANGE
    ends = [2 / math.pi * math.atan(m**-0.5 / DEVIATION) for m in (most, least)]
    u = jax.random.uniform(key, minval=ends[0], maxval=ends[1])
    return (DEVIATION * jnp.tan(0.5 * math.pi * u)) ** -2


def worded(key, state):
    """New words given labels, and the state with both in the order of the words."""
    key_own, key_words = jax.random.split(key)
    shapes = jnp.maximum(state.own * jnp.exp(state.position[:, PLACE]), 1e-12)
    topics = draws.log_dirichlet(key_own, shapes)  # of each document, [K, D, V]
    labels = state.labels.astype(int)
    words = jax.random.categorical(key_words, topics[labels, OWNER]).astype(jnp.int32)
    _, words, labels = jax.lax.sort((jnp.asarray(PLACES), words, state.labels), num_keys=2)
    return words, state._replace(labels=labels, counts=counts_of(labels, words))


def counts_of(labels, words):
    return jnp.zeros((K, T, V), jnp.int32).at[labels.astype(int), WHERE, words].add(1)


def joint(made, key):
    """A draw of everything from the prior."""
    keys = jax.random.split(key, 8)
    total, beta = K * gamma_of(keys[0], ALPHA), gamma_of(keys[1], BETA)
    base, c, r, position = path_of(keys[2], beta, V, made.paths, K)
    own = path_of(keys[3], 1.0, K, made.paths, 1)
    prevalence = own[3][0]
    shapes = jnp.maximum(total * jnp.exp(prevalence), 1e-12)
    shares = draws.log_dirichlet(keys[4], shapes[PLACE])
    labels = jax.random.categorical(keys[5], shares[OWNER]).astype(jnp.uint8)
    state = model.State(
        position,
        jnp.int32(0),
        base,
        c,
        r,
        paths.State(prevalence, own[0][0], own[1][0], own[2][0], jnp.int32(0)),
        total,
        beta,
        own_of(keys[7]) if made.learn_own else made.own,
        labels,
        jnp.zeros((K, T, V), jnp.int32),
    )
    return worded(keys[6], state)


@functools.partial(jax.jit, static_argnames=("update", "turns"))
def successive(update, made, keys, turns):
    """Alternate updates and new words, in all chains."""

    def chain(key):
        def turn(i, carry):
            words, state = carry
            key_update, key_words = jax.random.split(jax.random.fold_in(key, i))
            state, _ = update(made, key_update, state, LAYOUT._replace(tokens=words))
            return worded(key_words, state)

        return jax.lax.fori_loop(0, turns, turn, joint(made, jax.random.fold_in(key, turns)))

    return jax.vmap(chain)(keys)


def features(words, state):
    words, labels = np.asarray(words), np.asarray(state.labels).astype(int)
    p, rho = (
        np.exp(np.asarray(state.position, float)),
        np.exp(np.asarray(state.prevalence.position, float)),
    )
    values = {
        **{"total": state.total, "log total": np.log(state.total)},
        **{"beta": state.beta, "log beta": np.log(state.beta)},
        "log c": np.log(state.steadiness)[:, 0],
        "log r": np.log(state.pace)[:, 0],
        "log C": np.log(state.prevalence.concentration),
        "log R": np.log(state.prevalence.pace),
        "log m": np.log(state.own),
    }
    for s, t in itertools.combinations_with_replacement(range(T), 2):
        values["topics", s, t] = (p[:, 0, s] * p[:, 0, t]).sum(axis=1)
        values["apart", s, t] = (p[:, 0, s] * p[:, 1, t]).sum(axis=1)
        values["prevalence", s, t] = (rho[:, s] * rho[:, t]).sum(axis=1)
        values["prevalence and total", s, t] = (rho[:, s] * rho[:, t]).sum(axis=1) * np.log(
            state.total
        )
    for i in range(0, len(WHERE), 2):
        at = np.arange(len(words)), labels[:, i], WHERE[i]
        values["share", i] = rho[np.arange(len(words)), WHERE[i], labels[:, i]]
        values["fit", i] = p[at][np.arange(len(words)), words[:, i]]
        for j in range(1, len(WHERE), 3):
            together = labels[:, i] == labels[:, j]
            values["together", i, j] = together
            values["same", i, j] = same = together * (words[:, i] == words[:, j])
            values["same and m", i, j] = same * np.log(state.own)
    return {name: np.asarray(value, np.float64) for name, value in values.items()}


def rejected(getkey, *mutant, chains=6_000, turns=4, **changed):
    made = built(**changed)
    update = tiny_lda.mutated(model, *WIDE, *mutant)._update_chains
    seen = features(*successive(update, made, jax.random.split(getkey(), chains), turns))
    own = {name: value for name, value in changed.items() if name == "own"}
    draw = jax.jit(jax.vmap(functools.partial(joint, built(**own))))
    expected = features(*draw(jax.random.split(getkey(), 3 * chains)))
    p_values = {}
    for name, value in seen.items():
        variance = value.var() + expected[name].var() / 3
        if variance > 0:
            p_values[name] = checks.mean_z(value, expected[name].mean(), variance)
    return checks.family(p_values)


# Documents have the topics of their slice, up to rounding: then words tell most of the topics.
AS_SLICES = 1e9


@pytest.mark.slow
@pytest.mark.parametrize("own", ["learn", AS_SLICES])
def test_updates_and_words_together_keep_the_prior(own, getkey):
    assert not rejected(getkey, own=own)
    assert rejected(getkey, beta=Prior(0.8, 4.0), own=own)


BURSTS = {
    "tokens in place of word tables": (
        "counts = tables.astype(dtype)",
        "counts = state.counts.astype(dtype)",
    ),
    "labels without bursts": (
        "bursts=bursts,\n        )\n        return (swept",
        ")\n        return (swept",
    ),
    "m without its ranks": ("ranks * change", "0 * change"),
    "m of the tokens": ("excess = tables", "excess = 0.9 * tables"),
}
MUTANTS = {
    "topics of the wrong slice": ("position[:, t],", "position[:, 0],"),
    "prevalence of the wrong slice": (
        "alpha[t],\n            layout",
        "alpha[0],\n            layout",
    ),
    "tokens in place of tables": (
        "draws.crt(key, alpha[t][:, None], counts).sum(axis=1)",
        "counts.sum(axis=1)",
    ),
    "tables not passed on": (
        "state.prevalence, tables, beta=_GAMMA",
        "state.prevalence, jnp.zeros_like(tables), beta=_GAMMA",
    ),
    "tables counted thrice": ("common, tables.T)", "common, 3 * tables.T)"),
    "counts of before": (
        "topics, info = paths.update(keys[5], path, counts",
        "topics, info = paths.update(keys[5], path, jnp.roll(counts, 1, axis=1)",
    ),
    "prior of the mean": ("Prior(number * jnp.asarray(prior.mean), prior.shape)", "prior"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*MUTANTS, *BURSTS])
def test_planted_bugs_are_seen(name, getkey):
    own = AS_SLICES if name in MUTANTS else "learn"
    # Twice the chains: of 6,000, a p-value of topics of the wrong slice may be as large as 3e-7.
    assert rejected(getkey, *(MUTANTS | BURSTS)[name], own=own, chains=12_000)


def test_m_of_many_tokens_has_its_distribution(getkey):
    """Numbers of tokens multiply what float32 rounds in a move."""
    m, rank = 103.7, np.arange(60)
    ranks = (6e7 * np.exp(-rank / 15)).astype(np.int64)  # of nearly 10^9 tokens
    excess = round(-(ranks * rank / (m + rank)).sum())  # m is about the mode
    # The prior is flat there.
    log_m = math.log(m) + np.linspace(-1e-3, 1e-3, 4_001)
    log_p = excess * (log_m - math.log(m)) - np.log1p(rank / np.exp(log_m)[:, None]) @ ranks
    cumulative = np.cumsum(special.softmax(log_p))

    def moved(key):
        def move(i, own):
            return model._move_own(jax.random.fold_in(key, i), own, *given)

        return jax.lax.fori_loop(0, 300, move, jnp.float32(m))

    given = jnp.int32(ranks.sum() + excess), jnp.asarray(ranks, jnp.int32)
    drawn = np.asarray(jax.jit(jax.vmap(moved))(jax.random.split(getkey(), 400)), float)
    assert stats.kstest(np.interp(np.log(drawn), log_m, cumulative), "uniform").pvalue > 1e-3


def stirling(n, most):
    """Unsigned numbers of the first kind: of n customers, how many tables."""
    row = np.zeros(most + 1)
    row[0] = 1
    for i in range(n):
        row = np.append(0, row[:-1]) + i * row
    return row


def expanded(x, total):
    """E prod p^x for p ~ Dirichlet(total q), as a sum over tables m of prod q^m: {m: weight}."""
    lead = math.exp(special.gammaln(total) - special.gammaln(total + sum(x)))
    sums = {}
    for tables in itertools.product(*(range(n + 1) for n in x)):
        weight = lead * math.prod(
            stirling(n, n)[m] * total**m for n, m in zip(x, tables, strict=True)
        )
        if weight:
            sums[tables] = weight
    return sums


def along(weights, c, stays, w, base):
    """E sum weight prod p_1^x1 prod p_2^x2 along a path of two, whose base is Dirichlet(base)."""
    at_base = {}
    for (x1, x2), weight in weights.items():
        for tables, seated in expanded(x2, c * w).items():
            for own in itertools.product(*(range(n + 1) for n in tables)):
                passed = math.prod(
                    math.comb(n, i) * stays**i * (1 - stays) ** (n - i)
                    for n, i in zip(tables, own, strict=True)
                )
                first = tuple(a + b for a, b in zip(x1, own, strict=True))
                rest = tuple(n - i for n, i in zip(tables, own, strict=True))
                for more, factor in expanded(first, c).items():
                    key = tuple(a + b for a, b in zip(more, rest, strict=True))
                    at_base[key] = at_base.get(key, 0) + weight * seated * passed * factor
    size = len(next(iter(at_base)))
    return sum(
        weight
        * math.exp(
            sum(special.gammaln(base + m) - special.gammaln(base) for m in key)
            + special.gammaln(size * base)
            - special.gammaln(size * base + sum(key))
        )
        for key, weight in at_base.items()
    )


def added(sums, rows, t):
    """Add tables {m: weight} to those of slice t in {(x1, x2): weight}."""
    result = {}
    for tables, so_far in sums.items():
        for more, factor in rows.items():
            moved = tuple(i + j for i, j in zip(tables[t], more, strict=True))
            key = (moved, tables[1]) if t == 0 else (tables[0], moved)
            result[key] = result.get(key, 0) + so_far * factor
    return result


@pytest.mark.parametrize("own", [None, 1.5])
@pytest.mark.parametrize("engine", ["native", pytest.param("xla", marks=pytest.mark.slow)])
def test_labels_have_their_enumerated_distribution(engine, own, getkey):
    """Two slices, two topics, three words, five tokens; concentrations are given."""
    texts, place = [[0, 1], [2], [0, 0]], np.array([0, 1, 1])
    c, pace, a, beta = 3.0, 0.7, 1.6, 0.5
    layout = model.lay_out(tiny_lda.table(texts, V), place, 2)
    _, owner = slice_of_tokens(layout, 2)
    words = np.asarray(layout.tokens)
    z = tiny_lda.assignments(len(words), K)
    stays, w = math.exp(-pace * 2.0), 1 / -math.expm1(-2 * pace * 2.0)
    log_p = []
    for labels in z:
        weight = 1.0
        for k in range(K):
            x = {((0,) * V, (0,) * V): 1.0}
            for d, t in enumerate(place):
                n = tuple(np.bincount(words[(owner == d) & (labels == k)], minlength=V).tolist())
                x = added(x, {n: 1.0} if own is None else expanded(n, own), t)
            weight *= along(x, c, stays, w, beta)
        shares = {((0,) * K, (0,) * K): 1.0}
        for d, t in enumerate(place):
            n = np.bincount(labels[owner == d], minlength=K)
            shares = added(shares, expanded(tuple(n), a), t)
        log_p.append(math.log(weight * along(shares, c, stays, w, 1.0)))
    exact = special.softmax(log_p)

    if engine == "native" and not library.works():
        pytest.skip("the native library is not built")
    kernel, _ = model.build(
        layout,
        (K, V),
        [1.0, 2.0],
        [-1, 0],
        **{"alpha": a / K, "beta": beta, "steadiness": c, "pace": pace, "own": own},
        engine=engine,
    )

    def chain(key):
        state = kernel.init(key, jnp.ones((K, V)))

        def step(i, state):
            return kernel.update(jax.random.fold_in(key, i), state, layout)[0]

        return jax.lax.fori_loop(0, 25, step, state).labels

    # Native code takes chains in turn.
    chains = 20_000 if engine == "xla" else 1_000
    labels = jax.jit(jax.vmap(chain))(jax.random.split(getkey(), chains))
    seen = np.bincount(tiny_lda.number(labels, K), minlength=len(z) + 1)
    assert not seen[-1]
    assert checks.chi_square(seen[:-1], exact) > 1e-3
    assert checks.chi_square(seen[:-1], np.full(len(z), 1 / len(z))) < 1e-6


def test_a_sweep_counts_and_static_slices_are_equal(getkey):
    rng = np.random.default_rng(0)
    counts = sp.csr_array(rng.poisson(0.8, (30, 6)).astype(np.int32))
    place = rng.integers(0, 4, 30)
    layout = model.lay_out(counts, place, 5)  # and a slice without documents
    kernel, _ = model.build(layout, (3, 6), np.ones(5), np.arange(-1, 4), static=3, chains=2)
    state = kernel.init(getkey(), jnp.asarray(rng.dirichlet(np.ones(6), (2, 3))))
    update = jax.jit(kernel.update)
    where, _ = slice_of_tokens(layout, 5)
    for i in range(6):
        state, info = update(getkey(), state, layout)
        for chain in range(2):
            expected = np.zeros((3, 5, 6), int)
            labels = np.asarray(state.labels)[chain].astype(int)
            np.add.at(expected, (labels, where, np.asarray(layout.tokens)), 1)
            assert (np.asarray(state.counts)[chain] == expected).all()
            assert (np.asarray(info.tokens)[chain] == expected.sum(axis=2).T).all()
        equal = bool((state.position == state.position[:, :, :1]).all())
        assert equal == (i < 3)
    assert np.isfinite(np.asarray(state.position)).all()
    assert (np.asarray(state.step) == 6).all()
