"""The same models made of keras_nlp's layers: a classifier, an encoder-decoder, and BART for generation."""

import keras
import keras_nlp
from keras import ops


def _embedding(sizes, max_length, dtype):
    return keras_nlp.layers.TokenAndPositionEmbedding(
        sizes["vocabulary_size"], max_length, sizes["hidden_dim"], dtype=dtype
    )


def _encode(x, sizes, dtype, padding_mask=None):
    """Applies the `TransformerEncoder` layers: [B,T,D] -> [B,T,D]."""
    for _ in range(sizes["num_layers"]):
        layer = keras_nlp.layers.TransformerEncoder(
            sizes["intermediate_dim"], sizes["num_heads"], dtype=dtype
        )
        x = layer(x, padding_mask=padding_mask)
    return x


def classifier(sizes, max_length, num_classes, is_masked, dtype="float32"):
    """Builds embeddings, `TransformerEncoder` layers, mean and maximum pooling, and a dense layer.

    Args:
        sizes: dict, see `benchmarks.peers`.
        max_length: int. Rows of the position embedding.
        num_classes: int. C.
        is_masked: bool. Whether attention and pooling ignore pads. If not, the mask is not an input.
        dtype: dtype policy of the encoder. The head is float32.

    Returns:
        A `keras.Model`: {"token_ids" [B,T], if `is_masked` "padding_mask" bool [B,T]} -> logits [B,C].
    """
    inputs = {"token_ids": keras.Input((None,), dtype="int32", name="token_ids")}
    mask = None
    if is_masked:
        inputs["padding_mask"] = mask = keras.Input((None,), dtype="bool", name="padding_mask")
    x = _encode(_embedding(sizes, max_length, dtype)(inputs["token_ids"]), sizes, dtype, mask)
    x = ops.cast(x, "float32")
    if mask is None:
        mean, maximum = ops.mean(x, axis=1), ops.max(x, axis=1)
    else:
        tokens = ops.cast(ops.expand_dims(mask, 2), "float32")  # [B,T,1]
        mean = ops.sum(x * tokens, axis=1) / ops.sum(tokens, axis=1)
        maximum = ops.max(x - (1.0 - tokens) * 1e9, axis=1)
    head = keras.layers.Dense(num_classes, dtype="float32")
    return keras.Model(inputs, head(ops.concatenate([mean, maximum], axis=1)))


def encoder_decoder(sizes, max_length, dtype="float32"):
    """Builds `TransformerEncoder` and `TransformerDecoder` layers with one tied embedding.

    Args:
        sizes: dict, see `benchmarks.peers`.
        max_length: int. Rows of the position embedding.
        dtype: dtype policy.

    Returns:
        A `keras.Model`: {"encoder_token_ids" [B,S], "decoder_token_ids" [B,T]} -> float32 logits [B,T,V].
    """
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in ("encoder_token_ids", "decoder_token_ids")
    }
    embedding = _embedding(sizes, max_length, dtype)
    encoded = _encode(embedding(inputs["encoder_token_ids"]), sizes, dtype)
    x = embedding(inputs["decoder_token_ids"])
    for _ in range(sizes["num_decoder_layers"]):
        layer = keras_nlp.layers.TransformerDecoder(
            sizes["intermediate_dim"], sizes["num_heads"], dtype=dtype
        )
        x = layer(x, encoded)
    return keras.Model(inputs, ops.cast(embedding.token_embedding(x, reverse=True), "float32"))


def seq2seq_lm(sizes, max_length, sampler="greedy", jit_compile=True, dtype="float32"):
    """Builds BART of the given size, keras_nlp's encoder-decoder that generates with a cache.

    Args:
        sizes: dict, see `benchmarks.peers`. BART has as many decoder layers as encoder layers.
        max_length: int. Rows of the position embeddings.
        sampler: str or `keras_nlp.samplers.Sampler`.
        jit_compile: bool. Whether XLA compiles `generate`, which is keras_nlp's default.
        dtype: dtype policy.

    Returns:
        A `keras_nlp.models.BartSeq2SeqLM` without a preprocessor: `generate` takes token ids.
    """
    backbone = keras_nlp.models.BartBackbone(
        sizes["vocabulary_size"],
        sizes["num_layers"],
        sizes["num_heads"],
        sizes["hidden_dim"],
        sizes["intermediate_dim"],
        dropout=0.0,
        max_sequence_length=max_length,
        dtype=dtype,
    )
    lm = keras_nlp.models.BartSeq2SeqLM(backbone)
    lm.compile(sampler=sampler, jit_compile=jit_compile)
    return lm
