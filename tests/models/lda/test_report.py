"""The report: whole, self-contained, escaped; and the checks that feed its warnings."""

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest
from support.fits import topic_fit

from simplex_jax._src.evaluate import matching
from simplex_jax._src.evaluate.diagnostics import chain_notes, few_samples
from simplex_jax._src.evaluate.intervals import beta_interval
from simplex_jax._src.models import files, lda
from simplex_jax._src.models.lda import checks
from simplex_jax._src.report import charts

VOCABULARY = ["ion", "pump", "<script>alert(1)</script>", "naïve & co", "שלום", "tail"]
MEAN = np.array(
    [
        [0.5, 0.3, 0.1, 0.06, 0.03, 0.01],
        [0.01, 0.02, 0.03, 0.04, 0.1, 0.8],
    ]
)
METRICS = [
    {
        "step": 10 * i,
        "passes": 2.5 * i,
        "seconds": 1.5 * i,
        "perplexity": 900.0 - 50 * i,
        "perplexity_average": None if i == 1 else 890.0 - 50 * i,
        "tokens_per_second": 1e6,
    }
    for i in range(1, 5)
]
EXAMPLES = [
    [
        {"name": "a <b>.txt", "share": 0.91, "words": ["ion", "naïve & co"], "text": ""},
        {"name": "", "share": 0.5, "words": [], "text": ""},
    ],
    [{"name": "c.txt", "share": 0.7, "words": ["tail"], "text": "a tail & more"}],
]
VOID = {"meta", "input", "path", "use", "rect", "br", "link", "circle"}


class Page(HTMLParser):
    """Tags seen, with their attributes, and a complaint for any that is not closed in order."""

    def __init__(self, html: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def write(path, top=None, *, mean=MEAN, **changes):
    values = {
        **{"prevalence": np.array([0.25, 0.75]), "coherence": np.array([0.12, -0.31])},
        **{"stability": np.array([0.987, 0.4]), "examples": EXAMPLES, "metrics": METRICS},
        **{"versions": {"jax": "0.10.2"}, "settings": lda.Options(2, chains=1, seed=3)},
        "corpus": {"documents": 1234, "tokens": 56789, "vocabulary": 6, "digest": "a1b2"},
    }
    files.report(lda.MODEL, topic_fit(mean, VOCABULARY, **values | changes), path, top)
    return path.read_text("utf-8")


def test_page_is_whole_and_needs_no_network(tmp_path):
    """Its script is tested in test_explorer."""
    html = write(tmp_path / "report.html")
    assert f" at least {matching.SAME}; " in html
    page = Page(html)
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"link", "img", "iframe", "object", "base", "form"}
    for tag, attributes in page.tags:
        assert tag != "script" or not attributes.keys() - {"type", "id"}
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "xlink:href"):
            target = attributes.get(name)
            assert target is None or target.startswith("#")
    assert not re.search(r"url\((?!#)|@import", html)
    policy = next(a for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy["content"]


def test_ids_are_unique_and_charts_are_well_formed(tmp_path):
    html = write(tmp_path / "report.html")
    drawings = re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)
    assert len(drawings) == 3
    for drawing in drawings:
        ElementTree.fromstring(drawing)
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', html)) <= set(ids)
    assert "over the corpus" in drawings[1]
    assert "seconds of training" in drawings[2]


def test_colours_are_those_of_the_page(tmp_path):
    """Every colour has a name, which the style sheet gives a light and a dark value."""
    html = write(tmp_path / "report.html")
    style = re.search(r"<style>.*?</style>", html, flags=re.DOTALL).group()
    light, dark = re.findall(r":root \{(.*?)\}", style, flags=re.DOTALL)
    names = re.findall(r"(--[a-z-]+):", light)
    assert set(re.findall(r"var\((--[a-z-]+)\)", html)) <= set(names)
    assert set(re.findall(r"(--[a-z-]+):", dark)) == set(names)
    page = html.replace(style, "")
    assert not re.search(r"(fill|stroke|color)[:=] *\"?#[0-9a-f]{3,6}", page)


def test_words_are_escaped_and_ordered(tmp_path):
    page = Page(write(tmp_path / "report.html"))
    text = [part.strip() for part in page.text if part.strip()]
    words = text[text.index("Topic 1") :]
    shown = {*VOCABULARY, "a tail & more"}
    assert [part for part in words[: words.index("Map")] if part in shown] == [
        *("tail", "שלום", "naïve & co", "<script>alert(1)</script>", "pump", "ion"),  # topic 1
        *("a tail & more",),  # its document
        *VOCABULARY,  # topic 0, the less prevalent
    ]
    assert "75.0%" in text
    assert "80.0%" in text


