"""The default corpus: documentation strings of the Python packages installed here.

The source files are parsed with `ast`; nothing in them is imported or executed.
"""

import ast
import importlib.util
import inspect
import re
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from simplex_jax.corpus.corpus import Corpus
from simplex_jax.corpus.text import TextOptions, from_texts

PACKAGES = ("jax", "matplotlib", "numpy", "optax", "scipy", "sklearn")
"""Packages read besides the standard library: dependencies of this one, so always there."""

EMBEDDED_OPTIONS = TextOptions(min_df=10, max_df=0.08)
"""Vocabulary limits of the default corpus; they leave about 3,400 words."""

_MIN_WORDS = 20  # in a document that stands alone
_MAX_REPEATS = 4  # documents that may share a line: beyond, it is boilerplate

_SKIPPED_FOLDERS = {"_vendor", "idle_test", "site-packages", "test", "testing", "tests"}
_SKIPPED_SECTIONS = re.compile(r"(references|see also)\b.*", re.IGNORECASE)
_UNDERLINE = re.compile(r"\s*([-=~^\"*#+])\1{2,}\s*")
_PROMPT = re.compile(r"\s*>>> ")
# Directives, shell commands, assignments, calls alone on a line, arrows; `name : type` lines.
_CODE = re.compile(r"\s*(\.\.|[$%] |@)|.*([={};|]|->)|\s*[\w.]+\(.*\)\s*$|\s*[\w*., ]+ :( |$)")
_INLINE = re.compile(r"``.*?``|:math:`.*?`|%\(\w+\)s|\w+://\S+|:[\w:]+:(?=`)|\S*[\w*][_\\@/.]\w\S*")
_WORD = re.compile(r"[a-z]{3,}")

# Words that documentation uses whatever it is about.
_GENERIC = frozenset(
    """
    able accept accepted accepts access according actual actually add added additional additionally
    allow allowed allows alternative api applied applies apply appropriate arg args argument
    arguments array arrays associated assume assumed assumes attribute attributes automatically
    available avoid bar base based basic behave behavior behaviour bool boolean build built builtin
    call callable called caller calling calls case cases change changed changes check checks choose
    class classes code common compatible compute computed computes computing configuration
    considered contain contained containing contains convention convert converted copy correct
    corresponding corresponds create created creates creating current currently custom default
    defaults define defined defines definition depending depends deprecated describe described
    description desired details determine determined determines dict dictionary different directly
    documentation does doc docs docstring dtype easier easily effect either element elements empty
    enabled end ensure entire entries entry equal equivalent error errors evaluate evaluated exactly
    example examples exception exist existing exists expected explicitly extra fail fails false
    field fields follow following follows foo form function functions general generally generate
    generated generic get gets given gives glossary guide handle handled hand help helper hold holds
    https ignored implement implementation implementations implemented implements implies important
    include included includes including index indicate indicates indicating info information inner
    input inputs inside instance instances instead int integer integers interface internal
    internally item items just keep key keys keyword know known kwargs large larger left length let
    like likely list lists look make makes making manner match matching mean meaning means method
    methods missing module modules multiple name named names necessary need needed needs new non
    none normally note notes number numbers numpy object objects obtain obtained occur old omitted
    operation operations option optional optionally options order ordering original output outputs
    overridden override package pair pairs param parameter parameters particular pass passed passing
    perform performed performs place point possible prior process produce produced produces provide
    provided provides purpose put python raise raised raises read recommended refer reference
    related replace replaced represent representation representing represents require required
    requires respectively result resulting results return returned returning returns right run
    running runs safe second section seen self sequence set sets setting several shape shaped
    short similar simple simply single size small smaller special specific specified specifies
    specify specifying standard start starting store stored str string strings structure
    subclass subclasses suitable support supported supports sure syntax table take taken takes
    target temporary test tests treat treated true try tuple tuples turn type types typically
    underlying undefined unless unspecified updated usage use used useful user users uses using
    usual usually valid valueerror value values variable variables various version versions want way
    ways whether wise work works wrapper write written yield yields zero don doesn isn
    """.split()  # noqa: SIM905
)


