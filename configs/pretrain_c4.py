r"""The paper's pre-training: span corruption on C4, 524,288 steps of 128 x 512 tokens with Adafactor.

    python -m convnlp.pretrain --config=configs/pretrain_c4.py:dynamic_conv,base --workdir=DIR \
        --strategy=tpu --tpu=NAME --config.tokenizer=spm.model \
        --config.data.data_dir=gs://BUCKET/tensorflow_datasets

Source: Tay et al., 2021, section 4; optimiser and schedule of T5. The argument is MIXER,SIZE. In the paper a
run took about 12 hours on 16 TPU chips. It needs a TPU and a prepared C4, and has not been run by us.
"""

from convnlp.configs import common


def get_config(arguments="dynamic_conv,base"):
    """Args: arguments: "MIXER,SIZE" with a name of `convnlp.layers.MIXERS` and of `convnlp.models.SIZES`."""
    mixer, size = arguments.split(",")
    config = common.get_config()
    config.model.size = size
    common.set_mixer(config, mixer)
    if (mixer, size) == ("dilated_conv", "base"):
        # The paper lists eleven sizes for twelve layers; the last is ours.
        config.model.kernel_size = (4, 4, 7, 7, 15, 15, 15, 15, 31, 31, 31, 31)
    return config
