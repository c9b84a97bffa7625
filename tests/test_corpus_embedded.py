"""The default corpus: made of installed sources, none of which is run."""

import sys

import numpy as np
import pytest

from simplex_jax.corpus import TextOptions, digest, embedded, embedded_corpus
from simplex_jax.corpus.embedded import documents

EVERY_WORD = TextOptions(min_df=1, max_df=1.0)
PROSE = (
    "Every eigenvector of a symmetric matrix belongs to one real eigenvalue and therefore two "
    "eigenvectors with distinct eigenvalues stay orthogonal under rotation"
)
SOURCE = f'''
"""{PROSE}, says this module."""
raise RuntimeError("this module was executed")

def public(x):
    """{PROSE}, says this function.

    Parameters
    ----------
    secretname : array_like
        Kept explanation with `some_code` and ``inline`` words.

    >>> doctested(1)
    doctestoutput

    See Also
    --------
    elsewhere : unrelated
    """

def duplicate():
    """{PROSE}, says this function. Kept explanation with and words."""

def short():
    """Briefly told elsewhere."""

def _private():
    """{PROSE}, says this hidden thing."""

class Thing:
    def method(self):
        """{PROSE}, says this method."""
        def inner():
            """{PROSE}, says this invisible one."""
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The only package there is, with sources that fail when run, and no standard library."""
    root = tmp_path / "site" / "thatpackage"
    for name, source in {
        "__init__.py": "",
        "_core/things.py": SOURCE,
        "tests/test_things.py": SOURCE.replace("says", "tests"),
        "broken.py": "def (",
        "nul.py": "a = '\0'",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(source)
    (tmp_path / "stdlib").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(embedded, "PACKAGES", ("thatpackage", "nosuchpackage"))
    monkeypatch.setattr(embedded.sysconfig, "get_path", lambda _: str(tmp_path / "stdlib"))
    return root


def test_documents_of_a_package(package):
    told = dict(documents())
    assert list(told) == [
        "thatpackage.things",
        "thatpackage.things.public",
        "thatpackage.things.Thing.method",
    ]
    assert "briefly told elsewhere" in told["thatpackage.things"]
    public = told["thatpackage.things.public"].split()
    assert {"eigenvector", "kept", "explanation"} <= set(public)
    dropped = {"secretname", "doctested", "doctestoutput", "unrelated", "inline", "parameters"}
    assert not dropped & set(public)
    assert "thatpackage" not in sys.modules


def test_lines_that_many_share_are_dropped(package):
    for number in range(5):
        (package / f"m{number}.py").write_text(
            f'"""{PROSE}.\n\nThe boilerplate line.\n\nUnique{"abcde"[number]}."""'
        )
    assert not any("boilerplate" in text for _, text in documents())


def test_embedded_corpus_of_a_package(package):
    corpus = embedded_corpus(EVERY_WORD)
    assert corpus.names[0] == "thatpackage.things"
    assert "eigenvector" in corpus.vocabulary
    assert "the" not in corpus.vocabulary
    assert digest(corpus) == digest(embedded_corpus(EVERY_WORD))


@pytest.mark.slow
def test_embedded_corpus():
    """Reads all sources: about 10 seconds."""
    before = set(sys.modules)
    corpus = embedded_corpus()
    assert not {name.split(".")[0] for name in set(sys.modules) - before} & {"optax", "turtle"}
    documents, words = corpus.counts.shape
    assert documents > 5000
    assert 2000 < words < 10_000
    lengths = np.asarray(corpus.counts.sum(axis=1))
    assert np.median(lengths) > 15
    assert {"eigenvalues", "thread", "polynomial", "gradient", "clustering"} <= set(
        corpus.vocabulary
    )
    assert "scipy.optimize.fmin" in corpus.names
