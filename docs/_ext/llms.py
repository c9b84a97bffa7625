"""`llms.txt`: what each page is about, for programs that read documentation (llmstxt.org)."""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx


def write(app: Sphinx, error: Exception | None) -> None:
    """Write a line for each page, with its title, address and first sentence."""
    if error is not None or app.builder.format != "html":
        return
    lines = [f"# {app.config.project}", "", f"> {first(app, 'index')}", ""]
    for name in sorted(app.env.found_docs - {"index"}):
        lines.append(f"- [{app.env.titles[name].astext()}]({name}.html): {first(app, name)}")
    Path(app.outdir, "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")


def first(app: Sphinx, name: str) -> str:
    """Return the first paragraph of a page on one line."""
    paragraph = next(iter(app.env.get_doctree(name).findall(nodes.paragraph)), None)
    return "" if paragraph is None else " ".join(paragraph.astext().split())


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
