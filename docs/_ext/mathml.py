"""Formulas as MathML, which browsers draw by themselves: no script, no font, no network."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def visit(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula between lines."""
    self.body.append('<div class="math">' + convert(node.astext(), display="block") + "</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (visit, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
