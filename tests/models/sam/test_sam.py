"""The spherical admixture model: gradients, changes of the log density, batches and arguments."""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from support import tiny_sam

from simplex_jax._src.models.sam import joint, local, model
from simplex_jax._src.models.sam import model as sam_step
from simplex_jax._src.models.sam.joint import Minibatch
from simplex_jax._src.models.sam.local import Local
from simplex_jax._src.runtime import driver

Key = Callable[[], jax.Array]

V, K, D = 12, 3, 9


def table(seed: int = 1, documents: int = D) -> np.ndarray:
    """Sparse unit vectors of different lengths, some entries negative."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(documents, V)) * (rng.random((documents, V)) < 0.4)
    rows[np.arange(documents), np.arange(documents) % V] += 1.0
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def unit(rng: np.random.Generator, *shape: int) -> np.ndarray:
    x = rng.normal(size=shape)
    return (x / np.linalg.norm(x, axis=-1, keepdims=True)).astype(np.float32)


def setting(seed: int = 0) -> tuple:
    """Documents, their dense rows in the order on the device, topics, proportions, constants."""
    rng = np.random.default_rng(seed)
    documents = joint.to_device(sp.csr_array(table()))
    rows = table()[np.asarray(documents.corpus.order)]
    theta = rng.dirichlet(np.ones(K), size=(D, 2)).astype(np.float32)
    hyper = joint.hyperparameters(unit(rng, V), alpha=2.0, sigma=7.0, kappa0=5.0, kappa1=20.0)
    return documents, rows, unit(rng, K, V), jnp.asarray(theta), hyper


def log_joint(topics: np.ndarray, rows: np.ndarray, theta: np.ndarray, hyper: tuple) -> float:
    """The log density of equation (9) as it is printed, in float64, but for what is constant."""
    topics, theta = np.asarray(topics, np.float64), np.asarray(theta, np.float64)
    b = np.einsum("dnk,kv->dnv", theta, topics)
    fit = np.einsum("dnv,dv->dn", b / np.linalg.norm(b, axis=-1, keepdims=True), rows)
    centre = float(hyper.kappa0) * np.asarray(hyper.mean, np.float64)
    length = np.linalg.norm(centre + float(hyper.sigma) * topics.sum(0))
    prior = -tiny_sam.log_normaliser(length, V)
    return prior + float(hyper.kappa1) * fit.mean(axis=1).sum()


def test_gradient_is_that_of_the_log_joint_density() -> None:
    documents, rows, topics, theta, hyper = setting()
    batch = Minibatch(jnp.arange(D), theta)
    result = np.asarray(joint.gradient(documents, topics, batch, hyper))
    size = 1e-5
    for k, v in [(0, 0), (1, 4), (2, 11), (0, 7)]:
        change = np.zeros((K, V))
        change[k, v] = size
        ends = [log_joint(topics + s * change, rows, theta, hyper) for s in (1, -1)]
        assert result[k, v] == pytest.approx((ends[0] - ends[1]) / (2 * size), rel=1e-4, abs=1e-3)


def test_change_of_the_log_density_keeps_its_digits() -> None:
    """Also where the density itself, of a hundred million, has lost the units in float32."""
    documents, rows, topics, theta, hyper = setting()
    rng = np.random.default_rng(5)
    for kappa1, size in [(20.0, 0.5), (1e7, 1e-4)]:
        wide = hyper._replace(kappa1=jnp.float32(kappa1))
        moved = topics + size * rng.normal(size=topics.shape).astype(np.float32)
        moved /= np.linalg.norm(moved, axis=-1, keepdims=True)
        batch = Minibatch(jnp.arange(D), theta)
        result = joint.log_change(moved, documents, topics, batch, wide)
        exact = log_joint(moved, rows, theta, wide) - log_joint(topics, rows, theta, wide)
        assert float(result) == pytest.approx(exact, rel=1e-4)
    slope = jax.grad(joint.log_change)(moved, documents, topics, batch, wide)
    np.testing.assert_array_equal(slope, joint.gradient(documents, moved, batch, wide))


@pytest.mark.slow
def test_batches_give_the_gradient_on_average_and_its_variance() -> None:
    """Exactly, over all pairs of documents."""
    documents, _, topics, theta, hyper = setting()
    theta = theta[:, :1]
    everything = joint.gradient(documents, topics, Minibatch(jnp.arange(D), theta), hyper)
    pairs = jnp.asarray([(a, b) for a in range(D) for b in range(a)])
    batch = Minibatch(pairs, theta[pairs])
    over_pairs = (None, None, 0, None)
    result = jax.vmap(joint.gradient, over_pairs)(documents, topics, batch, hyper)
    np.testing.assert_allclose(result.mean(0), everything, rtol=1e-4, atol=1e-3)
    told = jax.vmap(joint.gradient_variance, over_pairs)(documents, topics, batch, hyper)
    np.testing.assert_allclose(told.mean(0), result.var(0), rtol=1e-3, atol=1e-2)


def test_blocks_of_documents_add_up_to_all(monkeypatch: pytest.MonkeyPatch, getkey: Key) -> None:
    documents, rows, topics, theta, hyper = setting()
    batch = Minibatch(jnp.arange(D), theta)
    whole = joint.gradient(documents, topics, batch, hyper)
    change = joint.log_change(-topics[::-1], documents, topics, batch, hyper)
    monkeypatch.setattr(joint, "_BLOCK", 4 * V)  # 4, 4 and 1 documents
    np.testing.assert_allclose(
        joint.gradient(documents, topics, batch, hyper), whole, rtol=1e-5, atol=1e-4
    )
    again = joint.log_change(-topics[::-1], documents, topics, batch, hyper)
    assert float(again) == pytest.approx(float(change), rel=1e-5)
    np.testing.assert_allclose(joint.dense_rows(documents, jnp.arange(D), V), rows, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", model.SAMPLERS)
def test_a_chain_stays_on_the_sphere_and_compiles_once(sampler: str, getkey: Key) -> None:
    documents, _, topics, _, hyper = setting()
    options = {} if sam_step.is_metropolis(sampler) else {"batch_size": 4}
    learn = model.LEARN if sampler == "sggmc" else ()
    kernel, stream = model.build(
        documents, (K, V), hyper=hyper, sampler=sampler, learn=learn, **options
    )
    state = kernel.init(getkey(), topics)
    chex.clear_trace_counter()

    @jax.jit
    @chex.assert_max_traces(n=1)
    def update(kernel, key, state, batch):
        return kernel.update(key, state, batch)

    for step in range(3):
        if step:  # another step size and other values are no other program
            kernel, stream = model.build(
                documents,
                (K, V),
                hyper=hyper._replace(kappa1=jnp.float32(19.0)),
                sampler=sampler,
                learn=learn,
                step_size=1e-3,
                **options,
            )
        state, info = update(kernel, getkey(), state, stream(getkey(), state.step))
    np.testing.assert_allclose(np.linalg.norm(state.position, axis=1), 1, atol=1e-6)
    assert int(state.step) == 3
    assert 0 < float(info.local_acceptance) <= 1
    if learn:
        assert float(state.kappa1) != float(hyper.kappa1)


@pytest.mark.slow
def test_a_batch_costs_what_it_costs_whatever_the_corpus() -> None:
    """The compiled work of an update, as the compiler counts it."""
    flops = []
    for copies in (20, 400):
        rows = np.tile(table(), (copies, 1))
        documents = joint.to_device(sp.csr_array(rows))
        hyper = setting()[-1]
        kernel, stream = model.build(documents, (K, V), hyper=hyper, batch_size=4)
        state = kernel.init(jax.random.key(0), setting()[2])
        lowered = jax.jit(lambda k, s, b: k.update(jax.random.key(1), s, b)).lower(
            kernel, state, stream(jax.random.key(2), 0)
        )
        flops.append(lowered.cost_analysis()["flops"])
    assert flops[1] < 1.1 * flops[0]


def test_documents_that_are_no_unit_vectors_are_named() -> None:
    good = table()
    for row, value, message in [
        (3, 0.0, "document 3 is zero"),
        (2, np.nan, r"document 2 .*finite"),
        (4, 1.5, "document 4 has length"),
    ]:
        bad = good.copy()
        bad[row] = bad[row] * value if np.isfinite(value) else value
        with pytest.raises(ValueError, match=message):
            joint.to_device(sp.csr_array(bad))
    with pytest.raises(ValueError, match=r"^vectors "):
        joint.to_device(sp.csr_array((0, V)))


def test_arguments_out_of_range_are_named() -> None:
    documents, _, topics, _, hyper = setting()
    wrong: list[tuple[dict, str]] = [
        ({"shape": (V + 1, V)}, "more|at most"),
        ({"shape": (K, V + 4)}, "mean must have"),
        ({"shape": (K, V - 4)}, f"documents have word {V - 1}"),
        ({"sampler": "gibbs"}, "sampler"),
        ({"learn": ("beta",)}, "learn must be one of alpha, kappa1, sigma; it is 'beta'"),
        ({"learn": "alpha"}, r"learn must be a sequence of names, say \('alpha',\); it is 'alpha'"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": D + 1}, "batch_size"),
        ({"batch_size": 4, "sampler": "gmc-bgibbs"}, "batch_size"),
        ({"step_size": -1.0}, "step_size"),
        ({"friction": 0.0}, "friction"),
        ({"inner_steps": 0}, "inner_steps"),
        ({"inertia": 0.0}, "inertia must be finite and positive"),
        ({"inertia": 1.0, "sampler": "sggmc"}, "inertia is for gsgnht; sggmc has no thermostat"),
        ({"noise_estimate": False, "sampler": "gmc-bgibbs"}, "noise_estimate is for sggmc"),
        ({"sampler": "gmc-bgibbs", "friction": 5.0}, "does not take friction"),
        ({"local_step": Local(method="laplace", num_steps=9)}, "num_steps is not used"),
    ]
    for changed, name in wrong:
        options = {"hyper": hyper, "shape": (K, V), **changed}
        with pytest.raises(ValueError, match=name):
            model.build(documents, options.pop("shape"), **options)
    for name in ("alpha", "sigma", "kappa0", "kappa1"):
        with pytest.raises(ValueError, match=name):
            joint.hyperparameters(hyper.mean, **{name: -1.0})
    with pytest.raises(ValueError, match="mean"):
        joint.hyperparameters(2 * hyper.mean)
    kernel, _ = model.build(documents, (K, V), hyper=hyper)
    with pytest.raises(ValueError, match="position"):
        kernel.init(jax.random.key(0), topics[:2])
    with pytest.raises(ValueError, match="manifold"):
        kernel.init(jax.random.key(0), 2 * topics)


@pytest.mark.slow
def test_the_thermostat_has_the_inertia_that_it_is_given(getkey: Key) -> None:
    """The thermostat of twice the inertia moves half as far in a short step; V may be 0."""
    documents, _, topics, _, hyper = setting()
    keys, moved = [getkey() for _ in range(2)], {}
    for inertia in (None, 1.0, 2.0):
        told = {"inertia": inertia, "friction": 4.0, "step_size": 1e-3, "batch_size": 4}
        estimate = inertia is None
        kernel, stream = model.build(
            documents, (K, V), hyper=hyper, noise_estimate=estimate, **told
        )
        state = kernel.init(keys[0], topics)
        after, info = kernel.update(keys[1], state, stream(keys[1], 0))
        moved[inertia] = float(after.sampler.thermostat) - 4.0
        assert (info.sampler.gradient_noise is not None) == estimate
    assert moved[1.0] == pytest.approx(2 * moved[2.0], rel=0.05)
    assert abs(moved[None]) > 4 * abs(moved[1.0])  # 2 / C^2 is 1 / 8


@pytest.mark.slow
def test_defaults_are_at_equilibrium(seed: int) -> None:
    """Kinetic energy per dimension within a tenth of 1, of concentrated documents.

    Its mean over 300 steps of 600 dimensions is known to 0.01 or so.
    """
    rng = np.random.default_rng(seed)
    v, k, d = 300, 3, 400
    truth = np.maximum(unit(rng, k, v), 0) + 0.02
    share = rng.dirichlet(np.full(k, 3.0), size=d)
    rows = share @ (truth / np.linalg.norm(truth, axis=1, keepdims=True))
    rows += 0.04 * rng.normal(size=rows.shape)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    vectors = sp.csr_array(rows)
    documents = joint.to_device(vectors)
    hyper = joint.hyperparameters(
        joint.mean_direction(vectors),
        alpha=3.0,
        sigma=300.0,
        kappa0=300.0,
        kappa1=600.0,
    )
    for sampler, batch_size in [("sggmc", 40), ("gsgnht", 40), ("gsgnht", d)]:
        kernel, stream = model.build(
            documents, (k, v), hyper=hyper, sampler=sampler, batch_size=batch_size
        )
        state = kernel.init(jax.random.key(seed), model.start(jax.random.key(1), hyper, k))
        state, told = driver.run(
            jax.random.key(seed + 1),
            kernel,
            state,
            stream,
            500,
            collect=lambda state, info: info.sampler,
        )
        assert abs(told.kinetic[200:].mean() - 1) < 0.1, (sampler, batch_size)
        options = sam_step.default_settings(sampler, d, (k, v), hyper, batch_size)
        if batch_size < d:
            check_noise(told.gradient_noise[-1], kernel, stream, state, documents, hyper, options)
            continue
        # The thermostat moves: it has the standard deviation C / sqrt(2 m).
        share = told.thermostat[200:].std() / float(options.friction)
        assert 0.6 < share * np.sqrt(2 * k * (v - 1)) < 1.6


def check_noise(noise, kernel, stream, state, documents, hyper, options) -> None:
    """That of another update is what the variance of the gradient of its batch says."""
    key, ids = jax.random.key(3), stream(jax.random.key(4), 0)
    key_local = jax.random.split(key, 3)[0]
    local_step = model.default_local("sggmc")
    drawn = jax.jit(local.draw_all, static_argnums=5)(
        key_local, documents, state.position, ids, hyper, local_step
    )
    result = jax.jit(kernel.update)(key, state, ids)[1].sampler.gradient_noise
    batch = Minibatch(ids, jax.nn.softmax(drawn.ratios))
    variance = joint.gradient_variance(documents, state.position, batch, hyper)
    expected = options.step_size * float(variance.max()) / (2 * options.friction)
    assert float(result) == pytest.approx(expected, rel=0.05)
    assert 0 < float(noise) < 0.5
