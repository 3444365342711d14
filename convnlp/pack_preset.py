r"""Makes a preset ready to be shared: half as large, and without what belongs to its machine.

    convnlp pack-preset --preset=RUN/preset --output=DIR

Weights are stored in float16, which changes each by at most 2^-11 of its value; a loaded model computes in
its usual type. The copy leaves out the state of an optimizer, the folders of the files that the run has read,
and files that do not belong to a preset. The preset itself is not changed. With --card=FILE.json, the model
card is rewritten from the entries in that file. docs/python.md says more.
"""

from absl import flags

from convnlp import outputs
from convnlp.models import model_card, packed_preset
from convnlp.programs import run

_PRESET = flags.DEFINE_string("preset", None, "Name or directory of a preset.", required=True)
_OUTPUT = flags.DEFINE_string("output", None, "Directory to write; it must not exist yet.", required=True)
_DTYPE = flags.DEFINE_enum("dtype", "float16", packed_preset.DTYPES, "How weights are stored.")
_CARD = flags.DEFINE_string(
    "card", None, "JSON file with one object: the entries of `convnlp.models.model_card.write`."
)


def main(_):
    """Preset -> smaller copy -> what changed."""
    outputs.check_folder("output", _OUTPUT.value)
    entries = model_card.read_entries(_CARD.value) if _CARD.value else None
    with outputs.tidy_end():
        facts = packed_preset.pack(_PRESET.value, _OUTPUT.value, _DTYPE.value)
    if entries is not None:
        model_card.write(_OUTPUT.value, entries)
    megabytes = facts["bytes_before"] / 1e6, facts["bytes"] / 1e6
    print(f"{_OUTPUT.value}: {megabytes[1]:.1f} MB, before {megabytes[0]:.1f} MB")
    print(f"largest change of {facts['num_weights']:,} weights: {facts['largest_change']:.2g}")


if __name__ == "__main__":
    run(main)
