"""The report: whole, self-contained, escaped; and the checks that feed its warnings."""

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest

from simplex_jax.evaluate import checks, report

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
        "documents": 500 * i,
        "seconds": 1.5 * i,
        "perplexity": 900.0 - 50 * i,
        "perplexity_average": None if i == 1 else 890.0 - 50 * i,
        "tokens_per_second": 1e6,
    }
    for i in range(1, 5)
]
VOID = {"meta", "path", "use", "rect", "br", "link"}


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


def write(path, **changes):
    arguments = {
        "settings": {"sampler": "scir", "seed": 3, "alpha": 0.1, "beta": 0.05, "step": None},
        "corpus": {"documents": 1234, "tokens": 56789, "vocabulary": 6, "digest": "a1b2"},
        "versions": {"jax": "0.10.2"},
        "metrics": METRICS,
        "topics": report.Topics(MEAN, 0.1 * MEAN, VOCABULARY, np.array([0.25, 0.75])),
    }
    report.write(path, **{**arguments, **changes})
    return path.read_text("utf-8")


def test_page_is_whole_and_needs_no_network(tmp_path):
    html = write(tmp_path / "report.html")
    page = Page(html)
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "link", "img", "iframe", "object", "base", "form"}
    for _, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "xlink:href"):
            target = attributes.get(name)
            assert target is None or target.startswith("#")
    assert not re.search(r"url\((?!#)|@import", html)
    policy = next(a for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy["content"]


def test_ids_are_unique_and_charts_are_well_formed(tmp_path):
    html = write(tmp_path / "report.html")
    charts = re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)
    assert len(charts) == 2
    for chart in charts:
        ElementTree.fromstring(chart)
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', html)) <= set(ids)
    assert "seconds of training" in charts[1]


def test_words_are_escaped_and_ordered(tmp_path):
    page = Page(write(tmp_path / "report.html"))
    text = [part.strip() for part in page.text if part.strip()]
    assert [part for part in text if part in VOCABULARY] == [
        *("tail", "שלום", "naïve & co", "<script>alert(1)</script>", "pump", "ion"),  # topic 1
        *VOCABULARY,  # topic 0, the less prevalent
    ]
    assert "75.0 %" in text
    assert "80.0 %" in text


def test_summary(tmp_path):
    html = write(tmp_path / "report.html")
    assert "<h1>2 topics of 1,234 documents</h1>" in html
    assert "sampled by scir, seed 3." in html
    for shown in ("56,789", "690", "6.0 s", "1,000,000", "a1b2", "0.10.2"):
        assert f">{shown}<" in html
    assert "alpha = 0.1 for each of 2 topics, 0.2 in all" in html
    assert "beta = 0.05 for each of 6 words, 0.3 in all" in html
    assert "found nothing unusual" in html


def test_warnings_are_shown_and_escaped(tmp_path):
    html = write(tmp_path / "report.html", warnings=["12 documents of <corpus> are empty."])
    assert "<li>12 documents of &lt;corpus&gt; are empty.</li>" in html
    assert "found nothing unusual" not in html


@pytest.mark.parametrize(
    "metrics",
    [
        [],
        [{"documents": 500, "seconds": 2.0, "perplexity": None, "tokens_per_second": 1e6}],
        [{"documents": 500, "seconds": 2.0, "perplexity": float("nan")}],
    ],
    ids=["none", "not measured", "not finite"],
)
def test_without_perplexity(tmp_path, metrics):
    html = write(tmp_path / "report.html", metrics=metrics, settings={})
    Page(html)
    assert "<svg" not in html
    assert "Not measured" in html
    assert "nan" not in html


def test_one_evaluation_is_a_visible_point(tmp_path):
    html = write(tmp_path / "one.html", metrics=METRICS[:1])
    assert "fill: #8fb8bb" in html
    assert "fill: #8fb8bb" not in write(tmp_path / "many.html", metrics=METRICS * 10)


def test_same_input_gives_the_same_bytes(tmp_path):
    assert write(tmp_path / "a.html") == write(tmp_path / "b.html")


def test_bad_topics_are_refused_and_the_old_report_kept(tmp_path):
    path = tmp_path / "report.html"
    before = write(path)
    wrong = report.Topics(MEAN, MEAN, VOCABULARY[:5], np.ones(2) / 2)
    with pytest.raises(ValueError, match=r"mean \(2, 6\).*\(2, 5\)"):
        write(path, topics=wrong)
    with pytest.raises(ValueError, match="top_words must be at least 1"):
        write(path, top_words=0)
    assert path.read_text("utf-8") == before


def test_more_words_asked_than_there_are(tmp_path):
    Page(write(tmp_path / "report.html", top_words=50))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([None, None], None),
        ([900.0], None),
        ([900.0, 700.0, 705.0], None),
        ([900.0, 950.0], "did not fall: 900 at first, 950 at the end"),
        ([900.0, 700.0, 800.0], "rose again, from 700 to 800"),
        ([900.0, float("inf")], "not finite"),
    ],
)
def test_perplexity_warnings(values, expected):
    found = checks.topic_warnings([{"perplexity": v} for v in values], np.eye(2), [0.5, 0.5])
    assert len(found) == (expected is not None)
    if expected:
        assert expected in found[0]


def test_topic_warnings():
    mean = np.array([[0.8, 0.1, 0.1], [0.79, 0.11, 0.1], [0.0, 0.0, 1.0]])
    found = checks.topic_warnings([], mean, [0.5, 0.5, 0.0])
    assert len(found) == 2
    assert "belong to topic 2" in found[0]
    assert "Topics 0 and 1 are nearly the same" in found[1]
