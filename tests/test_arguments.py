"""Arguments that are whole numbers, whatever holds them."""

import numpy as np
import pytest

from simplex_jax._src import arguments

LARGE = 5_000_000_000  # modulo 2^32, as an int32 has it: 705,032,704


@pytest.mark.parametrize(
    "value",
    [LARGE, np.int64(LARGE), np.uint64(LARGE), np.array(LARGE), np.array([LARGE]), [LARGE, 1]],
    ids=str,
)
def test_whole_numbers_beyond_32_bits_are_what_they_are(value):
    result = arguments.as_float("alpha", value)
    assert np.issubdtype(result.dtype, np.floating)
    np.testing.assert_allclose(result, np.asarray(value, float))


@pytest.mark.parametrize("value", [10**400, [10**30, 1], [[2**40], [1]]], ids=["a", "b", "c"])
def test_numbers_that_no_array_holds_are_refused_by_name(value):
    with pytest.raises(ValueError, match=r"^alpha "):
        arguments.as_float("alpha", value)
