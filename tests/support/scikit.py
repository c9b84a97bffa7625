"""scikit-learn's own checks of an estimator."""

import warnings
from unittest import SkipTest

from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import estimator_checks_generator


def failed_checks(estimator, known=None):
    """The errors of the checks that an estimator fails by name, besides the known ones."""
    failed = {}
    for one, check in estimator_checks_generator(
        estimator, expected_failed_checks=known or {}, mark="skip"
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
    return failed
