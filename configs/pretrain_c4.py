r"""The paper's pre-training: span corruption on C4, 524,288 steps of 128 x 512 tokens with Adafactor.

    convnlp pretrain --config=pretrain_c4:dynamic_conv,base --workdir=DIR \
        --strategy=tpu --tpu=NAME --config.tokenizer=spm.model \
        --config.data.data_dir=gs://BUCKET/tensorflow_datasets

Source: Tay et al., 2021, section 4; optimiser and schedule of T5. The argument is MIXER,SIZE. In the paper, a
run took about 12 hours on 16 TPU chips. It needs a TPU and a prepared C4; we have not run it.

Lightweight and dynamic convolutions have windows of 7 and two depth filters, H = 2, as in the text; the
authors' release has a softmaxed filter for each channel. For its dilated convolutions, the paper gives eleven
sizes for twelve layers, and no rates. The last size is ours, and so are the rates 1, 2, 5 of size base, which
leave no gap between the taps of three layers (Wang et al., 2018, section 3.2, https://arxiv.org/abs/1702.08502).
"""

from convnlp.configs import common


def get_config(arguments="dynamic_conv,base"):
    """Args: arguments: "MIXER,SIZE", names from `convnlp.layers.MIXERS` and `convnlp.models.SIZES`."""
    mixer, _, size = arguments.partition(",")
    if not mixer or not size or "," in size:
        raise ValueError(
            f"the argument must be MIXER,SIZE, such as dynamic_conv,base. Received: {arguments!r}"
        )
    config = common.get_config()
    config.model.size = size
    common.set_mixer(config, mixer)
    if mixer in ("lightweight_conv", "dynamic_conv"):
        config.model.mixer_options.num_heads = 2  # only for the mixer: cross-attention keeps its own
    if mixer == "dilated_conv":
        config.model.dilation_rate = (2,)
        if size == "base":
            config.model.kernel_size = (4, 4, 7, 7, 15, 15, 15, 15, 31, 31, 31, 31)
            config.model.dilation_rate = (1, 2, 5) * 4
    return config
