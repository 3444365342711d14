"""Float32: nothing is quantized."""

from convnlp.export.lite.forms.form import Form
from convnlp.export.verification import parity


class Float32(Form):
    """Equal to the preset except for the order of sums."""

    name = "fp32"
    summary = "float32, equal to the preset"
    bound = parity.BOUND

    def flatbuffer(self, converter, samples):
        return converter.convert()