def test_intervals_surround_the_means(tmp_path):
    html = write(tmp_path / "report.html")
    low, high = beta_interval(0.75, 0.02)
    assert f"({100 * float(low):.1f}–{100 * float(high):.1f})" in html
    bars = re.findall(r"left:([\d.]+)%;width:([\d.]+)%", html)
    assert len(bars) == 2 + 12
    assert all(0 <= float(left) <= float(left) + float(width) <= 100.2 for left, width in bars)
    unknown = {"topics_sd": np.full_like(MEAN, np.nan), "prevalence_sd": np.full(2, np.nan)}
    assert "<b style" not in write(tmp_path / "report.html", **unknown)


def test_topics_that_not_all_chains_have_are_shown_without_intervals(tmp_path):
    """Topic 0 has too few effective samples, over both chains; topic 1 is of one chain, with many.

    On the newcomer's corpora 7 of 11 topics with intervals were those of one chain.
    """
    diagnostics = {"prevalence 0": {"rhat": 1.2, "ess": 12.0}, "prevalence 1": {"ess": 90.0}}
    shared = np.array([[True, True], [True, False]])
    two = {"order": np.array([[0, 1]] * 2), "prevalence_range": [[0.21, 0.3], [0.29, 0.7]]}
    two = {name: np.asarray(value) for name, value in two.items()}
    html = write(tmp_path / "report.html", diagnostics=diagnostics, shared=shared, **two)
    assert '<span class="range">(chains: 21.0–29.0)</span>' in html
    assert len(re.findall(r'<b class="chains" style', html)) == 1  # of the overview
    assert "<b style" not in html
    # Both chains have both, and the second enough samples.
    html = write(tmp_path / "report.html", diagnostics=diagnostics, shared=shared | True, **two)
    low, high = beta_interval(0.75, 0.02)
    assert f"({100 * float(low):.1f}–{100 * float(high):.1f})" in html


def test_documents_stand_for_topics(tmp_path):
    html = write(tmp_path / "report.html")
    assert "<bdi>a &lt;b&gt;.txt</bdi>" in html
    assert "<bdi>ion naïve &amp; co</bdi>" in html
    assert html.count("<details>") == 2
    assert "<details>" not in write(tmp_path / "report.html", examples=[])


def test_coherence_and_stability_where_known(tmp_path):
    html = write(tmp_path / "report.html")
    assert "<dt>coherence</dt><dd>-0.31</dd>" in html
    assert "<dt>stability</dt><dd>0.99</dd>" in html
    unknown = np.full(2, np.nan)
    html = write(tmp_path / "report.html", coherence=unknown, stability=unknown)
    assert "<dt>coherence</dt><dd>" not in html
    assert "<dt>stability</dt><dd>" not in html


def test_concentrations(tmp_path):
    html = write(tmp_path / "report.html")
    assert "beta, given, per" in html
    assert "<tr><th>each of 6 words</th><td>0.05</td></tr>" in html
    assert "<tr><th>sum</th><td>0.3</td></tr>" in html
    learned = {"alpha": np.array([0.1, 0.5]), "alpha_sd": np.array([0.02, 0.1])}
    html = write(tmp_path / "report.html", **learned)
    assert "alpha, learned, per" in html
    # A gamma law with mean 0.5 and sd 0.1 has shape 25: 0.323 to 0.714.
    assert '<dd>0.5 <span class="range">(0.32–0.71)</span></dd>' in html
    few = {"alpha": {"rhat": 1.0, "ess": 12.0}, "prevalence 1": {"ess": 12.0}}
    html = write(tmp_path / "report.html", diagnostics=few, **learned)
    assert "<dd>0.5</dd>" in html
    assert "(0.32–0.71)" not in html


def test_diagnostics(tmp_path):
    result = {f"prevalence {k}": {"rhat": 1.01, "ess": 50.0 + k} for k in range(20)}
    result |= {"stuck": {"rhat": 1.7, "ess": 3.0}, "unknown": {"rhat": None, "ess": float("nan")}}
    html = write(tmp_path / "report.html", diagnostics=result)
    assert '<tr><th>stuck</th><td class="bad">3</td><td class="bad">1.70</td></tr>' in html
    assert "<tr><th>unknown</th><td>–</td><td>–</td></tr>" in html
    assert "and 10 that mix better" in html
    assert "Not measured." in write(tmp_path / "report.html")


