"""Columns of a table of several kinds: what they are taken for, their law, and what is refused."""

import datetime
import json
from decimal import Decimal
from types import SimpleNamespace

import chex
import jax
import numpy as np
import pytest
from scipy import stats
from support.dpm_table import CELLS, FOUND, KINDS, NEW, TABLE
from support.paths import ROOT

from simplex_jax._src.models import dpm
from simplex_jax._src.models.dpm import commands, families, report, tables, variables
from simplex_jax._src.models.dpm.families import family as family_rows

READING = {"format": None, "kind": None, "id_column": None, "weights": None}
READING |= {"encoding": "utf-8", "encoding_errors": "strict"} | dict.fromkeys(commands._KINDS, ())


def test_the_kinds_of_columns():
    assert FOUND.columns == ("age", "income", "sex", "visits", "smoker")
    assert FOUND.kinds == ("number", "number", "category", "count", "category")
    assert FOUND.values == ((), (), ("f", "m"), (), ("False", "True"))
    np.testing.assert_allclose(FOUND.centres[1], np.nanmean(TABLE["income"]), rtol=1e-12)
    np.testing.assert_allclose(FOUND.scales[0], np.nanstd(TABLE["age"]), rtol=1e-12)
    assert (FOUND.observations(CELLS) == np.isfinite(CELLS).sum(axis=1)).all()
    assert FOUND.observations(CELLS)[-1] == 0
    assert len(FOUND.items) == len(FOUND.measures) == 2 + 2 + 2 + 1 + 2
    rows = FOUND.rows(CELLS)
    FOUND.family().check(rows)
    for column in (0, 1):
        standard = np.asarray(rows["number"][:, column], np.float64)
        assert np.nanmean(standard) == pytest.approx(0, abs=1e-6)
        assert np.nanstd(standard) == pytest.approx(1, rel=1e-6)
    missing = {"category": [2, 4], "count": [3]}
    for kind, places in missing.items():
        np.testing.assert_array_equal(rows[kind] == -1, np.isnan(CELLS[:, places]))
    np.testing.assert_array_equal(np.isnan(rows["number"]), np.isnan(CELLS[:, :2]))


def test_the_density_of_a_row_is_that_of_its_cells():
    """Student's t of standardised numbers, shares of categories, and counts over their mean."""
    new = FOUND.table(NEW)
    result = FOUND.family().log_predictive(jax.tree.map(np.asarray, FOUND.rows(new)))
    t = stats.t(3, scale=np.sqrt(2 / 3))
    first = t.logpdf((70 - FOUND.centres[0]) / FOUND.scales[0])
    mean = FOUND.centres[3]
    first += stats.nbinom.logpmf(8, 1, 1 / (mean + 1)) - stats.poisson.logpmf(8, mean)
    second = t.logpdf((10_002 - FOUND.centres[1]) / FOUND.scales[1]) + 2 * np.log(0.5)
    np.testing.assert_allclose(result, [first, second], rtol=1e-5)


def test_frames_mappings_and_structured_arrays_are_one_table():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE, index=[f"row {i}" for i in range(53)])
    other, same, names = variables.from_frame(frame, KINDS)
    assert other == FOUND
    np.testing.assert_array_equal(same, CELLS)
    assert names[:2] == ("row 0", "row 1")
    nullable = frame.convert_dtypes().astype({"sex": "category"})
    assert variables.from_frame(nullable, KINDS)[0] == FOUND
    np.testing.assert_array_equal(variables.from_frame(nullable, KINDS)[1], CELLS)
    dtype = [(name, "O" if x.dtype == object else "f8") for name, x in TABLE.items()]
    structured = np.empty(53, dtype)
    for name, column in TABLE.items():
        structured[name] = column
    assert variables.from_frame(structured, KINDS)[0] == FOUND
    coded = pandas.DataFrame({"a": pandas.Categorical([3, 1, None]), "b": [0.5, 1.5, 2.5]})
    assert variables.from_frame(coded)[0].values == (("1", "3"), ())


def test_categories_are_texts_however_they_are_stored():
    result, codes, _ = variables.from_frame({"a": [1.0, np.nan, 3.0, 2.5]}, {"a": "category"})
    assert result.values == (("1", "2.5", "3"),)
    np.testing.assert_array_equal(
        result.table({"a": [3, 1, 7, None]})[:, 0], [2, 0, np.nan, np.nan]
    )
    assert codes[:, 0].tolist()[2:] == [2.0, 1.0]
    assert result.of_row(codes, 0) == ["a=1"]


