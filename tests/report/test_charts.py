"""Charts of the report: lines where their numbers are, between the axes."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from simplex_jax._src.report import charts


def drawing(metrics, **options):
    return ElementTree.fromstring(charts.curves(metrics, "passes", "passes <1>", **options))


def points(line):
    return np.array([pair.split(",") for pair in line.get("points").split()], float)


def test_a_curve_is_a_scale_of_its_numbers():
    y = np.array([1200.0, 1100.0, 1050.0, 1040.0])
    metrics = [{"passes": 10.0 * i, "perplexity": v} for i, v in enumerate(y)]
    metrics.append({"passes": 40.0, "perplexity": None})
    chart = drawing(metrics)
    (line,) = chart.iter("polyline")
    places = points(line)
    for place, value in ((places[:, 0], np.arange(4)), (places[:, 1], -y)):
        scaled = (place - place[0]) / (place[-1] - place[0])
        np.testing.assert_allclose(scaled, (value - value[0]) / (value[-1] - value[0]), atol=1e-3)
    assert len(list(chart.iter("circle"))) == 4
    texts = [text.text for text in chart.iter("text")]
    assert texts[-2:] == ["passes <1>", "held-out perplexity"]
    assert {"0", "10", "1,050", "1,200"} <= set(texts)
    # A tick is where a curve with its value would be.
    ticks = {text.text: float(text.get("y")) - 3.5 for text in chart.iter("text")}
    assert ticks["1,200"] == pytest.approx(places[0, 1], abs=0.2)


def test_several_curves_have_a_legend_in_rows_and_a_level_its_line():
    chains = [(f"_chain_{chain}", f"chain {chain}") for chain in range(12)]
    metrics = [
        {"passes": float(i)} | {f"alpha_chain_{chain}": chain + i for chain in range(12)}
        for i in range(30)
    ]
    text = charts.curves(metrics, "passes", "passes", "alpha", "alpha", 20.0, endings=chains)
    assert "stroke-dasharray" in text
    chart = ElementTree.fromstring(text)
    assert len(list(chart.iter("polyline"))) == 12
    assert not list(chart.iter("circle")), "there would be too many"
    width, height = map(float, chart.get("viewBox").split()[2:])
    places = {e.text: (float(e.get("x")), float(e.get("y"))) for e in chart.iter("text")}
    rows = {places[legend][1] for _, legend in chains}
    assert len(rows) > 1
    top = min(points(line)[:, 1].min() for line in chart.iter("polyline"))
    assert max(rows) < top
    assert all(0 <= x <= width and 0 <= y <= height for x, y in places.values())


@pytest.mark.parametrize("values", [[3.0], [0.0, 0.0], [-5e-7, -5e-7, 2e-7], [1e9, 2e9]])
def test_one_point_equal_ones_and_any_scale_have_axes(values):
    metrics = [{"passes": float(i), "perplexity": v} for i, v in enumerate(values)]
    chart = drawing(metrics)
    numbers = [e for e in chart.iter("text") if re.fullmatch(r"-?[\d,.e-]+", e.text)]
    assert len(numbers) >= 4
    assert np.isfinite(points(next(chart.iter("polyline")))).all()