def test_one_topic_and_many(tmp_path):
    rng = np.random.default_rng(0)
    for mean in (MEAN[:1], rng.dirichlet(np.ones(6), 300)):
        count = len(mean)
        unknown = dict.fromkeys(("prevalence_sd", "coherence", "stability"), np.full(count, np.nan))
        shares = {"prevalence": rng.dirichlet(np.ones(count)), "examples": []}
        Page(write(tmp_path / "report.html", mean=mean, **unknown, **shares))


def test_summary(tmp_path):
    html = write(tmp_path / "report.html")
    assert "<h1>2 topics of 1,234 documents</h1>" in html
    assert "by scir, seed 3" in html
    assert "1,234 documents, 56,789 tokens, 6 words." in html
    assert "It was trained for 6.0 s, 1,000,000 tokens a second." in html
    for shown in ("690", "a1b2", "0.10.2"):
        assert f">{shown}<" in html
    assert 'id="warnings"' not in html


ORDER = ["overview", "explore", "topics", "map", "by-1", "quality", "guide", "run"]


def test_it_opens_with_corpus_verdict_and_topics(tmp_path):
    """What a reader wants first; what the machine did comes last."""
    terms = [f"year={year}" for year in (1990, 2000, 2010)]
    effects = [
        {"topic": k, "column": "year", "term": term, "kind": kind}
        | {"mean": 0.2, "sd": 0.1, "lower": 0.1, "upper": 0.4, "level": 0.95, "ordered": True}
        for k in range(2)
        for kind in ("mean", "difference")
        for term in terms
    ]
    verdict = ["The predictions have settled.", "1 of 2 topics is stable (*).", "Longer: CMD <x>"]
    corpus = {"name": "my <texts>.csv", "documents": 9, "tokens": 80, "vocabulary": 6}
    html = write(
        tmp_path / "report.html",
        verdict=verdict,
        corpus=corpus,
        effects=effects,
        warnings=["W"],
        shared=np.array([[True, True], [True, False]]),
        order=np.array([[0, 1]] * 2),
    )
    Page(html)
    sections = re.findall(r'<section id="([^"]+)"', html)
    assert sections == ["warnings", *ORDER]
    head = html[html.index("<header>") : html.index("</header>")]
    assert "<bdi>my &lt;texts&gt;.csv</bdi>: 9 documents, 80 tokens, 6 words." in head
    assert "The predictions have settled. 1 of 2 topics is stable (★)." in head
    assert "CMD" not in head
    assert "<p>Longer: CMD &lt;x&gt;</p>" in html
    listed = html[html.index('id="overview"') : html.index('id="explore"')]
    assert re.findall(r'<li><a href="#topic-(\d)">', listed) == ["1", "0"]
    assert re.findall(r'<span class="star"[^>]*title="(\w+):[^>]*>', listed) == [
        "unsettled",
        "stable",
    ]
    assert "ion pump" in listed
    trends = html[html.index('id="by-1"') : html.index('id="quality"')]
    assert trends.count("<polyline") == 2
    assert trends.count("<polygon") == 1  # of the stable topic
    assert "1990: 20.0%" in trends
    assert "held-out perplexity" in html[html.index('id="quality"') :]


def test_warnings_are_shown_and_escaped(tmp_path):
    html = write(tmp_path / "report.html", warnings=["12 documents of <corpus> are empty."])
    assert "<li>12 documents of &lt;corpus&gt; are empty.</li>" in html


@pytest.mark.parametrize(
    "metrics",
    [
        [],
        [{"passes": 2.5, "seconds": 2.0, "perplexity": None, "tokens_per_second": 1e6}],
        [{"passes": 2.5, "seconds": 2.0, "perplexity": float("nan")}],
    ],
    ids=["none", "not measured", "not finite"],
)
def test_without_perplexity(tmp_path, metrics):
    html = write(tmp_path / "report.html", metrics=metrics)
    Page(html)
    assert "one sample</" not in html
    assert "Not measured: " in html
    assert "nan" not in html


def test_one_evaluation_is_a_visible_point(tmp_path):
    html = write(tmp_path / "one.html", metrics=METRICS[:1])
    assert "fill: var(--faint)" in html
    assert "fill: var(--faint)" not in write(tmp_path / "many.html", metrics=METRICS * 10)


