"""Columns are read as what they are, and the terms of a design answer what is asked."""

import datetime

import numpy as np
import pytest

from simplex_jax._src.evaluate import composition, covariates
from simplex_jax._src.evaluate.covariates import column, cut, design


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, 2.5, 3], "number", [1, 2.5, 3]),
        (np.array([1, np.inf, np.nan]), "number", [1, np.nan, np.nan]),
        (["1", " 2e3 ", "", None, "NA"], "number", [1, 2000, np.nan, np.nan, np.nan]),
        (["2019-01-01", "2020-07-02", ""], "date", [2019, 2020.5, np.nan]),
        (["2020", "2020-07", "NA"], "date", [2020, 2020 + 182 / 366, np.nan]),
        (["2020", "2021Z"], "group", [0, 1]),
        (["2020-07", "2020-07-02T00:00:00Z"], "date", [2020 + 182 / 366, 2020.5]),
        (["2024-01-01T00:00:00+02:00", "2024-01-01 00:00-0530", ""], "date", [2024, 2024, np.nan]),
        (["2020-07-02T00:00:00.25+01", "2020-07-02 00:00:00+00:53:28"], "date", [2020.5, 2020.5]),
        (["2024-01-01+02:00", "2024-01-02+02:00"], "group", [0, 1]),  # no time, and no clock
        (np.array(["2020-01-01", "NaT"], "datetime64[D]"), "date", [2020, np.nan]),
        ([datetime.date(2021, 1, 1), None], "date", [2021, np.nan]),
        (np.ma.array([1, 2, 999], mask=[0, 0, 1]), "number", [1, 2, np.nan]),
        (np.ma.array(["2020", "1999"], "datetime64[ns]", mask=[0, 1]), "date", [2020, np.nan]),
        (np.ma.array(["b", "?", "a"], mask=[0, 1, 0]), "group", [1, -1, 0]),
        (["b", "a", "", "b"], "group", [1, 0, -1, 1]),
        (["2020-7-2", "2019-01-1"], "date", [2020.5, 2019]),
        (["1", "x"], "group", [0, 1]),
        (["1_0", "2_0"], "group", [0, 1]),
        (["1/1/2020", "12/31/2019", ""], "date", [2020, 2019 + 364 / 365, np.nan]),
        (["1/2/2020 00:00", "31/1/2020 12:00"], "date", [2020 + 31 / 366, 2020 + 30.5 / 366]),
        (["1.7.2021", "2.7.2021"], "date", [2021 + 181 / 365, 2021 + 182 / 365]),
        (["July 2, 2020", "January 1, 2019"], "date", [2020.5, 2019]),
        (["May", "April", "Sat"], "group", [1, 0, 2]),
        ([b"b", b"a"], "group", [1, 0]),
        ([True, False, None], "group", [1, 0, -1]),
        (np.array([True, False]), "group", [1, 0]),
    ],
)
def test_a_column_is_what_all_its_values_are(values, kind, expected):
    result = column("c", values)
    assert result.kind == kind
    np.testing.assert_allclose(result.values, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (["1,000", "250"], "groups: '1,000'"),
        (["0,5", "1,25"], "groups: '0,5'"),
        (["$5", "$6.50"], "groups: '.5' "),
        (["12%", "9 %"], "groups: '12%'"),
        (["\u22125", "3"], r"groups: '−5' .* as -1234.5"),
        (["(5)", "1\u2019000"], r"groups: '\(5\)'"),
        (["5", "6", "inf"], r"2 of its 3 .* 'inf' "),
        (["1990Q1", "1990Q2"], "groups: '1990Q1'"),
        (["2020-02-30", "2020-01-01"], "'2020-02-30' looks"),
        (["5 März 2020", "31 Mai 2020"], "'5 März 2020' looks"),
        (["Thu, 05 Mar 2020 10:00:00 +0000", "Fri, 06 Mar 2020"], "'Thu, 05 Mar 2020 10:"),
        (["2020-W1", "2020-W52"], "groups: '2020-W1'"),
        (["01/1990", "12/1990"], "groups: '01/1990' is a month"),
        (["1914", "1920", "n.d."], r"2 of its 3 .* 'n.d.' "),
        (["3/4/2020", "5/6/2020"], r"'3/4/2020' .* 2020-"),
        (["3/14/20", "3/15/20"], "'3/14/20'"),
        (["2020-01-02", "1/2/2020"], r"'2020-01-02', .*as 2020-03-14"),
        (["2020-01-02", "2021-01-01", "soon"], r"dates, .* 'soon' "),
        ([20200314, 19991231], r"numbers: if 20200314 .* 2020-03-14"),
        (["20200314", "19991231"], "numbers: if 20200314 is a date"),
        ([202011, 202012, 202101], "numbers: if 202011 is a date"),
        (np.array([np.inf, 20200314, 19991231]), "numbers: if 20200314 is a date"),
    ],
)
def test_columns_that_may_be_meant_as_numbers_or_dates_are_warned_of(values, says):
    with pytest.warns(UserWarning, match=f"column 'c' is taken for {says}|{says}"):
        column("c", values)


