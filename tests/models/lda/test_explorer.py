"""The explorer of the report: what it holds, that nothing in it becomes markup, and its script."""

import base64
import hashlib
import json
import re

import numpy as np
import pytest
from support import browser
from support.fits import topic_fit
from test_report import Page

from simplex_jax._src.evaluate.intervals import beta_interval
from simplex_jax._src.models import files, lda
from simplex_jax._src.models.lda import report
from simplex_jax._src.report import page

ATTACKS = (
    "</script><script>document.title='hit'</script>",
    "<img src=x onerror=\"document.title='hit'\">",
    "<!--<script>",
    "]]>\u2028\u2029&lt;b&gt;",
    "${document.title='hit'}",
    "__proto__",
    "\"'`\\",
    "שלום",
)


def fit(num_topics=3, words=40, documents=30, seed=0, **changes):
    """A fit of random topics, whose words and documents are attacks first."""
    rng = np.random.default_rng(seed)
    mean = rng.dirichlet(np.full(words, 0.3), num_topics).astype(np.float32)
    vocabulary = (*ATTACKS, *(f"word{i}" for i in range(words)))[:words]
    names = (*ATTACKS, *(f"text {i}" for i in range(documents)))[:documents]
    shares = rng.dirichlet(np.full(num_topics, 0.3), documents).astype(np.float32)
    values = {
        "prevalence": rng.dirichlet(np.ones(num_topics)),
        "names": names,
        "proportions": shares,
        "proportions_error": np.zeros(documents, np.float32),
        "examples": [
            [
                {"name": names[d], "share": float(shares[d, k]), "words": ["a", "b"], "text": text}
                for text in (*ATTACKS, "")
            ]
            for k, d in enumerate(shares.argmax(axis=0))
        ],
        "effects": [
            {"topic": k, "column": column, "term": term, "kind": kind}
            | {"mean": 0.2 + k / 10, "lower": -0.01, "upper": 0.5}
            | {"level": 0.95, "ordered": column == "age"}
            for k in range(num_topics)
            for column, term, kind in (
                (ATTACKS[1], f"{ATTACKS[1]}=R", "mean"),
                ("age", "age: >=9 - <=8", "difference"),
            )
        ],
        "settings": lda.Options(num_topics, chains=1, seed_words=[f"{ATTACKS[0]}: word0"]),
        "corpus": {"documents": documents, "tokens": 1000, "vocabulary": words},
    }
    return topic_fit(mean, vocabulary, **values | changes)


def written(path, fitted):
    files.report(lda.MODEL, fitted, path)
    return path.read_text("utf-8")


def parts(html):
    """Data and code of a page."""
    result = re.findall(r"<script([^>]*)>(.*?)</script>", html, flags=re.DOTALL)
    (data_tag, data), (code_tag, code) = result
    assert data_tag == ' type="application/json" id="explorer-data"'
    assert code_tag == ""
    return data, code


def test_the_policy_allows_this_script_and_no_other(tmp_path):
    html = written(tmp_path / "report.html", fit())
    tags = Page(html).tags
    (policy,) = (a["content"] for tag, a in tags if a.get("http-equiv"))
    digest = base64.b64encode(hashlib.sha256(parts(html)[1].encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    )


def test_data_cannot_leave_their_element(tmp_path):
    fitted = fit()
    data, code = parts(written(tmp_path / "report.html", fitted))
    assert not re.search(r"[<>&\u2028\u2029]", data)
    held = json.loads(data)
    assert held["documents"] == list(fitted.names)
    assert set(held["words"]) <= set(fitted.vocabulary)
    assert set(ATTACKS) <= set(held["words"])
    assert held["topics"][0]["name"] == ATTACKS[0]
    # The page is built of texts, and nothing is evaluated or fetched.
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|fetch|http", code
    )


