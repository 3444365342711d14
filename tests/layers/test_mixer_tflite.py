"""Every mixer as TFLite: built-in operations only, any batch and length."""

import numpy as np
import tensorflow as tf

from convnlp.testing import DIM, random_rows
from tests.mixer_table import both_sided_cases
from tests.tflite import converted, run


@both_sided_cases
def test_converted_mixer_equals_the_mixer(case):
    mixer = case.build()
    interpreter = converted(
        lambda x, padding_mask: mixer(x, padding_mask=padding_mask),
        tf.TensorSpec([None, None, DIM], name="a"),
        tf.TensorSpec([None, None], tf.bool, name="b"),
    )
    for batch, time in ((1, 3), (2, 11)):
        x = random_rows(batch, time).numpy()
        tokens = np.arange(time) < np.array([[time - 1], [time]])[:batch]
        # Float32 sums of a few dozen terms of size one in another order.
        expected = mixer(x, padding_mask=tokens)[tokens]
        np.testing.assert_allclose(run(interpreter, x, tokens)[tokens], expected, atol=1e-5)
        x[~tokens] = 1e6
        np.testing.assert_allclose(run(interpreter, x, tokens)[tokens], expected, atol=1e-5)