def test_columns_of_names_are_groups_without_a_warning(recwarn):
    for values in (
        ["R", "D", "I"],
        ["O'Neil", "2 b", "C3"],
        [True, False],
        ["1st", "2nd"],
        ["12-34-5678", "98-76-5432"],
        ["12 Main 1234", "Room 12 2020"],
        ["10 per 1000", "Section 3, 1234"],
        ["Q1", "Q4"],
    ):
        assert column("c", values).kind == "group"
    assert not recwarn


def test_columns_of_a_data_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"n": [1.0, None], "g": pandas.Categorical(["x", None])})
    frame["w"] = pandas.to_datetime(["2020-01-01", None])
    frame["z"] = frame["w"].dt.tz_localize("Europe/Berlin")
    frame["i"] = pandas.array([3, None], dtype="Int64")
    kinds = [column(name, frame[name]).kind for name in "ngwzi"]
    assert kinds == ["number", "group", "date", "date", "number"]
    for zoned in (frame["z"], pandas.DatetimeIndex(frame["z"]), frame["z"].tolist()):
        assert column("z", zoned).values.tolist()[0] == 2020
    assert column("i", frame["i"]).values.tolist()[0] == 3


@pytest.mark.parametrize("of", ["Series", "Categorical", "CategoricalIndex"])
def test_categories_of_a_data_frame_are_groups_in_their_order(of):
    pandas = pytest.importorskip("pandas")
    codes = getattr(pandas, of)(pandas.Categorical([1, 3, None, 2], categories=[3, 2, 1, 9]))
    result = column("c", codes)
    assert (result.kind, result.groups) == ("group", ("3", "2", "1"))  # There is no 9.
    assert result.values.tolist() == [2, 0, -1, 1]
    with_gaps = getattr(pandas, of)(pandas.Categorical([1.0, None, 2.5]))  # 1 became a float
    assert column("c", with_gaps).groups == ("1", "2.5")
    places = pandas.Categorical(["US", "", "NA", None, "US"], ["US", "NA", ""])
    assert column("c", places).groups == ("US", "NA")  # Namibia
    assert column("c", places).values.tolist() == [0, -1, 1, -1, 0]
    terms = design({"c": pandas.Categorical(["b", "a", "b", "a", "b"], ["b", "a"])}).terms
    assert [term.label for term in terms] == ["b", "a", "a - b"]


def test_numbers_are_cut_at_multiples_of_the_width():
    years = column("y", [1914, 1920, 1919, None, 2009])
    assert cut(years, 10).groups == ("1910-1919", "1920-1929", "2000-2009")
    assert cut(years, 10).values.tolist() == [0, 1, 0, -1, 2]
    assert cut(years, 1).groups == ("1914", "1919", "1920", "2009")
    assert cut(column("x", [0.2, -0.1]), 0.25).groups == ("[-0.25, 0)", "[0, 0.25)")
    assert cut(column("d", ["2019-12-31", "2020-01-01"]), 1).groups == ("2019", "2020")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("every", [0.1, 0.3, 0.7, 1 / 3])
def test_numbers_within_rounding_of_an_edge_begin_a_group(every, dtype):
    edges = np.arange(-50, 50)
    assert cut(column("x", (edges * every).astype(dtype)), every).values.tolist() == [*range(100)]
    # The sums 0, every, every + every, ... and what is clearly below an edge
    assert cut(column("x", np.cumsum([0.0, *[0.1] * 9])), 0.1).values.tolist() == [*range(10)]
    below = cut(column("x", ((edges - 1e-4) * every).astype(dtype)), every)
    assert below.groups == cut(column("x", (edges - 0.5) * every), every).groups


def test_labels_of_groups_differ_where_numbers_are_large():
    x = 1234560 + np.arange(60) / 20
    assert cut(column("x", x), 1).groups == (
        "[1234560, 1234561)",
        "[1234561, 1234562)",
        "[1234562, 1234563)",
    )
    assert cut(column("x", [0.5, 1e6 + 0.5]), 1).groups == ("[0, 1)", "[1000000, 1000001)")
    assert cut(column("x", [0.05, 5e5 + 0.05]), 0.1).groups == ("[0, 0.1)", "[500000, 500000.1)")


RNG = np.random.default_rng(3)
N = 60
PARTY = np.array(["D", "R", "I"])[RNG.integers(0, 3, N)]
YEAR = RNG.integers(1900, 2000, N)
SHARES = RNG.random((N, 2))


def told(columns, shares=SHARES, **options):
    """Values of the terms by column and label, of each share."""
    made = design(columns, **options)
    asked = np.stack([term.row for term in made.terms])
    result = composition.Regression(made.matrix, asked).of(np.asarray(shares)[made.rows])
    return {
        (term.column, term.label): result.mean[:, place] for place, term in enumerate(made.terms)
    }


