"""The site: `bash .ci/docs` builds it, and fails on a broken link or reference."""

import sys
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext")]

project = "simplex_jax"
author = "the simplex_jax developers"
copyright = author
release = metadata.version("simplex-jax")

extensions = [
    "accessible",
    "folded",
    "llms",
    "mathml",
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "tutorials",
    "api",  # after autodoc, whose events it uses
]
exclude_patterns = ["_build", "_ext", "jupyter_execute"]
nitpicky = False
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb", ".rst": "restructuredtext"}
# Names and code between single backticks.
default_role = "literal"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks/build.py executes them

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_class_signature = "separated"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
copybutton_exclude = ".linenos, .gp, .go"

html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"simplex_jax {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
