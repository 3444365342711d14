"""The base class of all forms."""

import abc
from typing import ClassVar

import numpy as np

INPUTS = ("ids", "text")


class Form(abc.ABC):
    """How the weights and activations of a TFLite model are stored.

    The programs, the comparison of forms and the tests use this interface.
    """

    name: ClassVar[str]  # its key in FORMS, the value of --mode
    summary: ClassVar[str]  # weights and activations in a few words, for --help
    inputs: ClassVar[tuple] = INPUTS  # what the model may take: token ids or texts
    calibrated: ClassVar[bool] = False  # whether it takes the ranges of activations from texts
    bound: ClassVar[float] = float(np.finfo(np.float32).max)  # the export fails beyond this error

    @abc.abstractmethod
    def flatbuffer(self, converter, samples):
        """Returns the bytes of the model in this form.

        Args:
            converter: a tf.lite.TFLiteConverter of the model, which the form configures.
            samples: function without arguments, to be used as a `representative_dataset`; None if the form is
                not `calibrated`.

        Raises:
            Exception: of any class, if TFLite cannot hold the model.
        """

    def require_inputs(self, inputs):
        """Raises ValueError if the form does not support these inputs."""
        if inputs not in self.inputs:
            raise ValueError(
                f"mode {self.name} needs inputs={', '.join(self.inputs)}. Received: inputs={inputs}"
            )
