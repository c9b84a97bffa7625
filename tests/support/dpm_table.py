"""A table of two groups of rows, with numbers, categories and counts, and missing cells."""

import numpy as np

from simplex_jax._src.models.dpm import variables

KINDS = {"visits": "count"}
GROUPS = np.repeat([0, 1], [32, 20])


def table():
    """Two groups of rows, and an empty last row; income has mean 1e4 and deviation 2."""
    rng = np.random.default_rng(0)
    age = rng.normal(np.array([30, 65])[GROUPS], 4)
    income = 1e4 + rng.normal(np.array([2, -2])[GROUPS], 0.5)
    sex = np.where(rng.random(52) < np.array([0.1, 0.9])[GROUPS], "f", "m").astype(object)
    visits = rng.poisson(np.array([1, 9])[GROUPS]).astype(float)
    smoker = (rng.random(52) < np.array([0.2, 0.7])[GROUPS]).astype(object)
    age[::9], sex[1::9], visits[2::9], smoker[3::9] = np.nan, "", np.nan, None
    whole = {"age": age, "income": income, "sex": sex, "visits": visits, "smoker": smoker}
    return {
        name: np.append(column, [None if column.dtype == object else np.nan])
        for name, column in whole.items()
    }


TABLE = table()
FOUND, CELLS, _ = variables.from_frame(TABLE, KINDS)
NEW = {
    "smoker": [None, False],
    "age": [70.0, np.nan],
    "sex": ["unknown", "m"],
    "more": [0, 1],
    "income": [None, 10_002.0],
    "visits": [8, None],
}