def test_booleans_may_come_back_in_other_spellings():
    found = variables.from_frame({"a": [True, False, None], "b": [0.5, 1.5, 2.5]})[0]
    for again in (
        [1, 0, None],
        [1.0, 0.0, np.nan],
        ["TRUE", "false", ""],
        np.array([True, False, 1]),
    ):
        codes = found.table({"a": again, "b": [1, 2, 3]})[:, 0]
        assert codes.tolist()[:2] == [1, 0]
    with pytest.warns(UserWarning, match="^column 'a': .*'yes'"):  # of a single row, too
        assert np.isnan(found.table({"a": ["yes"], "b": [1.0]})[0, 0])


def test_periods_of_pandas_are_refused_like_dates():
    pandas = pytest.importorskip("pandas")
    months = pandas.Series(pandas.period_range("2020-01", periods=3, freq="M"))
    with pytest.raises(ValueError, match="'a' has Period: "):
        variables.from_frame({"a": months})


def test_the_digest_is_of_cells_and_columns():
    other = CELLS.copy()
    other[0, 1] += 1
    names = FOUND._replace(columns=("years", *FOUND.columns[1:]))
    kinds = FOUND._replace(kinds=(*FOUND.kinds[:3], "number", "category"))
    units = FOUND._replace(scales=(2.0, *FOUND.scales[1:]))
    values = FOUND._replace(values=((), (), ("f",), ("m",), FOUND.values[4]))
    digests = [
        FOUND.digest(CELLS),
        FOUND.digest(other),
        *(columns.digest(CELLS) for columns in (names, kinds, units, values)),
    ]
    assert len(set(digests)) == 6
    negative = np.where(np.isnan(CELLS), -np.nan, CELLS)
    assert FOUND.digest(negative) == digests[0], "a NaN is a NaN"


def test_flat_and_tree_are_inverse(seed):
    atoms = FOUND.tree(np.random.default_rng(seed).normal(size=(3, 2, 9)))
    chex.assert_trees_all_equal(FOUND.tree(FOUND.flat(atoms)), atoms)
    chex.assert_trees_all_equal(FOUND.from_leaves(jax.tree.leaves(atoms)), atoms)
    rows = jax.tree.map(np.asarray, FOUND.rows(CELLS))
    family = FOUND.family()
    drawn = family.draw(jax.random.key(0), family.statistics(rows, np.zeros(53, np.int32), 1))
    assert jax.tree.structure(drawn) == jax.tree.structure(FOUND.tree(np.zeros((1, 9))))
    described = FOUND.flat(FOUND.described(drawn))
    flat = FOUND.flat(drawn)
    logs = np.isin(FOUND.measures, ("rate", "probability"))
    np.testing.assert_allclose(described[:, logs], np.exp(flat[:, logs]), rtol=1e-6)


def test_what_sets_clusters_apart_by_divergence():
    """Against divergences by hand, in units of the columns or of standard deviations alike."""
    overall = FOUND.flat(FOUND.tree(np.array([0, 1.0, 0, 1, 0.5, 0.5, 4, 0.6, 0.4])))
    profile = np.array([[1.5, 0.5, 0.1, 1, 0.9, 0.1, 8, 0.6, 0.4]])
    gains = report.gains(np.array(FOUND.measures), profile, overall)[0]
    numbers = [
        np.log(1 / sd) + (sd**2 + mean**2) / 2 - 0.5 for mean, sd in ((1.5, 0.5), (0.1, 1.0))
    ]
    expected = [numbers[0], 0, numbers[1], 0, 0.9 * np.log(1.8), 0.1 * np.log(0.2)]
    expected += [8 * np.log(2) - 4, 0, 0]
    np.testing.assert_allclose(gains, expected, atol=1e-12)
    (result,) = report.estimates(FOUND, profile, np.full((1, 9), 0.01), overall, 9)
    assert [one.name for one in result] == ["visits", "age", "sex=f", "income"]
    visits, age, sex, income = result
    assert age.mean == pytest.approx(FOUND.centres[0] + 1.5 * FOUND.scales[0])
    assert age.within == pytest.approx(0.5 * FOUND.scales[0])
    assert age.place(age.mean) == pytest.approx(stats.norm.cdf(1.5))
    assert (visits.lift, visits.place(8.0)) == (2.0, 8 / 12)
    assert sex.place(0.9) == 0.9
    assert visits.sure
    assert sex.sure
    low, high = stats.gamma.interval(0.95, 8e2**2, scale=0.01**2 / 8)
    np.testing.assert_allclose([visits.lower, visits.upper], [low, high], rtol=1e-6)
    assert income.lower == pytest.approx(income.mean - 1.96 * 0.01 * FOUND.scales[1], rel=1e-4)
    (single,) = report.estimates(FOUND, profile, np.full((1, 9), np.nan), overall, 9)
    assert not any(one.known or one.sure for one in single)
    titles = {one.name: report._estimate(one)["title"] for one in single}  # bounds are infinite
    assert titles["age"].startswith("-inf to inf")