def test_probabilities_and_intervals_are_right_to_half_a_per_cent():
    fitted = fit()
    held = report.explorer(fitted)
    overall = fitted.prevalence @ fitted.topics
    column = {word: i for i, word in enumerate(fitted.vocabulary)}
    seen = [column[word] for word in held["words"]]
    np.testing.assert_allclose(
        np.exp(np.array(held["overall"]) / held["unit"]), overall[seen], rtol=3e-3
    )
    for k, topic in enumerate(held["topics"]):
        words = [seen[i] for i in topic["words"]]
        result = np.exp(np.array([topic["p"], *topic["interval"]]) / held["unit"])
        mean, sd = fitted.topics[k, words], fitted.topics_sd[k, words]
        for row, expected in zip(result, (mean, *beta_interval(mean, sd)), strict=True):
            np.testing.assert_allclose(row, np.maximum(expected, 1e-15), rtol=3e-3)


def test_overall_includes_topics_that_are_left_out():
    fitted = fit()
    whole, left = report.explorer(fitted), report.explorer(fitted.drop([0]))
    before, after = (dict(zip(x["words"], x["overall"], strict=True)) for x in (whole, left))
    both = before.keys() & after.keys()
    assert len(both) > 10
    assert {word: before[word] for word in both} == {word: after[word] for word in both}


def test_words_of_every_stop_are_there():
    fitted = fit(5, 300)
    held = report.explorer(fitted)
    overall = fitted.prevalence @ fitted.topics
    for k, topic in enumerate(held["topics"]):
        words = {held["words"][i] for i in topic["words"]}
        for stop in np.linspace(0, 1, report.STOPS + 1):
            relevance = np.log(fitted.topics[k]) - (1 - stop) * np.log(overall)
            leading = np.argsort(-relevance)[: report.WORDS]
            assert {fitted.vocabulary[word] for word in leading} <= words


def test_documents_and_relatives_of_a_topic():
    fitted = fit()
    held = report.explorer(fitted)
    for k, topic in enumerate(held["topics"]):
        name, share, text = topic["documents"][0]
        first = fitted.proportions[:, k].argmax()
        assert (name, text) == (fitted.names[first], ATTACKS[0])
        assert dict(held["mixtures"][first])[k] == share
        assert topic["documents"][-1][2] == "a b"
        assert k not in dict(topic["related"])
        assert topic["effects"] == [[f"{ATTACKS[1]}=R", 200 + 100 * k, -10, 500]]
    assert held["all"] == {"words": 40, "documents": 30}


def test_one_topic_no_documents_no_intervals(tmp_path):
    unknown = np.full((1, 40), np.nan)
    nothing = {"proportions": np.zeros((0, 1), np.float32), "names": (), "examples": []}
    held = report.explorer(fit(1, topics_sd=unknown, **nothing))
    (topic,) = held["topics"]
    assert topic["interval"] is None
    assert topic["documents"] == topic["related"] == held["documents"] == []
    rough = {f"prevalence {k}": {"rhat": 1.0, "ess": 3.0} for k in range(3)}
    assert all(t["interval"] is None for t in report.explorer(fit(diagnostics=rough))["topics"])


@pytest.mark.slow
def test_a_large_run_stays_small(tmp_path):
    """K = 500, V = 50,000 and 100,000 documents in less than 20 MB."""
    large = fit(500, 50_000, 100_000)
    html = written(tmp_path / "report.html", large)
    assert len(html.encode()) < 20e6
    held = json.loads(parts(html)[0])
    assert len(held["documents"]) <= 10_000
    if not browser.is_there():
        pytest.skip(browser.MISSING)
    took = "performance.getEntriesByType('navigation')[0].domComplete"
    (seconds, shown), console = browser.visit(
        tmp_path / "report.html", took, "document.querySelectorAll('#explore-words li').length"
    )
    assert not console
    assert shown == report.WORDS
    assert seconds < 10_000


def of(name, rest=""):
    return f"document.getElementById('explore-{name}'){rest}"