def test_a_file_whose_name_is_not_utf8_is_named(tmp_path):
    corpus = {"documents": 1234, "name": "caf\udce9.csv"}
    assert r"caf\udce9.csv" in "".join(Page(write(tmp_path / "report.html", corpus=corpus)).text)


def by(column, labels, ordered=False):
    return [
        {"topic": k, "column": column, "term": f"{column}={label}", "kind": "mean"}
        | {"mean": 0.2, "sd": 0.1, "lower": 0.1, "upper": 0.4, "level": 0.8, "ordered": ordered}
        for k in range(2)
        for label in labels
    ]


@pytest.mark.parametrize(
    "labels",
    [
        ["02139", "1_0", "1234567", "1234568", "infinity"],
        ["1.10", "1.1"],
        ["1.10", "1.2", "beta"],
        ["0.50", "1.00"],
        ["0.12345678", "0.12345679"],
    ],
)
def test_groups_that_look_like_numbers_are_named_as_they_are(tmp_path, labels):
    html = write(tmp_path / "report.html", effects=by("a=b", labels))
    assert "<h2>By a=b</h2>" in html
    assert "cover 80% of the posterior" in html
    section = html[html.index("<h2>By a=b</h2>") :].partition("</section>")[0]
    assert "<polyline" not in section
    for label in labels:
        assert re.search(rf"\b{re.escape(label)}\b", html[html.index("By a=b") :])


@pytest.mark.parametrize(
    ("labels", "places"),
    [
        (["1910-1919", "1950-1959", "1960-1969"], [0, 160, 200]),
        (["[0.1, 0.2)", "[0.2, 0.3)", "[0.5, 0.6)"], [0, 50, 200]),
        (["1914", "1961.5", "2009"], [0, 100, 200]),
        (["1", "1e10", "1e999"], [0, 100, 200]),
        (["2020-01-01", "2020-03-01", "2020-12-01"], [0, 100, 200]),
    ],
)
def test_lines_have_their_points_where_the_numbers_are(tmp_path, labels, places):
    html = write(tmp_path / "report.html", effects=by("year", labels, ordered=True))
    line = re.search(r'<polyline points="([^"]+)"', html[html.index("By year") :])[1]
    assert [float(point.partition(",")[0]) for point in line.split()] == places


def test_same_input_gives_the_same_bytes(tmp_path):
    assert write(tmp_path / "a.html") == write(tmp_path / "b.html")


def test_no_words_are_refused_and_the_old_report_kept(tmp_path):
    path = tmp_path / "report.html"
    before = write(path)
    with pytest.raises(ValueError, match=r"top_words .* 1"):
        write(path, 0)
    assert path.read_text("utf-8") == before


def test_more_words_asked_than_there_are(tmp_path):
    Page(write(tmp_path / "report.html", 50))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # Of eight evaluations the last two are compared: 1% is more than their noise.
        ([*range(1000, 300, -100), 395.0], "was still falling, to 395"),
        ([*range(1000, 300, -100), 397.0], None),
        ([], None),
        ([None, None], None),
        ([900.0], None),
        ([900.0, 700.0, 705.0], None),
        ([900.0, 950.0], "did not fall: 900 at first, 950 at the end"),
        ([900.0, 700.0, 800.0], "rose again, from 700 to 800"),
        ([900.0, float("inf")], "overflowed"),
    ],
)
def test_perplexity_warnings(values, expected):
    result = checks.topic_warnings([{"perplexity": v} for v in values], np.eye(2), [0.5, 0.5])
    assert len(result) == (expected is not None)
    if expected:
        assert expected in result[0]


def test_a_chain_that_had_settled_before_need_not_fall():
    """That of dtm begins as one of LDA, whose samples predict better than samples of its own."""
    rising = [{"perplexity": 1000.0 + 10 * step} for step in range(20)]
    assert "did not fall" in checks.perplexity_warnings(rising, exact=True)[0]
    assert not checks.perplexity_warnings(rising, exact=True, settled=True)
    late = [record | {"passes": 200.0 + step} for step, record in enumerate(rising)]
    assert not any("did not fall" in told for told in checks.perplexity_warnings(late, exact=True))
    lost = [*rising, {"perplexity": float("inf")}]
    assert "overflowed" in checks.perplexity_warnings(lost, exact=True, settled=True)[0]