def test_numbers_keep_the_digits_that_their_spread_leaves():
    assert report.rounded(5.03e-20, 1.2e-21) == "5.03e-20"
    assert report.rounded(1_700_000_123.4, 3600) == "1700000123"
    assert report.rounded(1.23456789e18, 1e15) == "1.2346e+18"
    assert report.rounded(1e-30, 1e-20) == "1e-30"
    seconds = (1_700_000_123.4, 1_700_000_100.2, 1_700_000_146.6)
    one = report.Estimate("t", "mean", *seconds, True, 3600.0, 1.7e9, 9000.0)
    ((_, _, _, _, *numbers),) = tables._rows_of_estimates([[one]])
    np.testing.assert_allclose(np.array(numbers[:3], float), seconds, atol=1)
    (_, *numbers), *_ = tables._rows_of_estimates([[one._replace(known=False)]])
    assert float(numbers[3]) == pytest.approx(seconds[0], abs=50)


def test_units_do_not_matter_in_float64():
    """Rows are standardised before they are float32, and one that is too far then is named."""
    ages = np.array([20.5, 50.0, 35.0])
    expected = variables.from_frame({"a": ages})[0].rows(ages[:, None])["number"]
    for unit in (1e-60, 1e60):
        result, table, _ = variables.from_frame({"a": ages * unit}, {"a": "number"})
        np.testing.assert_allclose(result.rows(table)["number"], expected, rtol=1e-6)
        far = np.array([[30 * unit], [1e18 * unit]])
        with pytest.raises(ValueError, match=r"column 'a', row 1: .* the column's mean"):
            result.rows(far)