@pytest.mark.slow
@pytest.mark.skipif(not browser.is_there(), reason=browser.MISSING)
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (420, True)])
def test_in_chromium(tmp_path, width, dark):
    """Clicks, slider, keys and search, on a page of attacks, and nothing in the console."""
    fitted = fit()
    written(tmp_path / "report.html", fitted)
    order = np.argsort(-fitted.prevalence)
    listed = f"[...{of('words')}.querySelectorAll('bdi')].map(x => x.textContent)"
    first_words = f"JSON.stringify({listed})"
    set_lambda = f"{of('lambda')}.value = %s; {of('lambda')}.dispatchEvent(new Event('input'))"
    set_search = f"{of('search')}.value = %s; {of('search')}.dispatchEvent(new Event('input'))"
    steps = {
        "hidden": "document.getElementById('explore').hidden",
        "right": set_lambda % 1 + "; " + first_words,
        "left": set_lambda % 0 + "; " + first_words,
        "key": "document.body.focus()",
        "typed": {"keys": "n"},
        "next": of("topic", ".value"),
        "slash": {"keys": "/"},
        "search": {"keys": "text 2"},
        "found": of("found", ".textContent"),
        "merged": f"{of('into')}.selectedIndex = 1; {of('into')}.dispatchEvent(new Event('change'))"
        + "; "
        + of("edits", ".textContent"),
        "attack": set_search % json.dumps(ATTACKS[0]) + "; " + of("found", ".textContent"),
        "clicked": of("found", ".querySelector('button').click()") + "; document.activeElement.id",
        "hash": "location.hash",
        "none": set_search % "'zzzz'" + "; " + of("found", ".textContent"),
        "linked": "location.hash = '#topic-1'",
        "followed": of("topic", ".value"),
        "documents": of("documents", ".textContent"),
        "known": of("effects", ".textContent"),
        "related": of("related", ".querySelector('button').click()"),
        "moved": of("topic", ".value"),
        "wide": "document.documentElement.scrollWidth <= innerWidth",
        "dark": "matchMedia('(prefers-color-scheme: dark)').matches",
        "elements": "document.querySelectorAll('img, script').length",
        "title": "document.title",
        "injected": "var s = document.createElement('script'); s.textContent = "
        "\"document.title = 'hit'\"; document.body.append(s); document.title",
    }
    values, console = browser.visit(
        tmp_path / "report.html", *steps.values(), width=width, dark=dark
    )
    seen = dict(zip(steps, values, strict=True))
    overall = fitted.prevalence @ fitted.topics
    top = fitted.topics[order[0]]
    for side, score in (("right", top), ("left", top / overall)):
        expected = [fitted.vocabulary[i] for i in np.argsort(-score)[: report.WORDS]]
        assert json.loads(seen[side]) == expected
    assert seen["hidden"] is False
    assert seen["next"] == str(order[1])
    group = "+".join(str(k) for k in sorted(order[:2]))
    assert (
        seen["merged"] == f"{group}\t{report.explorer(fitted)['topics'][order[0]]['name']}".strip()
    )
    assert "document text 2: " in seen["found"]
    assert f"word {ATTACKS[0]}: " in seen["attack"]
    assert f"document {ATTACKS[0]}: " in seen["attack"]
    assert seen["clicked"] == "explore-title"
    assert seen["hash"].startswith("#explore-")
    assert seen["none"].startswith("No match")
    assert seen["followed"] == "1"
    assert ATTACKS[1] in seen["documents"]
    assert seen["known"] == f"30.0%{ATTACKS[1]}=R"
    assert seen["moved"] == str(report.explorer(fitted)["topics"][1]["related"][0][0])
    assert seen["wide"]
    assert seen["dark"] == dark
    assert seen["elements"] == 2
    assert seen["title"] == seen["injected"] == "3 topics of 30 documents"
    assert len(console) == 1  # the refusal of the script injected last
    assert "Content Security Policy" in console[0]


def test_only_the_data_differ_between_pages():
    one, two = (page.script("explorer.js", [number]) for number in (1, 2))
    assert (one.code, one.digest) == (two.code, two.digest)
    assert one.data != two.data
