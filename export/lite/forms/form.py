"""The contract of a form."""

import abc
from typing import ClassVar

import numpy as np

INPUTS = ("ids", "text")


class Form(abc.ABC):
    """How the weights and activations of a TFLite model are stored.

    The programs, the comparison with other forms and the tests of all forms ask it.
    """

    name: ClassVar[str]  # its key in FORMS, the value of --mode
    summary: ClassVar[str]  # weights and activations in a few words, for --help
    inputs: ClassVar[tuple] = INPUTS  # what may go in: token ids, or texts
    calibrated: ClassVar[bool] = False  # whether it needs texts, from which the ranges of activations come
    bound: ClassVar[float] = float(np.finfo(np.float32).max)  # an export that errs by more, or by NaN, fails

    @abc.abstractmethod
    def flatbuffer(self, converter, samples):
        """The model in this form: bytes.

        Args:
            converter: a tf.lite.TFLiteConverter of the model, whose options are as they come.
            samples: function without arguments that yields what a `representative_dataset` does; None where
                the form is not `calibrated`.

        Raises:
            Exception: of any class, if TFLite cannot hold the model.
        """

    def require_inputs(self, inputs):
        """Raises ValueError if the form is not for these inputs."""
        if inputs not in self.inputs:
            raise ValueError(
                f"mode {self.name} is for inputs={', '.join(self.inputs)}. Received: inputs={inputs}"
            )
