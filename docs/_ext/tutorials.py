"""The notebooks as pages, with the pictures that they were kept with; nothing is executed here."""

import shutil
from pathlib import Path

from sphinx.application import Sphinx


def copy(app: Sphinx) -> None:
    """Copy the notebooks to where Sphinx reads pages."""
    place = Path(app.srcdir, "tutorials")
    place.mkdir(exist_ok=True)
    for path in Path(app.srcdir).parent.glob("notebooks/*.ipynb"):
        shutil.copyfile(path, place / path.name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
