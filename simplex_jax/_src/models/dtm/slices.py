"""Documents in slices of time and groups, and the forest that their topics grow along.

A slice is a period, a group, or a period of a group. Within a group each continues the one before
it; the first of a group, and groups without time, have no parent but the base of the topic.
"""

import hashlib
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from simplex_jax._src.corpus import Corpus, digest, split
from simplex_jax._src.corpus.corpus import printable
from simplex_jax._src.corpus.frames import (
    cells_of,
    compact_dates,
    doubtful_dates,
    texts_of,
)
from simplex_jax._src.evaluate.covariates import Column, column
from simplex_jax._src.evaluate.diagnostics import listed
from simplex_jax._src.models.topics.data import (
    as_data,
    describe,
    in_memory,
    predictable,
    size_of,
)

WIDTHS = {"year": 1.0, "decade": 10.0}
"""Names of slices of a fixed width, in years."""

_MOST = 30  # slices by default


class Slices(NamedTuple):
    """T slices, each after the one that it continues; arrays are float64 or int64 [T]."""

    names: tuple[str, ...]
    groups: tuple[str, ...]  # names of the groups; empty if there are none
    group: np.ndarray  # index of the group, -1 if there are none
    times: np.ndarray  # the time that stands for the slice, NaN if there is no time
    first: np.ndarray  # earliest time of the slice
    last: np.ndarray  # latest time of the slice, or the first of the next one
    parents: np.ndarray  # the slice that it continues, -1 for none
    documents: np.ndarray  # documents in the slice

    @property
    def gaps(self) -> np.ndarray:
        """Time from each parent; 1 for slices without one, which is not used."""
        return np.where(self.parents < 0, 1.0, self.times - self.times[self.parents])

    @property
    def timed(self) -> bool:
        """Whether slices have times."""
        return bool(np.isfinite(self.times).all())

    def courses(self) -> dict[str, np.ndarray]:
        """Return the slices of each group in time, by its name; without times all at once."""
        if not self.timed or not self.groups:
            return {"": np.arange(len(self.names))}
        return {name: np.flatnonzero(self.group == g) for g, name in enumerate(self.groups)}

    def find(self, names: Sequence[str], times: Any = None, groups: Any = None) -> np.ndarray:
        """Return the slices of other documents by name, int64 [D]: of their group, the nearest.

        A time between two slices, before the first or after the last belongs to the slice whose
        own time is the nearest. Times or groups that the slices have must be given.

        Raises:
            ValueError: A time or group is missing, cannot be read, or is unknown.
        """
        for what, flag, have, given in (
            ("times", "--time", self.timed, times),
            ("groups", "--by", bool(self.groups), groups),
        ):
            if have != (given is not None):
                raise ValueError(
                    f"the slices of this fit have {'' if have else 'no '}{what}: "
                    f"{'give' if have else 'leave out'} {what} ({flag})"
                )
        count = len(names)
        code = np.full(count, -1)
        if self.groups:
            given_groups = _groups(names, groups)
            known = {group: i for i, group in enumerate(self.groups)}
            if new := [group for group in given_groups.groups if group not in known]:
                raise ValueError(
                    f"groups: the fit has no {listed(list(map(printable, new)))}: give such "
                    "documents in a call of their own, without times and groups, or with one of "
                    f"{listed(self.groups)}"
                )
            code = np.array([known[group] for group in given_groups.groups])[given_groups.values]
        result = np.zeros(count, np.int64)
        moments = _times(names, times).values if self.timed else np.zeros(count)
        for group in np.unique(code):
            own, rows = np.flatnonzero(self.group == group), np.flatnonzero(code == group)
            if not self.timed:
                result[rows] = own[0]
                continue
            at = moments[rows, None]
            far = np.abs(at - self.times[own])
            inside = (at >= self.first[own]) & (at < self.last[own])
            result[rows] = own[np.where(inside, -1.0, far).argmin(axis=1)]
        return result


class Sliced(NamedTuple):
    """A corpus whose documents are in slices."""

    corpus: Corpus
    slices: Slices
    place: np.ndarray  # slice of each document, int64 [D]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the documents."""
        return self.corpus.names


class HeldOut(NamedTuple):
    """Held-out documents, split in two."""

    observed: sp.csr_array  # [n, V]
    target: sp.csr_array
    place: np.ndarray  # slice of each document, [n]


