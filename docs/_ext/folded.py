"""Long tables of the benchmarks are folded: the text above says what to conclude from them."""

from html import escape

from docutils import nodes
from sphinx.application import Sphinx

PAGE, LONGEST = "benchmarks", 7


def fold(app: Sphinx, document: nodes.document, page: str) -> None:
    """Fold the tables of the page that have more rows, under a line with their columns."""
    if page != PAGE or app.builder.format != "html":
        return
    for table in list(document.findall(nodes.table)):
        head, body = (next(table.findall(kind)) for kind in (nodes.thead, nodes.tbody))
        wrapper = table.parent  # the theme's, which scrolls
        if len(body) <= LONGEST or isinstance(wrapper.parent, nodes.container):  # folded by hand
            continue
        columns = [entry.astext() for entry in head[0] if entry.astext()]
        summary = escape(f"{len(body)} rows: {', '.join(columns)}")
        parent, place = wrapper.parent, wrapper.parent.index(wrapper)
        start = f'<details class="folded"><summary>{summary}</summary>'
        parent.insert(place + 1, nodes.raw("", "</details>", format="html"))
        parent.insert(place, nodes.raw("", start, format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("doctree-resolved", fold, priority=900)  # after the theme
    return {"parallel_read_safe": True, "parallel_write_safe": True}
