"""Pictures: what is drawn where, not how it looks; that was looked at."""

import html
import io

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes

from simplex_jax._src.evaluate import compare, plots

RECORDS = [
    {"passes": 1.0, "seconds": 2.0, "perplexity": 900.0},
    {"passes": 2.0, "seconds": 4.0, "perplexity": 700.0, "perplexity_average": 690.0},
]


@pytest.fixture(autouse=True)
def closed():
    """No display is asked for, and no figure stays open."""
    mpl.use("Agg")
    yield
    pyplot.close("all")


def test_trace_has_a_line_a_chain_and_says_whether_they_agree(seed):
    samples = np.random.default_rng(seed).normal(size=(3, 400))
    axes = plots.trace(samples, "weight")
    assert len(axes.lines) == 3
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), samples[1])
    assert axes.get_title("right").startswith("R-hat 1.0")
    assert plots.trace(samples[0]).get_title("right").startswith("effective size")
    assert plots.trace(np.zeros((2, 9))).get_title("right") == ""


def test_every_picture_draws_on_given_axes_and_returns_them(seed):
    rng = np.random.default_rng(seed)
    log_p, x = np.log(rng.dirichlet(np.ones(3), size=20)), rng.normal(size=(20, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    figure, given = pyplot.subplots(1, 6)
    result = [
        plots.trace(rng.normal(size=(2, 20)), axes=given[0]),
        plots.sparse_boxplots(log_p, axes=given[1]),
        plots.perplexity(RECORDS, axes=given[2]),
        plots.topic_intervals([0.7, 0.3], [0.1, 0.1], ["a", "b"], axes=given[3]),
        plots.triangle(np.exp(log_p), axes=given[4]),
        plots.sphere(x, axes=given[5]),
    ]
    assert all(one is other for one, other in zip(result, given, strict=True))
    assert pyplot.get_fignums() == [figure.number]
    figure.canvas.draw()


def test_boxes_are_quartiles_of_powers_of_ten(seed):
    log_p = np.log(10) * np.random.default_rng(seed).uniform(-300, -200, size=(4001, 2))
    axes = plots.sparse_boxplots({"exact": log_p, "chain": log_p - 5}, names=["a", "b"])
    boxes = [patch.get_path().vertices[:, 1] for patch in axes.patches]
    assert len(boxes) == 4
    low, high = np.quantile(log_p[:, 0] / np.log(10), [0.25, 0.75])
    assert boxes[0].min() == pytest.approx(low)
    assert boxes[0].max() == pytest.approx(high)
    axes.figure.canvas.draw()
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["a", "b"]
    assert "10^{-" in axes.get_yticklabels()[0].get_text()
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {"exact", "chain"}


def test_perplexity_of_runs_and_of_their_averages():
    axes = plots.perplexity({"one": RECORDS, "two": RECORDS[:1]}, key="seconds")
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert lines["one, one sample"] == [[2.0, 900.0], [4.0, 700.0]]
    assert lines["one, average"] == [[4.0, 690.0]]
    assert "two, average" not in lines
    assert axes.get_xlabel() == "seconds of training"


def test_intervals_of_probabilities_and_of_loadings():
    axes = plots.topic_intervals([0.1, 0.6, 0.3], [0.05, np.nan, 0.1], list("abc"), top=2)
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["b", "c"]
    (known,) = axes.collections[0].get_segments()  # b has none
    assert known[:, 1].tolist() == [1.0, 1.0]
    assert known[0, 0] < 0.3 < known[1, 0]
    signed = plots.topic_intervals([0.1, -0.6, 0.3], [0.05, 0.1, 0.1], list("abc"), top=2)
    assert [tick.get_text() for tick in signed.get_yticklabels()] == ["b", "c"]
    assert signed.get_xlabel().startswith("loading")


def test_shares_by_groups_and_by_numbers():
    ends = [0.1, 0.2, 0.3], [0.05, 0.1, 0.2], [0.2, 0.3, 0.4]
    points = plots.shares_by(range(3), *ends, labels=["a", "b", "c"], name="party")
    assert [tick.get_text() for tick in points.get_xticklabels()] == ["a", "b", "c"]
    assert points.get_ylim() == pytest.approx((0, 0.42))
    line = plots.shares_by([1914, 1950, 2009], *ends, name="year")
    assert line.get_xlim() == (1914, 2009)
    assert len(line.collections) == 1, "the band"
    many = plots.shares_by(
        range(30),
        *(np.full(30, x) for x in (0.2, -0.1, 0.3)),
        labels=[f"group {i}" for i in range(30)],
    )
    assert len(many.get_xticklabels()) == 10
    assert many.get_ylim()[0] == pytest.approx(-0.1)


def test_comparison_has_points_and_bars_on_both_axes():
    entries = [
        compare.Entry(k, np.array([10.0, 12.0]) + k, np.array([0.1, np.nan])) for k in (5, 20)
    ]
    left, right = plots.comparison(entries)
    assert isinstance(left, Axes)
    assert isinstance(right, Axes)
    assert [tick.get_text() for tick in left.get_xticklabels()] == ["5", "20"]
    (bars,) = left.collections
    np.testing.assert_allclose(bars.get_segments()[0][:, 1], [15.0, 17.0])
    single = [compare.Entry(5, np.array([10.0]), np.array([0.1]))]
    plots.comparison(single, axes=[left, right])[0].figure.canvas.draw()


def drawn(axes):
    """The texts of a picture, as a reader of it sees them."""
    file = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        axes.figure.savefig(file, format="svg")
    return html.unescape(file.getvalue())


@pytest.mark.parametrize("price", ["$10-$20", r"$\none$", r"\$5", "a_b^c"])
def test_names_are_drawn_as_they_are(price):
    """A formula that matplotlib reads from dollar signs loses them, or ends in an error."""
    ends, log_p = ([0.1, 0.2], [0.05, 0.1], [0.2, 0.3]), np.log([[0.3, 0.7], [0.5, 0.5]])
    labels, entry = [price, "b"], compare.Entry(5, np.array([10.0]), np.array([0.1]))
    pictures = [
        plots.trace(np.arange(9.0) % 4, price),
        plots.sparse_boxplots(log_p, names=labels),
        plots.sparse_boxplots({price: log_p, "b": log_p}),
        plots.perplexity({price: RECORDS}),
        plots.perplexity([{price: 1.0, "perplexity": 9.0}], key=price),
        plots.topic_intervals([0.7, 0.3], [0.1, 0.1], labels),
        plots.shares_by(range(2), *ends, labels=labels),
        plots.shares_by(range(2), *ends, name=price),
        plots.comparison([entry], heldout=price)[0],
        plots.comparison([entry], coherence=price)[1],
        plots.triangle(np.eye(3), names=[*labels, "c"]),
    ]
    whole = [f">{price}</text>", f">{price}, average</text>"]
    result = [drawn(axes) for axes in pictures]
    assert [any(text in one for text in whole) for one in result] == [True] * len(result)


def test_corners_of_the_triangle_and_its_density():
    axes = plots.triangle(np.eye(3), names=["a", "b", "c"], log_density=lambda p: np.log(p[:, 0]))
    corners = axes.collections[0].get_offsets()
    np.testing.assert_allclose(corners, [[0, 0], [1, 0], [0.5, np.sqrt(0.75)]])
    assert [text.get_text() for text in axes.texts] == ["a", "b", "c"]
    picture = axes.images[0].get_array()
    assert np.ma.getmaskarray(picture)[-1, 0]  # beyond the left edge
    assert picture[1, 2] > 2 * picture[1, -3]  # more near a than near b


def test_near_and_far_sides_of_the_sphere():
    axes = plots.sphere(np.array([[1.0, 0, 0], [-1.0, 0, 0], [0, 0, 1.0]]), centre=[1.0, 0, 0])
    far, near = (part.get_offsets() for part in axes.collections)
    np.testing.assert_allclose(far, [[0, 0]], atol=1e-12)
    np.testing.assert_allclose(near, [[0, 0], [0, 1]], atol=1e-12)
    poles = plots.sphere(np.eye(3), centre=[0, 0, 1.0]).collections[1].get_offsets()
    np.testing.assert_allclose(np.abs(poles), [[1, 0], [0, 1], [0, 0]], atol=1e-12)


def test_names_may_be_arrays_and_labels_numbers():
    axes = plots.sparse_boxplots(np.zeros((4, 2)), names=np.array(["a", "b"]))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["a", "b"]
    years = np.array([1990, 2000])
    axes = plots.shares_by([0, 1], [0.2, 0.3], [0.1, 0.2], [0.3, 0.4], labels=years)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1990", "2000"]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.trace(np.zeros((2, 3, 4))), "chains, samples"),
        (lambda: plots.sparse_boxplots(np.zeros(3)), "n, K"),
        (lambda: plots.sparse_boxplots({"a": np.zeros((2, 3)), "b": np.zeros((2, 4))}), "one K"),
        (lambda: plots.sparse_boxplots(np.zeros((2, 3)), names=["a"]), "names"),
        (lambda: plots.perplexity([{"passes": 1.0}]), "held-out"),
        (
            lambda: plots.perplexity([{"passes": 1.0, "perplexity": 9.0}], key="pass"),
            "'pass' is not",
        ),
        (lambda: plots.topic_intervals([0.5, 0.5], [0.1], ["a", "b"]), "one length"),
        (lambda: plots.shares_by([1, 2], [1, 2], [0, 1], [2, 3], labels=["a"]), "one length"),
        (lambda: plots.shares_by([1, 2], [1], [0], [2]), "one length"),
        (lambda: plots.shares_by([], [], [], []), "one length"),
        (lambda: plots.comparison([]), "at least one"),
        (lambda: plots.triangle(np.ones((2, 3))), "sum to 1"),
        (lambda: plots.triangle(np.eye(3), names=["a"]), "three"),
        (lambda: plots.triangle([[2.0, -1.0, 0.0]]), "at least 0"),
        (lambda: plots.sphere(np.eye(3), centre=[0, 0, 0]), r"^centre .*0\]$"),
        (lambda: plots.sphere(np.ones((2, 3))), "unit"),
        (lambda: plots.sphere(np.ones((2, 2))), "n, 3"),
    ],
)
def test_bad_input(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()