def sliced(
    data: Any,
    times: Any = None,
    groups: Any = None,
    slices: str | int | None = None,
    predict: Any = (),
) -> Sliced:
    """Put documents into slices by their times, their groups or both.

    Args:
        data: Documents, as for `dtm.fit`.
        times: The time of each document: years, other numbers, or dates.
        groups: The group of each document.
        slices: "year", "decade", or the number of slices with about equally many documents; None
            for the first of these with at most 30 slices, or 20.
        predict: Further times, of which no document is.

    Raises:
        ValueError: A time or a group is missing or cannot be read; the message names documents.

    Example:
        >>> import numpy as np
        >>> made = sliced(np.ones((3, 2), int), [1914, 1919, 1931], slices="decade")
        >>> made.slices.names, made.place.tolist(), made.slices.gaps.tolist()
        (('1910-1919', '1930-1939'), [0, 0, 1], [1.0, 20.0])
    """
    if isinstance(data, Sliced):
        return data
    corpus = in_memory(as_data(data))
    names, count = corpus.names, len(corpus.names)
    predict = [] if predict is None else [predict] if np.ndim(predict) == 0 else list(predict)
    unsliced = (None, 1) if groups is None else (None,)
    if times is None and (predict or slices not in unsliced):
        raise ValueError("slices and predict are for documents with times: give times")
    grouped = Column("groups", "group", np.full(count, -1), ())
    if groups is not None:
        grouped = _groups(names, groups)
    if times is None:
        number = max(len(grouped.groups), 1)
        return Sliced(
            corpus,
            Slices(
                names=grouped.groups or ("all",),
                groups=grouped.groups,
                group=np.arange(number) if grouped.groups else np.array([-1]),
                **dict.fromkeys(("times", "first", "last"), np.full(number, np.nan)),
                parents=np.full(number, -1),
                documents=np.bincount(np.maximum(grouped.values, 0), minlength=number),
            ),
            np.maximum(grouped.values, 0),
        )
    periods, period = _periods(_times(names, times), slices, predict)
    count_of = np.zeros((max(len(grouped.groups), 1), len(periods)), np.int64)
    np.add.at(count_of, (np.maximum(grouped.values, 0), period), 1)
    # A group is predicted from its own first slice on.
    begun = np.cumsum(count_of, axis=1) > 0
    predicted = begun & (count_of == 0) & np.array([entry.asked != "" for entry in periods])
    for entry, new in zip(periods, predicted.any(axis=0), strict=True):
        if entry.asked and not new:
            of_all = " of all groups that have begun" if grouped.groups else ""
            raise ValueError(
                f"predict: {entry.asked} is in the slice {entry.name}, which has documents{of_all}"
            )
    kept = (count_of > 0) | predicted
    group, own = np.nonzero(kept)
    places = np.full(kept.shape, -1)
    places[group, own] = np.arange(len(group))
    label = [
        periods[i].name + " (predicted)" * bool(predicted[g, i])
        for g, i in zip(group, own, strict=True)
    ]
    if grouped.groups:
        label = [f"{grouped.groups[g]}, {name}" for g, name in zip(group, label, strict=True)]
    follows = np.append(False, group[1:] == group[:-1])
    return Sliced(
        corpus,
        Slices(
            names=tuple(label),
            groups=grouped.groups,
            group=group if grouped.groups else np.full(len(group), -1),
            times=np.array([periods[i].time for i in own]),
            first=np.array([periods[i].first for i in own]),
            last=np.array([periods[i].last for i in own]),
            parents=np.where(follows, np.arange(len(group)) - 1, -1),
            documents=count_of[group, own],
        ),
        places[np.maximum(grouped.values, 0), period],
    )


class _Period(NamedTuple):
    name: str
    time: float
    first: float
    last: float
    asked: str = ""  # a time to predict in it