def test_of_groups_the_terms_are_means_and_differences_from_the_first():
    result = told({"party": PARTY})
    means = {party: SHARES[party == PARTY].mean(axis=0) for party in "DIR"}
    assert [label for _, label in result] == ["D", "I", "R", "I - D", "R - D"]
    for party, mean in means.items():
        np.testing.assert_allclose(result["party", party], mean, rtol=1e-10)
    np.testing.assert_allclose(result["party", "R - D"], means["R"] - means["D"], rtol=1e-8)


def test_of_numbers_the_terms_are_a_line_and_its_slope():
    result = told({"year": YEAR})
    slope, offset = np.polyfit(YEAR, SHARES[:, 0], 1)
    assert result["year", "slope"][0] == pytest.approx(slope, rel=1e-8)
    low = YEAR.min()
    assert result["year", f"{low}"][0] == pytest.approx(offset + slope * low, rel=1e-8)
    assert len(result) == covariates.POINTS + 1


def test_a_spline_passes_through_what_is_one_and_ends_in_its_difference():
    """A straight line is a natural spline, and so is found again."""
    line = 0.2 + 0.003 * (YEAR - 1900)
    result = told({"year": YEAR}, line[:, None], smooth=4)
    assert len(result) == covariates.POINTS + 1
    low, high = YEAR.min(), YEAR.max()
    assert result["year", f"{low}"][0] == pytest.approx(0.2 + 0.003 * (low - 1900))
    assert result["year", f"{high} - {low}"][0] == pytest.approx(0.003 * (high - low))
    curve = np.sin((YEAR - 1900) / 16)[:, None]
    near = told({"year": YEAR}, curve, smooth=9)
    at = [float(label) for _, label in near if " - " not in label]
    values = [value[0] for (_, label), value in near.items() if " - " not in label]
    np.testing.assert_allclose(values, np.sin((np.array(at) - 1900) / 16), atol=0.05)


def test_with_several_columns_the_others_stand_at_their_mean():
    result = told({"party": PARTY, "year": YEAR}, by=["year", "party"])
    matrix = np.column_stack([np.ones(N), PARTY == "I", PARTY == "R", YEAR]).astype(float)
    b = np.linalg.lstsq(matrix, SHARES[:, 0])[0]
    assert result["party", "R - D"][0] == pytest.approx(b[2], rel=1e-6)
    assert result["year", "slope"][0] == pytest.approx(b[3], rel=1e-6)
    assert result["party", "R"][0] == pytest.approx(b[0] + b[2] + b[3] * YEAR.mean(), rel=1e-6)


def test_documents_that_lack_a_covariate_are_left_out():
    party = [None, *PARTY[1:]]
    assert design({"party": party, "year": YEAR}).rows.tolist() == list(range(1, N))


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ({"party": PARTY}, {"by": ["year"]}, "no column 'year'"),
        ({}, {}, r"^by "),
        ({"party": ["D"] * 9}, {}, r"'party' .* 'D'"),
        ({"year": [3] * 9}, {}, r"'year' .* 3"),
        ({"year": [None] * 9}, {}, "'year' has no value"),
        ({"a": PARTY, "b": PARTY[1:]}, {}, "of one length"),
        ({"name": [f"n{i}" for i in range(9)]}, {}, r"9 .* 9 coefficients"),
        ({"a": YEAR, "b": YEAR * 2.0 + 1}, {}, r"^a, b "),
        ({"party": PARTY}, {"every": 10}, r"^every .*omit it"),
        ({"year": YEAR}, {"every": 0}, r"^every .*0$"),
        ({"x": [0, 1] * 30}, {"smooth": 4}, r"'x' has 2 .* smooth=4"),
        (
            {"x": [0] * 50 + [*range(9)]},
            {"smooth": 4},
            r"column 'x' .*knots of smooth=4",
        ),
        ({"x": np.zeros((60, 2))}, {}, r"^column 'x' .*\(60, 2\)$"),
        ({"year": YEAR}, {"smooth": 0}, "smooth"),
    ],
)
def test_what_makes_no_design_is_refused(columns, options, says):
    with pytest.raises(ValueError, match=says):
        design(columns, **options)


def test_numbers_in_half_precision_make_the_design_of_their_values():
    numbers = np.linspace(40000, 60000, N).astype(np.float16)  # whose sums are infinite
    half, whole = design({"x": numbers}), design({"x": numbers.astype(float)})
    np.testing.assert_array_equal(half.matrix, whole.matrix)
    np.testing.assert_array_equal(half.terms[-1].row, whole.terms[-1].row)


def test_groups_are_not_cut():
    with pytest.raises(ValueError, match=r"^every .*'party' has groups"):
        cut(column("party", PARTY), 10)
