"""Rows that plates make independent: which are proved to be, and the law of their moves."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC
from support import numpyro_cases as cases
from support.statistics_checks import dkwm, family

from simplex_jax._src.numpyro import density, rows, sites
from simplex_jax._src.numpyro.density import Target
from simplex_jax._src.numpyro.scir import SCIR

SIZE = 3
GAMMA = dist.Gamma(0.5, 1.0)
WEIGHTS = dist.Dirichlet(jnp.full(4, 0.5))


def poisson(mean, y=1.0):
    numpyro.sample("y", dist.Poisson(mean), obs=jnp.full(jnp.shape(mean), y))


def in_plate(law, likelihood):
    """A model of a site in a plate, and a likelihood in the same plate."""

    def model():
        with numpyro.plate("plate", SIZE):
            likelihood(numpyro.sample("site", law))

    return model


def beside_plate(law, likelihood):
    """The same with a likelihood outside of the plate."""

    def model():
        with numpyro.plate("plate", SIZE):
            site = numpyro.sample("site", law)
        likelihood(site)

    return model


def scaled(rate):
    """The next level has the site in its prior."""
    poisson(numpyro.sample("next", dist.Gamma(2.0, rate)))


def pairs(turned=False):
    """Two plates; `turned`, the likelihood takes one for the other."""

    def model():
        one, other = numpyro.plate("one", SIZE, dim=-2), numpyro.plate("other", SIZE, dim=-1)
        with one:
            site = numpyro.sample("site", GAMMA)
        with one, other:
            poisson((site.T if turned else site) * jnp.ones((SIZE, SIZE)))

    return model


def product():
    with numpyro.plate("one", SIZE, dim=-2), numpyro.plate("other", SIZE + 1, dim=-1):
        site = numpyro.sample("site", GAMMA)
        poisson(site + site.sum(axis=0))


def enumerated():
    with numpyro.plate("plate", SIZE):
        site = numpyro.sample("site", WEIGHTS)
        z = numpyro.sample("z", dist.Categorical(site), infer={"enumerate": "parallel"})
        numpyro.sample("y", dist.Normal(1.0 * z, 1.0), obs=jnp.ones(SIZE))


ORDER, LABELS, COUNTS = jnp.array([1, 2, 0]), jnp.array([0, 2, 1]), jnp.ones((SIZE, 4), int)
VECTOR = GAMMA.expand([4]).to_event(1)
PARTS = dist.Normal(jnp.arange(4.0), 1.0)
# The dimensions of the plates whose rows are independent.
MODELS = {
    "each its own": (in_plate(GAMMA, lambda x: poisson(2 * x + 1)), {-1}),
    "a matrix of factors": (in_plate(VECTOR, lambda x: poisson(x @ jnp.ones(4))), {-1}),
    "factors on the left": (in_plate(VECTOR, lambda x: poisson(jnp.ones(4) @ x.T)), {-1}),
    "categories": (
        in_plate(WEIGHTS, lambda p: numpyro.sample("y", dist.Categorical(p), obs=LABELS)),
        {-1},
    ),
    "logits": (
        in_plate(
            WEIGHTS, lambda p: numpyro.sample("y", dist.Categorical(logits=jnp.log(p)), obs=LABELS)
        ),
        {-1},
    ),
    "counts": (
        in_plate(WEIGHTS, lambda p: numpyro.sample("y", dist.Multinomial(4, p), obs=COUNTS)),
        {-1},
    ),
    "mixtures": (
        in_plate(
            WEIGHTS,
            lambda p: numpyro.sample(
                "y", dist.MixtureSameFamily(dist.Categorical(p), PARTS), obs=jnp.ones(SIZE)
            ),
        ),
        {-1},
    ),
    "sorted within": (in_plate(VECTOR, lambda x: poisson(jnp.sort(x)[..., 0] + x[..., 2])), {-1}),
    "the next level": (in_plate(GAMMA, scaled), {-1}),
    "a factor of each": (in_plate(GAMMA, lambda x: numpyro.factor("y", -(x**2))), {-1}),
    "one factor": (in_plate(GAMMA, lambda x: numpyro.factor("y", -(x.sum() ** 2))), set()),
    "nothing else": (beside_plate(GAMMA, lambda x: numpyro.factor("y", 1.0)), {-1}),
    "one factor outside": (beside_plate(GAMMA, lambda x: numpyro.factor("y", -x.sum())), set()),
    "an event outside": (
        beside_plate(
            GAMMA, lambda x: numpyro.sample("y", dist.Poisson(x).to_event(1), obs=jnp.ones(SIZE))
        ),
        set(),
    ),
    "no plate outside": (beside_plate(GAMMA, poisson), {-1}),
    "backwards": (in_plate(GAMMA, lambda x: poisson(x[::-1])), set()),
    "neighbours": (in_plate(GAMMA, lambda x: poisson(x + jnp.roll(x, 1))), set()),
    "other rows": (in_plate(GAMMA, lambda x: poisson(x[ORDER])), set()),
    "sums so far": (in_plate(GAMMA, lambda x: poisson(jnp.cumsum(x))), set()),
    "about the mean": (in_plate(GAMMA, lambda x: poisson(x / x.mean())), set()),
    "sorted": (in_plate(GAMMA, lambda x: poisson(jnp.sort(x))), set()),
    "a full matrix": (in_plate(GAMMA, lambda x: poisson(jnp.ones((SIZE, SIZE)) @ x)), set()),
    "an element": (in_plate(GAMMA, lambda x: poisson(x + x[0])), set()),
    "a scan": (
        in_plate(GAMMA, lambda x: poisson(jax.lax.scan(lambda s, r: (s + r, s), 1.0, x)[1])),
        set(),
    ),
    "two plates": (pairs(), {-2}),
    "the wrong plate": (pairs(turned=True), set()),
    "one plate of two": (product, {-1}),
    "enumerated": (enumerated, set()),
}


def target(model):
    """A model as kernels see it, with native values of its sites. Nothing is compiled."""
    key, layouts = jax.random.key(0), []

    def drawn(key):
        layout, values = sites.inspect(model, key, (), {}, None)
        layouts.append(layout)
        return values

    shapes = jax.eval_shape(drawn, key)
    (layout,) = layouts
    levels = {
        name: 0.0 if kind == sites.GAMMA else -np.log(4) for name, kind in layout.kinds.items()
    }
    native = {name: jnp.full(x.shape, levels[name], x.dtype) for name, x in shapes.items()}
    return Target(model, layout, (), {}, key), native


@pytest.mark.parametrize("name", MODELS)
def test_what_is_independent_is_proved(name) -> None:
    if name == "enumerated":
        pytest.importorskip("funsor")
    model, wanted = MODELS[name]
    result = rows.independent(*target(model), "site")
    assert {dim for dim, _ in result.plates} == wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a matrix of factors", "mixtures", "sorted within", "two plates"])
def test_other_rows_stay_what_they_are(name) -> None:
    """What was proved, by numbers: a row changes its own sum of terms alone, and that as all do."""
    shown, native = target(MODELS[name][0])
    apart = rows.independent(shown, native, "site")
    (dim, size), y = apart.plates[0], native["site"]
    axis = apart.axis(dim)
    evaluate = jax.jit(lambda y: density.evaluate(shown, {"site": y}, rows={"site": apart}))
    before = evaluate(y)
    for row in range(size):
        other = y + jax.random.normal(jax.random.key(row), y.shape)
        other = other if name != "mixtures" else jax.nn.log_softmax(other)
        own = (jnp.arange(size) == row).reshape([-1 if i == axis else 1 for i in range(y.ndim)])
        after = evaluate(jnp.where(own, other, y))
        change = np.asarray(after.without("site") - before.without("site"))
        assert (change != 0).any(axis=tuple(i for i in range(y.ndim) if i != axis)).sum() == 1
        np.testing.assert_allclose(change.sum(), after.others - before.others, atol=1e-4)


# Rows with the data of `cases`, and some with others.
GROUPS = 8
POINTS = np.stack([cases.POINTS] * 2 + [np.full(30, 3.0)] * (GROUPS - 2)).astype(np.float32)
SUMS = np.array([[3, 0]] * (GROUPS - 1) + [[6, 2]])
FACTORS = jnp.array([[1.0, 2.0], [1.0, 0.2]])


def mixtures(x):
    """`cases.mixture` in each group."""
    with numpyro.plate("groups", len(x), dim=-2):
        w = numpyro.sample("w", dist.Dirichlet(jnp.full(3, cases.ALPHA)))
        with numpyro.plate("rows", x.shape[1], dim=-1):
            parts = dist.Normal(cases.CENTRES, 1.0)
            numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(w), parts), obs=x)


def sums(y):
    """`cases.sums` in each group."""
    with numpyro.plate("groups", len(y)):
        r = numpyro.sample("r", dist.Gamma(jnp.array([0.5, 2.0]), 1.0).to_event(1))
        numpyro.sample("y", dist.Poisson(r @ FACTORS.T).to_event(1), obs=y)


def coupled(y):
    """`cases.sums` with a plate whose rows the likelihood ties together."""
    with numpyro.plate("rows", len(y)):
        r = numpyro.sample("r", dist.Gamma(jnp.array([0.5, 2.0]), 1.0))
        numpyro.sample("y", dist.Poisson(FACTORS @ r), obs=y)


def p_values(model, key) -> dict[object, float]:
    """P-values of what should be uniform, row by row.

    Steps of gamma sites are long and not adapted: short ones would make up for a wrong ratio.
    """
    kernel, run = SCIR(model, 3.0), {"num_warmup": 0, "num_samples": 40}
    if model is mixtures:
        last, mcmc = cases.ends(SCIR(model), key, POINTS)
        site = mcmc.last_state.tuning["w"]
        result = {group: cases.mixture_uniform(last["w"][:, group, 0]) for group in range(2)}
    elif model is sums:
        last, mcmc = cases.ends(kernel, key, SUMS, **run)
        site = mcmc.last_state.tuning["r"]
        result = {g: cases.sums_uniform(last["r"][:, g], SUMS[g]) for g in (0, GROUPS - 1)}
    else:
        last, mcmc = cases.ends(kernel, key, SUMS[0], **run)
        site = mcmc.last_state.tuning["r"]
        result = {"rows": cases.sums_uniform(last["r"], SUMS[0])}
    assert not site.exact.any()
    return {name: dkwm(u, lambda x: np.clip(x, 0, 1)) for name, u in result.items()}


@pytest.mark.slow
@pytest.mark.parametrize("model", [mixtures, sums, coupled])
def test_rows_have_their_laws(model, getkey) -> None:
    """The ends of 1,500 chains; those of rows that are tied together as well."""
    assert not family(p_values(model, getkey()))


@pytest.mark.slow
def test_the_ratio_of_all_rows_is_seen(getkey, monkeypatch) -> None:
    """A mutant: every row is judged by the ratio of all of them."""

    def total(rows, numbers):
        return jnp.broadcast_to(numbers.sum(), rows.shape)

    monkeypatch.setattr(sites.Rows, "sums", total)
    monkeypatch.setattr(sites.Rows, "sums_of_term", total)
    assert family(p_values(sums, getkey()))


@pytest.mark.slow
def test_a_missed_dependence_is_seen(getkey, monkeypatch) -> None:
    """A mutant: plates are believed."""

    def believed(target, native, name):
        return target.layout.plates[name]

    monkeypatch.setattr(rows, "independent", believed)
    assert family(p_values(coupled, getkey()))


@pytest.mark.slow
@pytest.mark.parametrize("model", [sums, coupled])
def test_steps_are_shown_by_row(model) -> None:
    mcmc = MCMC(SCIR(model), num_warmup=100, num_samples=20, progress_bar=False)
    y = SUMS if model is sums else SUMS[0]
    mcmc.run(jax.random.key(0), jnp.asarray(y))
    steps = np.exp(mcmc.last_state.tuning["r"].log_step)
    assert steps.shape == ((GROUPS, 1) if model is sums else ())
    shown = mcmc.sampler.get_diagnostics_str(mcmc.last_state)
    by_row = f"h={steps.min():.2g} to {steps.max():.2g} by row"
    assert (by_row if model is sums else f"h={steps:.2g},") in shown


@pytest.mark.slow
def test_conjugate_rows_are_drawn_at_once() -> None:
    """They are accepted anyway, and the density need not be evaluated again."""

    def model(counts):
        with numpyro.plate("groups", len(counts)):
            p = numpyro.sample("p", WEIGHTS)
            numpyro.sample("x", dist.Multinomial(4, p), obs=counts)

    mcmc = MCMC(SCIR(model), num_warmup=0, num_samples=10, progress_bar=False)
    mcmc.run(jax.random.key(0), COUNTS)
    assert mcmc.sampler.get_diagnostics_str(mcmc.last_state) == "p exact"
    assert mcmc.last_state.tuning["p"].log_step.shape == ()