def _periods(
    times: Column, slices: str | int | None, predict: Sequence[Any]
) -> tuple[list[_Period], np.ndarray]:
    """Return the periods, in order, and that of each document."""
    values = times.values
    if slices is None:
        counts = {name: len(np.unique(values // width)) for name, width in WIDTHS.items()}
        slices = next((name for name, number in counts.items() if 1 < number <= _MOST), 20)
    if isinstance(slices, str):
        width = WIDTHS[slices]
        starts, period = np.unique(values // width, return_inverse=True)
        starts *= width
        names = [f"{x:.0f}" if width == 1 else f"{x:.0f}-{x + width - 1:.0f}" for x in starts]
        # Whole years stand for themselves: the middle of 1910 to 1919 is 1914.5, and that of the
        # dates in these years 1915.
        middle = (width - 1) / 2 if (values % 1 == 0).all() else width / 2
        found = [
            _Period(name, x + middle, x, x + width) for name, x in zip(names, starts, strict=True)
        ]
    else:
        # Equal times stay together, so slices are equal as far as whole times allow.
        distinct, place, number = np.unique(values, return_inverse=True, return_counts=True)
        quantile = (np.cumsum(number) - number / 2) / len(values)
        _, of_time = np.unique(np.floor(quantile * slices), return_inverse=True)
        period = of_time[place]
        ends = [distinct[of_time == i][[0, -1]] for i in range(of_time.max() + 1)]
        found = [
            _Period(name, float(values[period == i].mean()), low, np.nextafter(high, np.inf))
            for i, (name, (low, high)) in enumerate(zip(_names(ends), ends, strict=True))
        ]
    extra = np.unique(_read("predict", predict).values) if predict else np.zeros(0)
    if extra.dtype.kind != "f" or not np.isfinite(extra).all():
        raise ValueError(f"predict must be times as those of documents; it is {predict!r}")
    earliest = min(p.first for p in found)
    for name, time in zip(_names([(time, time) for time in extra]), extra, strict=True):
        if time < earliest:
            raise ValueError(
                f"predict: {name} is before {found[0].name}, the first slice; give later times"
            )
        inside = [i for i, p in enumerate(found) if p.first <= time < p.last or p.time == time]
        if inside:  # which some groups may lack
            found[inside[0]] = found[inside[0]]._replace(asked=name)
        else:
            found.append(_Period(name, time, time, time, asked=name))
    order = sorted(range(len(found)), key=lambda i: found[i].time)
    rank = np.empty(len(found), np.int64)
    rank[order] = np.arange(len(found))
    return [found[i] for i in order], rank[period]


def _names(ends: Sequence[Sequence[float]]) -> list[str]:
    """Return names of periods by their ends, with as many digits as tell them apart."""
    names: list[str] = []
    for digits in range(6, 18):
        shown = [tuple(_shown(time, digits) for time in pair) for pair in ends]
        names = [low if low == high else f"{low}-{high}" for low, high in shown]
        if len(set(names)) == len(names):
            break
    return names


def _shown(time: float, digits: int = 6) -> str:
    return f"{time:.0f}" if time == round(time) else f"{time:.{digits}g}"


def _times(names: Sequence[str], times: Any) -> Column:
    """Return times as numbers, or raise a ValueError that names documents without one."""
    read = _read("times", times)
    _check(names, "time", read, times)
    if read.kind == "group":
        array, _ = cells_of("times", times)
        texts = texts_of("times", array)
        distinct = set(texts)
        unread = {text for text in distinct if _read("times", [text]).kind == "group"} or distinct
        shown = [row for row, text in enumerate(texts) if text in unread]
        some = [f"{printable(array[row])!r} of {printable(names[row])!r}" for row in shown[:3]]
        remedy = doubtful_dates(texts) or "correct them, or leave these documents out"
        raise ValueError(
            f"times: {len(shown):,} of {len(array):,} are neither numbers nor dates of one "
            f"format, such as {', '.join(some)}: {remedy}"
        )
    return read


def _read(name: str, times: Any) -> Column:
    """Return times as a column, of groups if they cannot be read as numbers or dates."""
    if str(getattr(times, "dtype", "")) == "category":
        times = np.asarray(times)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of is an error here
        read = column(name, times)
    if read.kind == "number" and compact_dates(values := read.values[np.isfinite(read.values)]):
        raise ValueError(
            f"{name}: {values[0]:.0f} may be a date or a number: write dates with hyphens, as "
            "2020-03-14 or 2020-03; of numbers subtract the first"
        )
    return read


def _groups(names: Sequence[str], groups: Any) -> Column:
    """Return groups by their texts, or raise a ValueError that names documents without one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numbers are groups too
        read = column("groups", groups)
    if read.kind != "group":
        array, missing = cells_of("groups", groups)
        texts = np.array(texts_of("groups", array[~missing]), object)
        labels, first, codes = np.unique(texts.astype(str), return_index=True, return_inverse=True)
        order = np.argsort(read.values[~missing][first], kind="stable")  # of numbers and dates
        values = np.full(len(array), -1)
        values[~missing] = np.argsort(order)[codes]
        read = Column("groups", "group", values, tuple(map(str, labels[order])))
    _check(names, "group", read, groups)
    return read


def _check(names: Sequence[str], what: str, read: Column, given: Any) -> None:
    if len(read.values) != len(names):
        raise ValueError(
            f"{what}s must be one for each of {len(names):,} documents; there are "
            f"{len(read.values):,}"
        )
    values = read.values
    missing = np.flatnonzero(values < 0 if read.kind == "group" else ~np.isfinite(values))
    if missing.size:
        some = listed([repr(printable(names[int(row)])) for row in missing])
        cells = cells_of(f"{what}s", given)[0][missing]
        text = next((cell for cell in cells if isinstance(cell, str) and cell.strip()), None)
        why = "" if text is None else f" ({text!r} counts as missing: give it another name)"
        raise ValueError(
            f"{what}s: {missing.size:,} of {len(names):,} documents have no {what}, {some}{why}: "
            "add them, or leave these documents out"
        )


def digest_of(data: Sliced) -> str:
    """Return the digest of the documents and their slices."""
    total = hashlib.sha256(digest(data.corpus).encode())
    for array in (data.place, data.slices.parents, data.slices.gaps):
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def hold_out(data: Sliced, count: int, seed: int) -> tuple[Sliced, HeldOut | None]:
    """Hold out documents as `topics.data.hold_out` does, with their slices."""
    out = split.held_out(len(data.names), count, seed)
    halves = split.split_tokens(data.corpus.counts[out], seed)
    train = data._replace(corpus=split.rows(data.corpus, ~out), place=data.place[~out])
    if predictable(*halves) and size_of(train.corpus).tokens:
        return train, HeldOut(*halves, data.place[out])
    return data, None


def facts(plan: Any) -> dict[str, Any]:
    """Return facts about the documents of a run."""
    return describe(plan._replace(data=plan.data.corpus)) | {"slices": len(plan.data.slices.names)}
