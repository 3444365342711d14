"""What all models with a head on the encoder share, beyond what keras_nlp gives them."""

import keras
from keras import ops

from convnlp.layers.learned_pooling import AttentionPooling, ClassAttention
from convnlp.layers.pair_segments import PairSegments
from convnlp.layers.token_pooling import TextPooling
from convnlp.models import arguments, arrays, presets
from convnlp.models.recipe_model import RecipeModel
from convnlp.models.seq2seq_backbone import Seq2SeqBackbone
from convnlp.models.text_classifier_preprocessor import TextClassifierPreprocessor
from convnlp.models.tokenizer import Tokenizer

FIXED_POOLING = ("mean", "max", "mean_max", "layers", "pair")
LEARNED_POOLING = ("attention", "class_attention")  # with weights, which belong to the head
POOLING = (*FIXED_POOLING, *LEARNED_POOLING)


def keeps_texts_apart(encoder):
    """Returns whether an `Encoder` can encode several texts of a row as if each stood alone."""
    return encoder.pool_factor == 1 and all(layer.mixer.supports_packing for layer in encoder.layers)


def require_pooling(name, pooling, encoder):
    """Raises ValueError unless an encoder allows a pooling.

    Args:
        name: str, the argument or field that gives the pooling.
        pooling: str.
        encoder: `Encoder`.

    Raises:
        ValueError: if there is no such pooling, or if the encoder merges positions or mixes the texts of a
            row although the pooling needs them apart. The message names the argument, the rule and the value.
    """
    if pooling not in POOLING:
        raise ValueError(f"`{name}` must be one of {', '.join(POOLING)}. Received: {pooling!r}")
    if pooling == "layers" and encoder.pool_factor > 1:
        raise ValueError(
            f"`{name}` must not be 'layers' for an encoder that merges positions. "
            f"Received: {name}='layers', pool_size={encoder.pool_sizes}"
        )
    if pooling == "pair" and not keeps_texts_apart(encoder):
        raise ValueError(
            f"`{name}` must not be 'pair' for an encoder that cannot keep two texts of a row apart. "
            f"Received: {name}='pair', pool_size={encoder.pool_sizes}, "
            f"mixer={[layer.mixer.name for layer in encoder.layers]}"
        )


def token_inputs():
    """Returns the inputs of a functional model: {"token_ids" int32, "padding_mask" bool}, [B,T] each."""
    return {
        "token_ids": keras.Input((None,), dtype="int32", name="token_ids"),
        "padding_mask": keras.Input((None,), dtype="bool", name="padding_mask"),
    }


