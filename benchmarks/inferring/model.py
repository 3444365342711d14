"""The classifiers that are measured, and the files that the other tools need of them."""

import json
import pathlib

import numpy as np

from benchmarks.inferring.pieces import FACTS, VOCABULARY
from convnlp.models import SIZES, Seq2SeqBackbone, TextClassifier, TextClassifierPreprocessor, Tokenizer

MIXINGS = {"lightweight_conv": "conv", "self_attention": "attention"}  # ours -> PyTorch's
KERNEL_SIZE, NUM_CLASSES, SEED = 7, 4, 0
# That of the shipped preset: 12,000 pieces, English.
_VOCABULARY = "convnlp/presets/dynamic_conv_mini_en/assets/tokenizer/vocabulary.spm"
_ROOT = pathlib.Path(__file__).resolve().parents[2]


def classifier(mixer, size, sequence_length, vocabulary=None):
    """Returns an untrained classifier in which every weight matters: no gain of a norm is 1, no bias is 0.

    With attention, it has a learned position embedding, and its relative bias is zero. Thus the other
    libraries can use their fastest kernels and still compute the same.

    Args:
        mixer: str, a key of `MIXINGS`.
        size: str, name in `convnlp.models.SIZES`.
        sequence_length: int, the number of tokens to which texts are truncated.
        vocabulary: bytes of a SentencePiece model. Default: that of the shipped preset.
    """
    tokenizer = Tokenizer(vocabulary or (_ROOT / _VOCABULARY).read_bytes())
    options = {"position_embedding": "learned"} if mixer == "self_attention" else {"kernel_size": KERNEL_SIZE}
    backbone = Seq2SeqBackbone(
        tokenizer.vocabulary_size(),
        **{**SIZES[size], "num_decoder_layers": 0},
        encoder_mixer=mixer,
        max_sequence_length=sequence_length,
        **options,
    )
    model = TextClassifier(
        backbone,
        NUM_CLASSES,
        TextClassifierPreprocessor(tokenizer, sequence_length),
        labels=[f"class {number}" for number in range(NUM_CLASSES)],
    )
    random = np.random.default_rng(SEED)
    for variable in model.trainable_variables:
        values, is_vector = np.array(variable), len(variable.shape) == 1
        # Matrices are drawn again from our own generator: Keras' depends on what was created before.
        spread = 0.1 if is_vector else values.std()
        noise = random.normal(scale=spread, size=values.shape)
        variable.assign(values + noise if is_vector else noise)
    for layer in backbone.encoder.layers:
        if mixer == "self_attention":
            layer.mixing.bias.table.assign(np.zeros(layer.mixing.bias.table.shape, "float32"))
    return model


def written(folder, mixer, size, sequence_length):
    """Writes the preset of a `classifier`, its vocabulary and the facts for the twins, unless they exist.

    Args:
        folder: pathlib.Path.
        mixer: str.
        size: str.
        sequence_length: int.

    Returns:
        dict, the contents of facts.json.
    """
    if not (folder / FACTS).exists():
        folder.mkdir(parents=True, exist_ok=True)
        _write(classifier(mixer, size, sequence_length), mixer, folder)
    return json.loads((folder / FACTS).read_text(encoding="utf-8"))


def _write(model, mixer, folder):
    model.save_to_preset(str(folder / "preset"))
    tokenizer, backbone = model.preprocessor.tokenizer, model.backbone
    (folder / VOCABULARY).write_bytes((folder / "preset" / "assets" / "tokenizer" / VOCABULARY).read_bytes())
    sizes = ("num_layers", "num_heads", "hidden_dim", "intermediate_dim")
    facts = {
        "mixing": MIXINGS[mixer],
        "sizes": {
            "vocabulary_size": tokenizer.vocabulary_size(),
            **{name: getattr(backbone, name) for name in sizes},
        },
        "kernel_size": KERNEL_SIZE,
        "sequence_length": model.preprocessor.sequence_length,
        "num_classes": NUM_CLASSES,
        "end_token_id": tokenizer.end_token_id,
        "parameters": model.count_params(),
    }
    (folder / FACTS).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