def test_the_noise_of_few_heldout_tokens_is_no_reason_for_doubt():
    # A settled chain whose evaluations vary by 3% is warned of in 2.5% of runs, and was in 97%; of
    # 200 more than 14 are with a probability of 1.5e-4. A rise of 30% is always found, also as a
    # jump in the last tenth, which must not count as noise.
    noise = np.exp(0.03 * np.random.default_rng(0).normal(size=(200, 50)))
    rise = 1 + 0.6 * np.maximum(np.linspace(-0.5, 0.5, 50), 0)
    jump = 1 + 0.3 * (np.arange(50) >= 45)

    def warned(levels):
        return sum(
            bool(checks.topic_warnings([{"perplexity": v} for v in run], np.eye(2), [0.5, 0.5]))
            for run in 100 * levels
        )

    assert warned(noise) <= 14
    assert warned(noise * rise) == warned(noise * jump) == 200


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (700.0, None),
        (700.04, None),  # shown as 700 too
        (713.0, None),
        (715.0, "rose again, from 700 to 715: run it longer."),
    ],
)
def test_small_rises_of_an_exact_chain_are_noise(last, expected):
    metrics = [{"perplexity": value} for value in (900.0, 700.0, last)]
    result = checks.topic_warnings(metrics, np.eye(2), [0.5, 0.5], exact=True)
    assert len(result) == (expected is not None)
    if expected:
        assert expected in result[0]


def test_topic_warnings():
    mean = np.array([[0.8, 0.1, 0.1], [0.79, 0.11, 0.1], [0.0, 0.0, 1.0]])
    result = checks.topic_warnings([], mean, [0.5, 0.5, 0.0])
    assert len(result) == 2
    assert "topic 2." in result[0]
    assert "Topics 0 and 1 are" in result[1]


def test_chain_notes():
    assert chain_notes({"alpha": {"rhat": float("nan"), "ess": 60.0}}, [[True]]) == []
    assert "4 posterior samples only" in few_samples(4)[0]
    assert not few_samples(25)
    apart, mixed = {"rhat": 1.5, "ess": 5.0}, {"rhat": 1.0, "ess": 80.0}
    diagnostics = {"a": apart, "b": mixed, "share 0": apart, "share 1": mixed, "share 2": apart}
    result = chain_notes(diagnostics, [[True, True], [True, False]])
    assert len(result) == 3
    assert "R-hat above 1.1) on a, share 0, share 2:" in result[0]
    assert "of a, share 0, share 2:" in result[1]
    assert "1 of 2 topics is not" in result[2]
    many = {f"share {k}": {"rhat": None, "ess": 2.0} for k in range(7)}
    (few,) = chain_notes(many, np.ones((1, 9), bool))
    assert "share of 7 of 9 topics:" in few
    (unknown,) = chain_notes({"alpha": {"rhat": 1.0, "ess": float("nan")}}, [[1], [1]])
    assert "samples of alpha: " in unknown
    (neither,) = chain_notes({"alpha": {"ess": 2.0}, "log_predictive": {"ess": 3.0}}, [[1]])
    assert "of alpha, log_predictive: " in neither
    (topic,) = chain_notes({"alpha": {"ess": 2.0}, "prevalence 0": {"ess": 3.0}}, [[1, 1]])
    assert "alpha, prevalence 0: " in topic
    assert "over the chains" not in topic
    (topic,) = chain_notes({"prevalence 0": {"ess": 3.0}}, [[1, 1], [1, 1]])
    assert "over the chains" in topic


def test_map_keeps_all_circles_inside_and_labels_apart():
    rng = np.random.default_rng(1)
    for count in (1, 2, 30, 500):
        shares = rng.dirichlet(np.full(count, 0.5))
        result = charts.topic_map(rng.normal(size=(count, 2)), shares, ["label"] * count)
        assert sorted(circle.topic for circle in result.circles) == list(range(count))
        for circle in result.circles:
            assert circle.radius <= circle.x <= result.width - circle.radius
            assert circle.radius <= circle.y <= result.height - circle.radius
        radii = [circle.radius for circle in result.circles]
        assert radii == sorted(radii, reverse=True)
        labels = [(c.x, c.label.y) for c in result.circles if c.label]
        for i, (x, y) in enumerate(labels):
            assert all(abs(x - a) > 32 or abs(y - b) > 11 for a, b in labels[:i])