def embedded_corpus(options: TextOptions = EMBEDDED_OPTIONS) -> Corpus:
    """Corpus of the documentation of Python and of the scientific packages in `PACKAGES`.

    A document is the documentation string of a public module, class or function that has at least
    20 words once code, section titles, reference lists, lines that more than four documents share
    and words that any documentation uses are taken out; shorter ones join that of their module,
    and documents with the same text count once. Tests are left out. The names are the dotted names
    of the objects, without private modules.

    The corpus is a function of the installed versions alone: about 7,500 documents and 270,000
    tokens, read in 10 to 15 seconds on one core. `digest` tells whether two machines have the same.

    Args:
        options: tokens and vocabulary limits.

    Returns:
        The corpus, ordered by package, then file, then place in the file.

    Raises:
        CorpusError: no source is installed, or `options` leave no word.
    """
    names, texts = [], []
    for name, text in documents():
        names.append(name)
        texts.append(text)
    return from_texts(texts, names, options=options, source="the installed documentation")


def documents() -> Iterator[tuple[str, str]]:
    """Name and cleaned text of every document of the default corpus."""
    modules = [_cleaned(module, path) for module, path in _sources()]
    shared = Counter(line for entries in modules for _, lines in entries for line in set(lines))
    seen = set()
    for entries in modules:
        proses = [
            _prose(line for line in lines if shared[line] <= _MAX_REPEATS) for _, lines in entries
        ]
        short = [word for prose in proses[1:] if len(prose) < _MIN_WORDS for word in prose]
        proses[0] += short
        for (name, _), words in zip(entries, proses, strict=True):
            text = " ".join(words)
            if len(words) >= _MIN_WORDS and text not in seen:
                seen.add(text)
                yield name, text


def _prose(lines: Iterable[str]) -> list[str]:
    return [word for line in lines for word in _WORD.findall(line) if word not in _GENERIC]


def _cleaned(module: str, path: Path) -> list[tuple[str, list[str]]]:
    """Names and lines of prose, those of the module first."""
    found = [(name, _clean_lines(doc)) for name, doc in _docstrings(module, path)]
    return found if found and found[0][0] == module else [(module, []), *found]


def _sources() -> Iterator[tuple[str, Path]]:
    """Dotted module name and path of every source file, in a fixed order."""
    roots = [("", Path(sysconfig.get_path("stdlib")))]
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            roots.append((package, Path(spec.submodule_search_locations[0])))
    for package, root in roots:
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            if not _SKIPPED_FOLDERS.intersection(parts) and not parts[-1].startswith("test_"):
                named = [package] if package else []
                named += [part for part in parts if not part.startswith("_")]
                yield ".".join(named or parts), path


def _docstrings(module: str, path: Path) -> Iterator[tuple[str, str]]:
    """Dotted name and documentation string of what is public in a source file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return  # templates and samples of bad code are installed as .py too
    pending: list[tuple[str, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]
    pending = [(module, tree)]
    while pending:
        name, node = pending.pop()
        doc = ast.get_docstring(node, clean=False)
        if doc:
            yield name, inspect.cleandoc(doc)
        if isinstance(node, ast.Module | ast.ClassDef):
            pending += [
                (f"{name}.{child.name}", child)
                for child in reversed(node.body)
                if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                and not child.name.startswith("_")
            ]


def _clean_lines(doc: str) -> list[str]:
    """Lines of prose in lower case, without code, titles and references."""
    lines = doc.splitlines()
    kept = []
    skipping = example = False
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if _UNDERLINE.fullmatch(following) and line.strip():
            skipping = _SKIPPED_SECTIONS.fullmatch(line.strip()) is not None
            continue
        # The output of an example follows it up to the next blank line.
        example = bool(_PROMPT.match(line)) or (example and bool(line.strip()))
        if not (skipping or example or _CODE.match(line)):
            kept.append(_INLINE.sub(" ", line).strip().lower())
    return kept
