"""The base class of all forms."""

import abc
from typing import ClassVar

INPUTS = ("ids", "text")


class Form(abc.ABC):
    """How the weights and activations of a TFLite model are stored.

    The programs, the comparison of forms and the tests use this interface.
    """

    name: ClassVar[str]  # its key in FORMS, the value of --mode
    summary: ClassVar[str]  # weights and activations in a few words, for --help
    inputs: ClassVar[tuple] = INPUTS  # what the model may take: token ids or texts
    calibrated: ClassVar[bool] = False  # whether it takes the ranges of activations from texts
    # The export fails if an error exceeds this share of the outputs' range, or this if the range is below 1.
    bound: ClassVar[float] = 0.2

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

    def require_near(self, error, outputs_range):
        """Raises ValueError if a model in this form is too far from the preset.

        Args:
            error: float, the largest difference of an output; NaN is too far.
            outputs_range: float, the largest output of the preset minus the smallest.
        """
        most = self.bound * max(1.0, outputs_range)
        if not error <= most:  # NaN too
            raise ValueError(
                f"the {self.name} model differs from the preset by {error:.3g}, "
                f"more than the bound of {most:.3g}"
            )
