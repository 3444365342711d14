"""Float32: nothing is quantized."""

from convnlp.export.lite.forms.form import Form
from convnlp.export.verification import parity


class Float32(Form):
    """The preset itself, but for the order of its sums."""

    name = "fp32"
    summary = "float32, equal to the preset"
    bound = parity.BOUND

    def flatbuffer(self, converter, samples):
        return converter.convert()