def test_columns_through_json():
    through = json.loads(json.dumps(FOUND._asdict()))
    assert variables.from_json(through) == FOUND
    for wrong in (
        {},
        through | {"kinds": ["number"] * 4},
        through | {"kinds": ["number"] * 5},
        through | {"kinds": ["date", *FOUND.kinds[1:]]},
        through | {"scales": [0.0, *FOUND.scales[1:]]},
        through | {"centres": [np.nan, *FOUND.centres[1:]]},
        through | {"concentration": 0.0},
        through | {"columns": ["age"] * 5},
        through | {"columns": []},
        through | {"values": 1},
    ):
        with pytest.raises(ValueError, match="variables of"):
            variables.from_json(wrong)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ({"a": [0, 1, 2]}, {}, r"'a': whole numbers from 0 on .* kinds=\{'a': 'count'\}"),
        ({"a": [0, None], "b": [3.0, 4.0]}, {}, "columns 'a', 'b': whole"),
        ({"a": [1.5, 2]}, {"kinds": {"b": "count"}}, r"^kinds .*'b', .* a$"),
        ({"a": [1.5, 2]}, {"kinds": {"a": "text"}}, r"^kinds\['a'\] .*'text'$"),
        ({"a": [1.5, 2]}, {"kinds": {"a": "count"}}, r"row 0: 1.5 .*counts"),
        ({"a": [-1, 2]}, {"kinds": {"a": "count"}}, "row 0: -1 cannot be used"),
        ({"a": [0, 0]}, {"kinds": {"a": "count"}}, "no count above 0"),
        ({"a": [1.5, 1.5, np.nan]}, {}, "column 'a' does not vary"),
        (
            {"a": [1e300, -1e300, 3.5]},
            {},
            "'a' has numbers from -1e.300 .* too large .* rescale it",
        ),
        ({"a": [1e308, 1.5e308, -1e308]}, {}, "'a' has numbers from -1e.308 .* too large .* resca"),
        ({"a": [1e-310, 2e-310, 3e-310]}, {}, "'a' has numbers .* too small for float64: rescale"),
        ({"a": [1.5, np.inf]}, {}, "row 1: inf "),
        ({"a": ["x", "2"]}, {"kinds": {"a": "number"}}, "row 0: 'x' "),
        ({"a": [None, ""]}, {}, "column 'a' has no value"),
        ({"a": list(map(str, range(1001)))}, {}, "1,001 values"),
        ({"a": np.array(["2020-01-01"], "M8[D]")}, {}, "column 'a' has datetime64"),
        ({"a": [None, datetime.date(2020, 1, 31)]}, {}, "column 'a' has date:"),
        ({"a": [np.datetime64("2020-01-31")]}, {}, "column 'a' has datetime64: give numbers"),
        ({"a": [np.timedelta64(1, "D")]}, {}, "column 'a' has timedelta64: give numbers"),
        ({"a": ["x", [1, 2]]}, {}, "column 'a' has list: "),
        (
            {"a": [datetime.timedelta(1), datetime.timedelta(2)]},
            {"kinds": {"a": "category"}},
            "column 'a' has timedelta:",
        ),
        (
            {"a": np.full(128, 2**24)},
            {"kinds": {"a": "count"}},
            r"column 'a' has 2\.14748e\+09 .* 2\^31",
        ),
        ({"a": [1.5, 2]}, {"kinds": ["number"]}, r"^kinds .*\['number'\]$"),
        ({"a": np.ones((2, 2))}, {}, r"^column 'a' .*\(2, 2\)$"),
        ({"a": [1.5, 2], "b": [1.5]}, {}, "'a': 2, 'b': 1"),
        ({"a": 1.5, "b": "x"}, {}, r"^column 'a' .* float: "),
        ({"a": "red"}, {}, r"^column 'a' .* str: "),
        ({"a": b"red"}, {}, r"^column 'a' .* bytes: "),
        ({"a": np.array(1.5)}, {}, r"^column 'a' .* ndarray: "),
        ({"a": np.array([b"\xff"])}, {}, r"column 'a' .* UTF-8"),
        ({}, {}, "no column left"),
        ({"a": [np.nan, np.nan]}, {}, "column 'a' has no value"),
        ({"a": []}, {}, "with rows"),
        (np.eye(2), {"kinds": {"a": "count"}}, r"^kinds .*without a family"),
        (TABLE, {"kinds": KINDS, "sampler": "scir"}, r"^sampler 'scir' "),
        (TABLE, {"kinds": KINDS, "family": FOUND}, r"^kinds .*without a family"),
        (
            TABLE,
            {"kinds": KINDS, "heldout": TABLE},
            r"^heldout .*'smoker', 'visits'\]",
        ),
    ],
)
def test_bad_input_is_one_clear_error(rows, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        dpm.fit(rows, **options)
    assert "\n" not in str(caught.value)


def test_cells_that_are_missing():
    pandas = pytest.importorskip("pandas")
    column = [1, None, np.nan, "", " ", pandas.NA, pandas.NaT, True]
    assert variables.texts_of("a", column) == ["1", *[None] * 6, "True"]
    assert variables.kinds_of({"a": [True, None]}, {}) == {"a": "category"}
    assert variables.kinds_of({"a": [1.5, "x"]}, {}) == {"a": "category"}
    assert variables.kinds_of({"a": [None, -1]}, {}) == {"a": "number"}
    np.testing.assert_array_equal(
        variables.numbers_of("a", ["1.5", None, " 2 "], "number")[::2], [1.5, 2]
    )


def test_columns_with_numbers_for_names():
    """As of `pandas.DataFrame(array)`."""
    result, _, _ = variables.from_frame({0: [1.5, 2.5], 1: [3, 4]}, {1: "count"})
    assert result.columns == ("0", "1")
    assert result.kinds == ("number", "count")


def test_masked_cells_are_missing():
    numbers = np.ma.array([1.5, 2.5, 999], mask=[0, 0, 1])
    np.testing.assert_array_equal(variables.numbers_of("a", numbers, "number"), [1.5, 2.5, np.nan])
    assert variables.texts_of("a", np.ma.array(["f", "?"], mask=[0, 1])) == ["f", None]
    counts = np.ma.array([2, -9], mask=[0, 1])
    np.testing.assert_array_equal(variables.numbers_of("a", counts, "count"), [2, np.nan])


def test_masked_arrays_of_rows_are_refused():
    rows = np.ma.array([[1.0, 999.0, 0.0, 1.0, 1.0]], mask=[[0, 1, 0, 0, 0]])
    with pytest.raises(ValueError, match="masked"):
        FOUND.table(rows)
    numbers = np.ma.array([[1.0], [2.0], [999.0]], mask=[[0], [0], [1]])
    for family in (families.gaussian_of, families.diagonal_gaussian_of, families.multinomial_rows):
        with pytest.raises(ValueError, match="masked"):
            family(numbers)
    with pytest.raises(ValueError, match="masked"):
        family_rows.check(families.gaussian([0.0], [[1.0]]), numbers)


def test_cells_of_lists_stay_what_they_are():
    """NumPy makes one type of them: a text of NaN, and a number of True."""
    result, codes, _ = variables.from_frame(
        {"sex": ["f", np.nan, "m"], "x": [0.5, Decimal("1.5"), 2.5]}
    )
    assert result.values == (("f", "m"), ())
    np.testing.assert_array_equal(codes, [[0, 0.5], [np.nan, 1.5], [1, 2.5]])
    assert variables.texts_of("a", [True, np.nan, False]) == ["True", None, "False"]
    large = [10**16 + 1, 10**16 + 2]
    assert variables.texts_of("a", np.array(large)) == list(map(str, large))
    assert variables.texts_of("a", np.array([b"f", b""])) == ["f", None]


def test_missing_cells_of_an_array():
    row = np.array([[1.0, np.nan, -1.0, np.nan, 0.0]])
    result = FOUND.table(row)
    np.testing.assert_array_equal(result, [[1, np.nan, np.nan, np.nan, 0]])
    assert FOUND.observations(result)[0] == 2
    assert FOUND.of_row(result, 0) == ["age=1", "smoker=False"]
    for place, value, message in (
        (3, -1.0, "'visits', row 0: -1 cannot be used"),
        (2, 2.0, r"'sex', row 0: 2 .* 2 values"),
        (2, 0.5, "'sex', row 0: 0.5 is not"),
        (0, np.inf, "'age', row 0: inf"),
    ):
        wrong = row.copy()
        wrong[0, place] = value
        with pytest.raises(ValueError, match=message):
            FOUND.table(wrong)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[70, None, "m", 8, 0], [30, 2.5, "f", 1, 1]], r"^column 'sex' of rows .* codes"),
        (["red"], r"^rows .* codes"),
        ([[1.0, 2.0], [3.0]], r"^rows .* codes"),
    ],
)
def test_texts_of_an_array(rows, message):
    with pytest.raises(ValueError, match=message):
        FOUND.table(rows)


