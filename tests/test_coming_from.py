"""Every block of Python in docs/coming_from.md runs, and does what its text says."""

from functools import partial

import pages
import pytest

PAGE = "coming_from.md"
executed = partial(pages.executed, PAGE)

pytestmark = pytest.mark.slow


def test_lda():
    arguments = executed("LDA")["arguments"]
    assert len(arguments["vocab"]) == 20


def test_clusters():
    tree = executed("Clusters, of a number that is not given")["tree"]
    assert "alpha" in tree["posterior"]


def test_every_block_is_run():
    assert pages.all_run(PAGE, __file__)
