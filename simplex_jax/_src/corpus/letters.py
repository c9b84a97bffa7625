"""Words of any script in running text, including combining marks."""

import functools
import re
import unicodedata

_CAPITALS = "A-Z\u00c0-\u00d6\u00d8-\u00de\u0391-\u03a1\u03a3-\u03ab\u0401-\u042f"
_START, _END = r"(?<![^\W_])", r"(?![^\W_])"  # underscores around a word, as in _this_, are no part
PATTERN = rf"{_START}(?:[^\W\d_]\w+[^\W_]|[{_CAPITALS}]{{2}}){_END}"
"""The pattern that users see; it matches as `words` does in texts without marks."""

_JOINERS = "\u200c\u200d"  # within words of Persian, Hindi and others
_STYLES = "\ufe0e\ufe0f"  # marks, but of emoji, which a word may follow directly
_PLAIN = re.compile(PATTERN)
_PLAIN_RUN = re.compile(r"\w+")

# Scripts without blanks between words, and the mean length of their words when these are separated
_UNSPACED = {
    "Chinese or Japanese": (
        "\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff",
        4,
    ),
    "Thai": ("\u0e00-\u0e7f", 9),
    "Lao": ("\u0e80-\u0eff", 9),
    "Burmese": ("\u1000-\u109f", 10),
    "Khmer": ("\u1780-\u17ff", 10),
}
_ANY_UNSPACED = re.compile(f"[{''.join(letters for letters, _ in _UNSPACED.values())}]")
_SYLLABLES = re.compile("[\u1100-\u11ff\uac00-\ud7af]")  # of Korean, two of which make a word


def words(text: str) -> list[str]:
    r"""Return the words of a text, before its conversion to lower case.

    A word has three or more letters, digits and underscores, of which the first is a letter and the
    last no underscore; or two capital letters. A mark or a joiner after a letter counts as a
    letter: Python's `\w` excludes marks and would split words of many scripts.

    Example:
        >>> words("the rivers नदी and நதி, new_york, covid19, AI and 2nd or h2")
        ['the', 'rivers', 'नदी', 'and', 'நதி', 'new_york', 'covid19', 'AI', 'and']
    """
    may_have_marks, marked, _ = _patterns()
    # The plain pattern finds the same words in texts without marks, twice as fast.
    return (marked if may_have_marks.search(text) else _PLAIN).findall(text)


def others(text: str, pattern: re.Pattern[str] | None = None) -> list[str]:
    """Return the runs of letters, digits and underscores in a text outside of its words.

    Args:
        text: The text.
        pattern: The pattern of a word; by default that of `words`.

    Example:
        >>> others("It is the 2nd of 10 rivers")
        ['It', 'is', '2nd', 'of', '10']
    """
    may_have_marks, marked, run = _patterns()
    plain = may_have_marks.search(text) is None
    rest = (pattern or (_PLAIN if plain else marked)).sub(" ", text)
    return (_PLAIN_RUN if plain else run).findall(rest)


def unspaced(text: str) -> dict[str, tuple[int, int]]:
    """Return the number and total length of words of each script that has no blanks between words.

    Example:
        >>> unspaced("the word 荷物と灯台が見える")
        {'Chinese or Japanese': (1, 9)}
    """
    found: dict[str, tuple[int, int]] = {}
    if _ANY_UNSPACED.search(text) is None:
        return found
    run = _patterns()[2]
    for script, (letters, _) in _UNSPACED.items():
        some = re.compile(f"[{letters}]")
        if lengths := [len(word) for word in run.findall(text) if some.search(word)]:
            found[script] = (len(lengths), sum(lengths))
    return found


def runs_together(script: str, mean: float) -> bool:
    """Return whether words of a script have a mean length that only clauses have."""
    return mean > _UNSPACED[script][1]


def short_in(word: str) -> bool:
    """Return whether words of this word's script are whole words at one or two letters."""
    return bool(_ANY_UNSPACED.search(word) or _SYLLABLES.search(word))


@functools.cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a possible mark, of a word, and of a run of letters and digits."""
    # The planes that have marks; a fixed table would be outdated by the next version of Unicode.
    points = map(chr, (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0)))
    ranges: list[list[str]] = []
    for mark in points:
        if unicodedata.category(mark) not in ("Mn", "Mc") or mark in _STYLES:
            continue
        if ranges and ord(ranges[-1][1]) == ord(mark) - 1:
            ranges[-1][1] = mark
        else:
            ranges.append([mark, mark])
    marks = "".join(f"{first}-{last}" for first, last in ranges)
    basic = "".join(f"{first}-{last}" for first, last in ranges if last <= "\uffff")
    extra = f"{marks}{_JOINERS}"
    # A mark may be the last letter, and no word begins after one.
    word = (
        rf"{_START}(?<![{marks}])(?:[^\W\d_][\w{extra}]+(?:[^\W_]|[{extra}])|[{_CAPITALS}]{{2}})"
        rf"{_END}(?![{extra}])"
    )
    return (
        re.compile(f"[{basic}{_JOINERS}\U00010000-\U0010ffff]"),
        re.compile(word),
        re.compile(rf"\w[\w{extra}]*"),
    )
