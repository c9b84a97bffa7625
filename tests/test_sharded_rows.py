"""Arrays whose rows devices share."""

import jax
import numpy as np
import pytest

from simplex_jax._src import sharded_rows

ONE = jax.sharding.SingleDeviceSharding(jax.devices()[0])
OF_TWO = np.concatenate([np.arange(20), np.zeros(4)]).astype(np.int32).reshape(6, 4)


@pytest.mark.parametrize("number", [5, 6, 8])
def test_rows_of_a_checkpoint_fit_any_number_of_devices(number):
    like = jax.ShapeDtypeStruct((number, 4), np.int32, sharding=ONE)
    shared = sharded_rows.place_rows(OF_TWO, 5, like)
    np.testing.assert_array_equal(shared[:5], OF_TWO[:5])
    assert shared.shape == like.shape


@pytest.mark.parametrize("wrong", [OF_TWO[:3], OF_TWO[:, :3], OF_TWO.astype(np.int64)])
def test_rows_of_another_kind_are_refused(wrong):
    like = jax.ShapeDtypeStruct((8, 4), np.int32, sharding=ONE)
    with pytest.raises(ValueError, match="there must be 5 rows"):
        sharded_rows.place_rows(wrong, 5, like)


def test_what_one_device_has_is_whole_already():
    array = jax.numpy.ones((2, 3, 4))
    assert sharded_rows.gather_rows(array, 3) is array
