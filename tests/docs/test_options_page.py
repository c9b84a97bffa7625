"""docs/options.md is what the declarations of the models say."""

import runpy

from support import pages


def test_the_page_is_that_of_the_declarations():
    page = runpy.run_path(str(pages.DOCS / "options.py"))["page"]()
    assert pages.text("options.md") == page, "run `python docs/options.py`"
    assert page.count("\n## ") == 6
