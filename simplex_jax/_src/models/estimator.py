"""Base classes of the estimators: parameters, seeds, checked data, files without pickle."""

import dataclasses
import inspect
import json
import re
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp

from simplex_jax._src import arguments
from simplex_jax._src.evaluate.fits import Fitted, Topics
from simplex_jax._src.extras import needed
from simplex_jax._src.models.records import Results
from simplex_jax._src.options import declarations, entry
from simplex_jax._src.runtime import output, saved
from simplex_jax._src.runtime.hooks import Callback

with needed("simplex_jax.sklearn"):
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_array, check_is_fitted, validate_data

# Version of the file format, increased when the contents change.
_FORMAT = 4

Arrays: TypeAlias = dict[str, np.ndarray]

E = TypeVar("E", bound="Estimator")
R = TypeVar("R", bound=Results)


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class Estimator(BaseEstimator, Fitted):
    """Parameters and methods common to all estimators.

    Estimators are dataclasses of their parameters (see `parameters_of`); `__init__` stores them
    unchanged, as scikit-learn requires. A derived class names its fitted arrays in `_FITTED`; the
    first one tells whether it is fitted.
    """

    _FITTED: ClassVar[tuple[str, ...]] = ()
    _RESULTS: ClassVar[tuple[str, ...]] = ()  # of a fit, which become attributes
    _LEFT_OUT: ClassVar[tuple[str, ...]] = ("callbacks",)  # parameters that are not saved

    _OPTIONS: ClassVar[type]

    callbacks: Iterable[Callback] = ()
    random_state: Any = None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, self._FITTED[0])

    def _seed(self, random_state: Any = None) -> int:
        """Return the seed from a random state, by default that of the estimator."""
        given = self.random_state if random_state is None else random_state
        if isinstance(given, int | np.integer):
            return arguments.within("random_state", given, 0, arguments.MOST_SEED)
        if isinstance(given, np.random.Generator):
            return int(given.integers(2**31 - 1))
        return int(check_random_state(given).randint(2**31 - 1))

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments of the model's `fit` for the parameters."""
        if callable(self.callbacks):
            raise ValueError(f"callbacks must be a list; it is {self.callbacks!r}")
        hooks = tuple(self.callbacks)
        for hook in hooks:
            if not callable(hook):
                raise ValueError(f"callbacks must be callable, with an Event; {hook!r} is not")
        arguments = {
            name: getattr(self, declared.parameter or name)
            for name, declared, _ in declarations(self._OPTIONS)
            if declared.parameter is not None
        }
        return arguments | {"seed": self.seed_, "hooks": hooks}

    def _sampled(self, fit: Callable[..., R], *data: Any) -> R:
        """Fit the model to data, and set the attributes that all fits have.

        The caller then sets those of the model and calls `end`.
        """
        try:
            fitted = fit(*data, **self._arguments())
        except ValueError as error:
            if (message := self._named(str(error))) == str(error):
                raise
            raise ValueError(message) from None
        self.diagnostics_, self.metrics_ = fitted.diagnostics, fitted.metrics
        self.warnings_ = fitted.warnings
        for name in self._RESULTS:
            setattr(self, f"{re.sub('^topics', 'components', name)}_", getattr(fitted, name))
        return fitted

    def _named(self, message: str) -> str:
        """Return a message with the name of an option replaced by that of its parameter."""
        for name, declared, _ in declarations(self._OPTIONS):
            if declared.parameter and message.startswith(f"{name} must "):
                return declared.parameter + message.removeprefix(name)
        return message

    def save(self, path: str | Path) -> None:
        """Write parameters and fitted arrays to an `.npz` file for `load`, without pickle.

        Callbacks are left out. The file is written to a temporary file and renamed.

        Args:
            path: The file to create or replace.

        Raises:
            ValueError: A parameter is not a JSON value, such as a `RandomState`.
            sklearn.exceptions.NotFittedError: There is nothing to save.
        """
        check_is_fitted(self)
        arrays, params = self._arrays(), self.get_params(deep=False)
        about = {
            "format": _FORMAT,
            "estimator": type(self).__name__,
            "params": {name: x for name, x in params.items() if name not in self._LEFT_OUT},
            "n_features_in": self.n_features_in_,
        }
        try:
            text = json.dumps(about, default=output.plain)
        except TypeError as error:
            raise ValueError(
                f"a parameter cannot be written as JSON ({error}): set it to plain numbers"
            ) from None
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            arrays["feature_names_in_"] = np.asarray(names, str)
        output.write_npz(path, {"about": np.asarray(text), **arrays})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file written by `save`.

        Raises:
            RunError: The file is damaged, or holds another estimator.
        """
        arrays = saved.load_npz(Path(path))
        try:
            about = json.loads(str(arrays.pop("about")))
            name, params = about["estimator"], about["params"]
            if about["format"] != _FORMAT or name != cls.__name__:
                raise saved.RunError(
                    f"{path}: this holds {name} of format {about['format']}, "
                    f"not {cls.__name__} of format {_FORMAT}: fit again, or load it with the class "
                    "and version that wrote it"
                )
            estimator = cls(**params)
            estimator.n_features_in_ = int(about["n_features_in"])
            if "feature_names_in_" in arrays:
                estimator.feature_names_in_ = arrays.pop("feature_names_in_").astype(object)
            estimator._take(arrays)
        except saved.RunError:
            raise
        except (KeyError, TypeError, ValueError):
            raise saved.RunError(f"{path}: this was not written by {cls.__name__}.save") from None
        return estimator

    def _arrays(self) -> Arrays:
        """Return the fitted arrays for a file."""
        return {name: getattr(self, name) for name in self._FITTED if hasattr(self, name)}

    def _take(self, arrays: Arrays) -> None:
        """Restore the arrays of `_arrays`."""
        for name, array in arrays.items():
            setattr(self, name, array.item() if array.ndim == 0 else array)


def parameters_of(of: type) -> Callable[[type[E]], type[E]]:
    """Make an estimator class a dataclass whose parameters are the options of a model.

    Parameters that the class declares or inherits take precedence, for example with another
    default. In its docstring `{options}` stands for the descriptions of the parameters.
    """

    def decorate(cls: type[E]) -> type[E]:
        inherited = {field.name for field in dataclasses.fields(cls)}
        own = inspect.get_annotations(cls)
        added: dict[str, Any] = {}
        fields = {field.name: field for field in dataclasses.fields(of)}
        shown = {}
        for name, declared, kind in declarations(of):
            parameter = declared.parameter or name
            if declared.parameter is None or parameter in inherited:
                continue
            shown[parameter] = declared
            if parameter not in own:
                added[parameter] = kind
                field = fields[name]
                default = dataclasses.field(default=field.default, kw_only=field.kw_only)
                setattr(cls, parameter, default)
        cls.__annotations__ = own | added
        cls._OPTIONS = of
        made = dataclasses.dataclass(eq=False, repr=False, kw_only=True)(cls)
        lines = [entry(name, declared, getattr(made, name)) for name, declared in shown.items()]
        text = inspect.cleandoc(cls.__doc__ or "")
        made.__doc__ = text.replace("{options}", "\n    ".join(lines))
        return made

    return decorate


def numbered(prefix: str, leaves: Iterable[Any]) -> Arrays:
    """Return the leaves of a tree as numbered arrays for a file."""
    return {f"{prefix}{i:03d}": np.asarray(leaf) for i, leaf in enumerate(leaves)}


def part(arrays: Arrays, prefix: str) -> Arrays:
    """Pop the arrays whose names begin with `prefix` from those of a file, and return them."""
    names = sorted(name for name in arrays if name.startswith(prefix))
    return {name.removeprefix(prefix): arrays.pop(name) for name in names}


def end(interrupted: signal.Signals | None) -> None:
    """Raise a KeyboardInterrupt if a signal ended a fit early, so that the caller stops."""
    if interrupted is not None:
        raise KeyboardInterrupt(
            f"{interrupted.name} ended the fit early; the estimator has the samples so far"
        )


class TopicEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """An estimator of topics, `components_`, one per row.

    A derived class checks data in `_data` and fits in `_fit`, which returns the proportions.
    """

    @property
    def num_topics_(self) -> int:
        """Number of topics, the rows of `components_`."""
        return len(self.components_)

    @property
    def _n_features_out(self) -> int:
        return self.num_topics_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def to_record(self) -> Topics:
        """Return topics and samples of `fit` in the form that `simplex_jax.evaluate` uses."""
        check_is_fitted(self)
        names = {"metrics": "metrics_", "samples": "samples_", "order": "order_"}
        names["vocabulary"] = "feature_names_in_"
        fitted = {name: vars(self)[own] for name, own in names.items() if own in vars(self)}
        return Topics(self.components_, **fitted)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Return the mean of documents with topic proportions X, X @ `components_`, [n, V].

        For LDA these are word probabilities, for the spherical model mean vectors.
        """
        check_is_fitted(self)
        shares = check_array(X, accept_sparse="csr")
        if shares.shape[1] != len(self.components_):
            raise ValueError(
                f"X has {shares.shape[1]} columns, and there are {len(self.components_)} topics: "
                "give proportions as returned by transform"
            )
        return shares @ self.components_

    def _table(self, X: Any, *, reset: bool, words: int = 1) -> sp.csr_array:
        """Return documents of at least `words` words as a sparse table, checked by scikit-learn."""
        if not reset:
            check_is_fitted(self)
        table = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32, np.int64],
            ensure_min_features=words if reset else 1,  # Otherwise their number is compared.
        )
        return sp.csr_array(table)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Sample the topics of documents X [D, V].

        Raises:
            ValueError: A parameter is out of range, or X is not valid data for the model.
            KeyboardInterrupt: Ctrl-C or SIGTERM ended the run early; the attributes hold the
                results so far.
        """
        self.seed_ = self._seed()
        self._fit(self._data(X, reset=True))
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Sample the topics of documents X, and return their proportions [D, K].

        Errors are those of `fit`.
        """
        self.seed_ = self._seed()
        return self._fit(self._data(X, reset=True))
