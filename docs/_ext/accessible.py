"""What Sphinx's pages lack for screen readers and keyboards, added to the HTML."""

from pathlib import Path

from sphinx.application import Sphinx

REPLACED = {
    # Captions of the navigation are headings of no level.
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    # Code, formulas and tables that are wider than the page scroll, and take the focus for that.
    "<pre>": '<pre tabindex="0">',
    '<div class="math">': '<div class="math" tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
}


def mend(app: Sphinx, error: Exception | None) -> None:
    """Add the attributes to all pages."""
    if error is None and app.builder.format == "html":
        for page in Path(app.outdir).rglob("*.html"):
            text = page.read_text("utf-8")
            for old, new in REPLACED.items():
                text = text.replace(old, new)
            page.write_text(text, "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", mend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
