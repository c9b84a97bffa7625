"""scikit-learn's own checks of the estimators."""

import warnings
from unittest import SkipTest

import pytest
from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import estimator_checks_generator

from simplex_jax import sklearn
from simplex_jax.sklearn import (
    LDA,
    DirichletProcessMixture,
    DynamicTopicModel,
    HierarchicalDirichletProcess,
    SphericalAdmixture,
)

ESTIMATORS = [
    LDA(2, passes=4, fractions="draw", random_state=0),
    SphericalAdmixture(2, passes=4, normalise=True, random_state=0),
    DirichletProcessMixture(passes=40, keep_samples=5, random_state=0),
    HierarchicalDirichletProcess(passes=20, keep_samples=5, fractions="draw", random_state=0),
    DynamicTopicModel(2, passes=6, static_passes=2, fractions="draw", random_state=0),
]


def test_every_estimator_is_checked():
    checked = {type(estimator).__name__ for estimator in ESTIMATORS}
    assert checked == set(sklearn.__all__), "give each a line in ESTIMATORS"


# Checks that an estimator does not pass, and why.
KNOWN = {
    # They fit one topic. Its proportion is 1 elsewhere, but here it leaves the share of others.
    "HierarchicalDirichletProcess": {
        f"check_methods_{name}_invariance": "fractions='draw' rounds by places"
        for name in ("sample_order", "subset")
    },
    "DirichletProcessMixture": {
        "check_all_zero_sample_weights_error": "a weight of 0 is refused by its place",
        "check_sample_weight_equivalence_on_dense_data": "and so it is here",
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda x: type(x).__name__)
def test_the_checks_of_scikit_learn(estimator):
    failed = {}
    known = KNOWN.get(type(estimator).__name__, {})
    for one, check in estimator_checks_generator(
        estimator, expected_failed_checks=known, mark="skip"
    ):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SkipTestWarning)
                # Of the spherical one: scikit-learn's sparse data has rows of zeros.
                warnings.filterwarnings("ignore", "X has .* zero vectors")
                check(one)
        except SkipTest:  # of scikit-learn itself, say for a setting of the environment
            pass
        except Exception as error:
            failed[check.func.__name__] = f"{type(error).__name__}: {error}"
    assert failed == {}
