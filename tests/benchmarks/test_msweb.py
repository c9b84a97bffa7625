"""The benchmarks' reader of the Microsoft web data: what it reads exactly, and refuses."""

import gzip
import importlib

import numpy as np
import pytest
from support.paths import BENCHMARKS

from simplex_jax._src.corpus import CorpusError

HEAD = 'I,4,"www.microsoft.com","created by getlog.pl"\nT,1,"VRoot",0,0,"VRoot"\nN,0,"0"\n'
AREAS = 'A,1003,1,"Office","/office"\nA,1001,1," Project ","/a"\nA,1002,1,"Project","/b"\n'
CASES = 'C,"10001",10001\nV,1003,1\nV,1001,1\nC,"10002",10002\nC,"10003",10003\nV,1002,1\n'
COUNTS = [[1, 0, 1], [0, 0, 0], [0, 1, 0]]


@pytest.fixture
def read(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("msweb").read


@pytest.mark.parametrize(
    "content",
    [
        HEAD + AREAS + CASES,
        (HEAD + AREAS + CASES).replace("\n", "\r\n"),
        AREAS + CASES.rstrip(),
        CASES + AREAS + "\n\n",
    ],
    ids=["whole", "crlf", "without description", "attributes last"],
)
@pytest.mark.parametrize("name", ["x.data", "x.test", "x.data.gz", "anything"])
def test_cases_and_attributes(read, tmp_path, content, name):
    data = content.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    corpus = read(tmp_path / name)
    np.testing.assert_array_equal(corpus.counts.toarray(), COUNTS)
    assert corpus.vocabulary == ("Project (/a)", "Project (/b)", "Office"), "in the order of ids"
    assert corpus.names == ("10001", "10002", "10003")


def test_votes_twice_are_counted_twice(read, tmp_path):
    (tmp_path / "x").write_text(HEAD + AREAS + CASES + "V,1002,1\n")
    assert read(tmp_path / "x").counts[2, 1] == 2


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        (HEAD + "V,1001,1\n" + AREAS + CASES, 4, "a vote before"),
        (HEAD + AREAS + CASES + "V,1004,1\n", 13, "1004, "),
        (HEAD + AREAS + 'A,1001,1,"Again","/c"\n' + CASES, 7, "attribute 1001 is there twice"),
        (HEAD + AREAS + CASES + "V,-1,1\n", 13, "'-1' "),
        (HEAD + AREAS + CASES + "V,nan,1\n", 13, "'nan' "),
        (HEAD + AREAS + CASES + "V,1001\n", 13, "2 fields instead of 3"),
        (HEAD + AREAS + CASES + "X,1001,1\n", 13, "'X'"),
        (HEAD + AREAS + CASES + 'C,"1', 13, "malformed record"),
        (HEAD + CASES.replace("V", "N"), None, "no attribute"),
        (HEAD + AREAS, None, "no case"),
        (HEAD + AREAS + 'C,"1",1\n', None, "document is empty"),
        (HEAD + 2 * 'A,1001,1,"a","/a"\n'.replace("1001", "1") + CASES, 5, "twice"),
        (
            HEAD + AREAS + 'A,1,1,"Project","/a"\n' + CASES,
            None,
            r"repeats word 0, 'Project \(/a\)'",
        ),
    ],
)
def test_malformed(read, tmp_path, content, line, says):
    (tmp_path / "bad.data").write_text(content)
    with pytest.raises(CorpusError, match=says) as caught:
        read(tmp_path / "bad.data")
    message = str(caught.value)
    assert message.isprintable()
    assert f"bad.data{'' if line is None else f':{line}'}: " in message
    assert message.rsplit("; ", 1)[1]


def test_the_whole_set(read, shared_data):
    folder = shared_data / "msweb"
    if not folder.is_dir():
        pytest.skip("no msweb folder there")
    train, test = (read(folder / f"anonymous-msweb.{part}") for part in ("data", "test"))
    assert train.counts.shape == (32_711, 294)
    assert test.counts.shape == (5_000, 294)
    assert (train.counts.sum(), test.counts.sum()) == (98_654, 15_191)
    assert train.vocabulary == test.vocabulary