def test_numbers_in_a_file():
    texts = {"a": ["1.5", None], "b": ["1", "x"], "c": ["1", "2"]}
    result = variables.of_texts(texts, {"c": "category"})
    np.testing.assert_array_equal(result["a"], [1.5, np.nan])
    assert result["b"] == ["1", "x"]
    assert result["c"] == ["1", "2"]


@pytest.mark.parametrize("odd", ["unknown", "8,766.5", "62.6%", "1_0"])
@pytest.mark.parametrize("kind", [str, float])
def test_numbers_with_an_odd_cell_are_told(odd, kind):
    ages = [*map(kind, [30.5, 31, 28]), None, odd]
    says = (
        rf"column 'age' .*: 3 of its 4 .* '{odd}' .*"
        r"kinds={'age': 'number'}, or 'category' \(--number-column, --category-column\)"
    )
    with pytest.warns(UserWarning, match=says):
        assert variables.from_frame({"age": ages})[0].kinds == ("category",)
    variables.from_frame({"age": ages}, {"age": "category"})  # was said
    with pytest.raises(ValueError, match=f"row 4: '{odd}' "):
        variables.from_frame({"age": ages}, {"age": "number"})


def test_numbers_with_commas_are_told():
    with pytest.warns(UserWarning, match=r"'income' .*category: '1,234\.5' "):
        result, _, _ = variables.from_frame({"income": ["1,234.5", None, "12,000", "999"]})
    assert result.kinds == ("category",)


@pytest.mark.parametrize(
    "texts", [["45%", "3%", "5.5 %"], ["1 234", "999"], ["1\u202f234,5", "2"], ["$5", "€ 7.50"]]
)
def test_numbers_with_signs_are_told(texts):
    with pytest.warns(UserWarning, match=r"category: .* -1234\.5"):
        assert variables.from_frame({"x": texts})[0].kinds == ("category",)


def test_numbers_with_signs_are_told_in_a_table_without_others(tmp_path, recwarn):
    """Whose columns are all categories, unless the command says so."""
    (tmp_path / "x.csv").write_text("a;b;c\n1,5;12%;red\n0,5;3%;blue\n2,5;4%;red\n")
    commands._read(tmp_path / "x.csv", READING)
    told = [str(warning.message) for warning in recwarn]
    assert ["'1,5' is not" in text for text in told] == [True, False]
    assert "category: '12%' " in told[1]
    recwarn.clear()
    commands._read(tmp_path / "x.csv", READING | {"kind": "categories"})
    assert not recwarn