class PooledEncoder(RecipeModel):
    """An encoder, and the mean and the maximum of its output over a text.

    Comes before a keras_nlp class among the bases of a model, as in
    `class TextClassifier(PooledEncoder, keras_nlp.models.TextClassifier)`; docs/your_own_task.md shows one.
    The constructor calls `_take` before `keras.Model` is made, and builds the head on `pool(token_inputs())`.

    Attributes:
        backbone: `Seq2SeqBackbone` without a decoder.
        preprocessor: a `TextClassifierPreprocessor`, or None.
        pools_layers: bool. Whether the model uses `pool_layers`.
        pooling: str, what the model passes to `pooled`; None if it has no choice of it.
    """

    pools_layers = False
    pooling = None
    backbone_cls = Seq2SeqBackbone
    preprocessor_cls = TextClassifierPreprocessor

    def _take(self, backbone, preprocessor, pooling=None):
        """Does the first part of a constructor.

        Args:
            backbone: a `Seq2SeqBackbone`. One with a decoder is replaced by its `encoder_only()`, a copy.
            preprocessor: a `TextClassifierPreprocessor`, or None to feed token ids.
            pooling: str, what the model passes to `pooled`. Default None: a pooling without weights.

        Raises:
            ValueError: if the preprocessor does not fit the backbone.
        """
        self.backbone = backbone.encoder_only() if backbone.num_decoder_layers else backbone
        self.preprocessor = preprocessor
        if preprocessor is not None:
            self.backbone.require_vocabulary(preprocessor)
            self.backbone.require_length("encoder", "sequence_length", preprocessor.sequence_length)
        self.text_pooling = TextPooling(name="text_pooling")
        self.learned_pooling = None
        if pooling == "attention":
            self.learned_pooling = AttentionPooling(name=pooling)
        if pooling == "class_attention":
            sizes = self.backbone.num_heads, self.backbone.intermediate_dim
            self.learned_pooling = ClassAttention(*sizes, name=pooling)

    @property
    def compares_texts(self):
        """Whether an example must be a pair: the model compares two texts, and has no answer to one."""
        return self.pooling == "pair"

    def _check_form(self, x=None, name="x"):
        """Raises ValueError for single texts if the model compares two."""
        if self.compares_texts and self.preprocessor is not None and arrays.are_single(x):
            raise ValueError(
                f"`{name}` must be a tuple of two columns for a model that compares two texts. "
                f"Received: {arrays.in_line(x)}"
            )

    def pool(self, inputs):
        """Returns mean and maximum of the encoder's output over the tokens, float32 [B,D] each.

        Args:
            inputs: {"token_ids" int32 [B,L], "padding_mask" bool [B,L]}, as the preprocessor makes them.
        """
        return self._merged(self.text_pooling, inputs)

    def _merged(self, pooling_layer, inputs):
        """Applies a pooling layer to the encoder's output and its mask."""
        token_ids, mask = inputs["token_ids"], inputs["padding_mask"]
        encoded = self.backbone({"encoder_token_ids": token_ids, "encoder_padding_mask": mask})
        output_mask = self.backbone.encoder_output_mask(mask)
        return pooling_layer(encoded["encoder_sequence_output"], padding_mask=output_mask)

    def pooled(self, inputs, pooling):
        """Returns the vector of each text that a head is put on, float32 [B,N].

        Args:
            inputs: as for `pool`.
            pooling: "mean", "max", "mean_max", "layers" or "pair"; or, if the model has its weights,
                "attention" or "class_attention".

        Raises:
            ValueError: if `pooling` is none of these, or if the encoder or the model does not allow it.
        """
        require_pooling("pooling", pooling, self.backbone.encoder)
        if pooling == "layers":
            return self.pool_layers(inputs)
        if pooling == "pair":
            return self.pool_pair(inputs)
        if pooling in LEARNED_POOLING:
            if self.learned_pooling is None or self.learned_pooling.name != pooling:
                own = None if self.learned_pooling is None else self.learned_pooling.name
                raise ValueError(
                    f"`pooling` must be one that the model has the weights of: {own}. Received: {pooling!r}"
                )
            return self._merged(self.learned_pooling, inputs)
        mean, maximum = self.pool(inputs)
        return {"mean": mean, "max": maximum, "mean_max": ops.concatenate([mean, maximum], axis=-1)}[pooling]

    def pool_layers(self, inputs):
        """Returns the means over the tokens of the first layer's input and of each layer's output.

        The middle layers know more about what a text says than the last one, which serves to predict hidden
        tokens. Source: Peters et al., 2018, section 3.2, https://arxiv.org/abs/1802.05365. Departs from it:
        the means are concatenated, so that a head weights them feature by feature.

        Args:
            inputs: as for `pool`.

        Returns:
            float32 [B,(L+1)D], for L layers.

        Raises:
            ValueError: if the encoder merges positions between its layers.
        """
        encoder = self.backbone.encoder
        require_pooling("pooling", "layers", encoder)
        self.pools_layers = True
        mask = inputs["padding_mask"]
        states = [encoder.dropout(self.backbone._embed(inputs["token_ids"]))]
        for layer in encoder.layers:
            states.append(layer(states[-1], padding_mask=mask))
        return ops.concatenate([self.text_pooling(x, padding_mask=mask)[0] for x in states], axis=-1)

    def pool_pair(self, inputs):
        """Encodes two texts that do not see each other and compares their vectors: [u; v; |u - v|; u * v].

        u and v are mean and maximum over the tokens of the first and the second text; v is 0 if there is no
        second text. Source: Conneau et al., 2017, section 3.1, https://arxiv.org/abs/1705.02364. Departs from
        it: means and maxima are both used; and both texts share a row, kept apart as packed texts are, which
        gives the same as two calls.

        Args:
            inputs: as for `pool`, rows `first </s> second </s>`.

        Returns:
            float32 [B,8D].

        Raises:
            ValueError: if the encoder merges positions or cannot keep the texts of a row apart.
        """
        require_pooling("pooling", "pair", self.backbone.encoder)
        token_ids, mask = inputs["token_ids"], inputs["padding_mask"]
        segment_ids = PairSegments(Tokenizer.end_token_id, name="pair_segments")(token_ids, mask)
        encoded = self.backbone.encode(token_ids, padding_mask=mask, segment_ids=segment_ids)
        u, v = (
            ops.concatenate(self.text_pooling(encoded, padding_mask=ops.equal(segment_ids, text)), axis=-1)
            for text in (1, 2)
        )
        return ops.concatenate([u, v, ops.abs(u - v), u * v], axis=-1)

    def embed(self, inputs):
        """Returns a vector per text: the mean of the encoder's output over its tokens.

        Args:
            inputs: {"token_ids" int32 [B,L], "padding_mask" bool [B,L]}, as the preprocessor makes them.

        Returns:
            float32 [B,D].
        """
        return self.pool(inputs)[0]

    def without_head(self):
        """Returns a Keras model of the same inputs and weights whose output is the input of `head`, [B,D]."""
        return keras.Model(self.inputs, self.head.input)

    @classmethod
    def from_preset(cls, preset, load_weights=True, **kwargs):
        """As in keras_nlp; `num_classes` puts a new head on any preset, such as a pre-trained language model.

        Without it, the head is that of the preset, and what it was trained with (`pooling`, ...) must stay.

        Raises:
            ValueError: if the preset cannot be loaded; the message names the directory, the file and what was
                expected there.
        """
        if cls.head_size_argument in kwargs and "labels" in arguments.names(cls):
            kwargs.setdefault("labels", None)  # saved names would be those of other classes
        return super().from_preset(preset, load_weights=load_weights, **kwargs)

    def load_task_weights(self, filepath):
        """As in keras_nlp; a preset's weights are checked first, whoever reads them. See `from_preset`."""
        of_backbone = {id(variable) for variable in self.backbone.variables}
        head = [variable for variable in self.variables if id(variable) not in of_backbone]
        with presets.reading_weights(filepath, head):
            super().load_task_weights(filepath)
