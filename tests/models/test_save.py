"""A model that Keras itself has saved is the same when loaded; what Keras could not load is not saved."""

import keras
import numpy as np
import pytest

from tests.small_classifier import small_classifier

TEXTS = ["a fine day", "a lost day"]


@pytest.fixture(scope="module")
def classifier():
    return small_classifier(["dynamic_conv"], 16, ["bad", "good"])


def test_a_file_of_keras_holds_the_whole_classifier(classifier, tmp_path):
    classifier.save(tmp_path / "a.keras")
    loaded = keras.models.load_model(tmp_path / "a.keras")
    assert type(loaded) is type(classifier)
    assert loaded.labels == classifier.labels
    np.testing.assert_array_equal(loaded.predict(TEXTS, verbose=0), classifier.predict(TEXTS, verbose=0))


@pytest.mark.parametrize("name", ["a.h5", "a.hdf5", "A.H5"])
def test_hdf5_is_refused(classifier, tmp_path, name):
    with pytest.raises(
        ValueError, match=rf"`filepath` must end in \.keras; or .* Received: filepath=.*{name}$"
    ):
        classifier.save(tmp_path / name)
    assert not list(tmp_path.iterdir())