def test_a_column_of_a_given_kind_does_not_name_the_rows(tmp_path):
    (tmp_path / "x.csv").write_text("id,a\n3,x\n1,y\n2,x\n")
    for given, columns in (
        ({}, ("a",)),
        ({"number_column": ("id",)}, ("id", "a")),
        ({"weights": "id"}, ("a",)),
    ):
        found = commands._read(tmp_path / "x.csv", READING | given)
        assert found.variables.columns == columns


def test_other_rows_have_the_names_of_the_run_if_they_are_there(tmp_path):
    path, fitted = tmp_path / "x.csv", SimpleNamespace(variables=FOUND)
    titles, row = "age,income,sex,visits,smoker", "30,5,m,1,0"
    for header, first, given, names in (
        (f"who,{titles}", "ann,", {}, ("ann",)),
        (titles, "", {}, ("1",)),
        (f"id,{titles}", "r1,", {}, ("r1",)),
        (f"id,who,{titles}", "r1,ann,", {}, ("ann",)),
        (f"code,who,{titles}", "r1,ann,", {"id_column": "code"}, ("r1",)),
    ):
        path.write_text(f"{header}\n{first}{row}\n")
        other = commands._other(fitted, path, READING | given, {"id_column": "who"})
        assert other.names == names
    with pytest.raises(ValueError, match="no column 'whom'"):
        commands._other(fitted, path, READING | {"id_column": "whom"}, {"id_column": "who"})


def test_numbers_in_quotes_are_told():
    """As of `csv.DictReader`; whole ones may be codes."""
    for texts, shown in ((["1", "1.5", None], r"'1\.5'"), ([1.5, "2"], "'2'")):
        says = rf"'x' .*category: .* {shown}: "
        with pytest.warns(UserWarning, match=says):
            assert variables.from_frame({"x": texts})[0].kinds == ("category",)


@pytest.mark.parametrize(
    "texts", [["2020-03-14", "2021-01-01"], ["3/14/2020", "3/4/2020"], ["3/4/2020"], ["3/4/20"]]
)
def test_dates_are_told(texts):
    says = f"'day' .*category: .* '{texts[0]}': "
    with pytest.warns(UserWarning, match=says):
        assert variables.from_frame({"day": texts})[0].kinds == ("category",)


def test_texts_for_missing_cells_are_missing_as_in_files():
    result, codes, _ = variables.from_frame(
        {"age": ["30.5", "n/a", "31"], "sex": ["f", "NA", None]}, {"age": "number"}
    )
    assert result.values == ((), ("f",))
    np.testing.assert_array_equal(codes, [[30.5, 0], [np.nan, np.nan], [31, np.nan]])


def test_categories_with_few_numbers_or_nothing_else_are_not_told():
    for cells_of in (["1", "x", "y"], ["1", "x"], ["1", "2"], ["1,5", "a,b"], [True, False, "x"]):
        assert variables.from_frame({"code": cells_of})[0].kinds == ("category",)


def test_an_underscore_makes_a_name():
    """Python reads 1_0 as 10, and no table means it."""
    texts = ["1_0", "2_0"]
    assert variables.of_texts({"a": texts}, {}) == {"a": texts}
    texts = [np.str_("1"), np.bytes_(b"2")]  # whose repr has an underscore
    assert variables.numbers_of("a", np.array(texts, object), "number").tolist() == [1, 2]
    for cell in ("1_0", b"1_0"):
        with pytest.raises(ValueError, match=r"column 'a', row 1: b?'1_0' "):
            variables.numbers_of("a", ["2", cell], "number")


def test_the_page_has_how_wide_tight_clusters_look():
    """The prior mean of their variance is that of the whole column."""
    group = np.repeat([0, 1], 50)
    x = np.where(group, 100, 0) + np.random.default_rng(0).normal(0, 0.1, 100)
    family = families.diagonal_gaussian_of(x[:, None])
    rows = x[:, None].astype(np.float32)
    mean, _ = family.profile(family.statistics(rows, group, 2), None)  # the same for all atoms
    sd = float(mean.sd[0, 0])
    page = " ".join((ROOT / "docs" / "limitations.md").read_text("utf-8").split())
    assert f"of deviation 0.1: {sd:.1f})" in page
