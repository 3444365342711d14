"""A language model without a decoder: an encoder that continues texts."""

import keras
import keras_nlp
import tensorflow as tf
from keras import ops

from convnlp.models import arguments, arrays, given_data
from convnlp.models.language_model import LanguageModel, certain_logits, tracked, up_to_end
from convnlp.models.pooled_encoder import token_inputs
from convnlp.models.prefix_lm_preprocessor import PrefixLMPreprocessor
from convnlp.models.seq2seq_backbone import Seq2SeqBackbone
from convnlp.models.token_rows import check_length
from convnlp.models.tokenizer import SPACE


@keras.saving.register_keras_serializable(package="convnlp")
class PrefixLM(LanguageModel, keras_nlp.models.CausalLM):
    """Continues prompts with an encoder alone: p(x_t | x_<t) = softmax(E h_(t-1)).

    The prompt is the prefix, which is read in both directions; each further token is predicted from all that
    comes before it. In training, the end token separates documents: it ends a continuation, and an empty
    prompt is that token alone. Each step recomputes the whole row, as in `convnlp.layers.PrefixDecoder`. A
    beam's score is that of its own text, see `language_model.certain_logits`.

    Source: Dong et al., 2019, "Unified Language Model Pre-training for Natural Language Understanding and
    Generation" (UniLM), section 2.3, https://arxiv.org/abs/1905.03197.

    Called as a Keras model on {"token_ids", "padding_mask"} [B,T], it returns the logits [B,T,V] of the next
    tokens without a prompt: each position sees what comes before it.

    Args:
        backbone: a `Seq2SeqBackbone` without a decoder, of mixers with supports_prefix = True.
        preprocessor: a `PrefixLMPreprocessor`, or None to feed token ids.
        compile: bool. Default False: the optimiser is the user's choice, or belongs in a strategy's scope.
        **kwargs: of `keras.Model`.

    Raises:
        ValueError: if the backbone is not such an encoder, or if the preprocessor's rows are too long for it.

    Example:
    ```python
    import io, sentencepiece
    from convnlp.models import PrefixLM, PrefixLMPreprocessor, Seq2SeqBackbone, Tokenizer
    proto = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat", "the dog ran"]), model_writer=proto, vocab_size=16,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2)
    tokenizer = Tokenizer(proto.getvalue())
    backbone = Seq2SeqBackbone(
        tokenizer.vocabulary_size(), num_layers=1, num_decoder_layers=0, num_heads=2, hidden_dim=8,
        intermediate_dim=16)
    lm = PrefixLM(backbone, PrefixLMPreprocessor(tokenizer, 12))
    assert lm.generate("the cat").startswith("the cat")
    ```
    """

    pipeline_tag = "text-generation"
    backbone_cls = Seq2SeqBackbone
    preprocessor_cls = PrefixLMPreprocessor

    @staticmethod
    def check_backbone(backbone):
        """Raises ValueError unless a backbone is an encoder alone that can continue a text."""
        if backbone.num_decoder_layers or backbone.encoder.pool_factor > 1:
            raise ValueError(
                "`backbone` must be an encoder alone with an output for every token. Received: one with "
                f"num_decoder_layers={backbone.num_decoder_layers}, pool_size={backbone.pool_size}"
            )
        leaking = {layer.mixer.name for layer in backbone.encoder.layers if not layer.mixer.supports_prefix}
        if leaking:
            raise ValueError(
                "`backbone` must have mixers with supports_prefix = True. "
                f"Received: {', '.join(sorted(leaking))}"
            )

    def __init__(self, backbone, preprocessor=None, compile=False, **kwargs):
        arguments.refuse_unknown(PrefixLM, kwargs)
        self.check_backbone(backbone)
        if preprocessor is not None:
            backbone.require_vocabulary(preprocessor)
            backbone.require_length("encoder", "sequence_length", preprocessor.sequence_length)

        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor

        # === Functional model ===
        inputs = token_inputs()
        mask = inputs["padding_mask"]
        hidden = backbone.encode(inputs["token_ids"], padding_mask=mask, prefix_mask=ops.zeros_like(mask))
        super().__init__(inputs=inputs, outputs=backbone.logits(hidden), compile=False, **kwargs)

        self._prepare(compile)

    def generate(self, inputs, max_length=None, stop_token_ids="auto", strip_prompt=False):
        """As in keras_nlp.

        Args:
            inputs: str, list of str, or a data set of what the preprocessor takes.
            max_length: int >= 2, prompt and continuation together. Default: the preprocessor's.
            stop_token_ids: "auto" (the tokenizer's end token), None or an empty list (nothing stops before
                `max_length`), or a list of token ids.
            strip_prompt: bool. Whether to return the continuation without the prompt.

        Returns:
            str or list of str; without a preprocessor, a dict of token ids and mask.

        Raises:
            ValueError: if an argument is out of its range.
        """
        if max_length is not None:
            max_length = check_length("max_length", max_length, 2)
            if self.preprocessor is not None:
                self.backbone.require_length("encoder", "max_length", max_length)
        stop_token_ids = self._stop_token_ids(stop_token_ids)
        inputs, is_single = self._columns(inputs, _columns_of)
        if self.preprocessor is not None and arrays.is_empty(inputs):
            return []
        found = super().generate(inputs, max_length, stop_token_ids, strip_prompt)
        return found[0] if is_single else found

    def generate_step(self, inputs, stop_token_ids=None):
        """Generates for one batch; `generate` compiles this.

        Args:
            inputs: as `PrefixLMPreprocessor.generate_preprocess` returns them, [B,T].
            stop_token_ids: list of int. A row ends with the first of them; None: at T.

        Returns:
            {"token_ids" int32 [B,T], "padding_mask" bool [B,T]}, with prompt and end token.
        """
        prompt_mask = ops.cast(inputs["padding_mask"], "bool")
        prompt_ids = ops.cast(inputs["token_ids"], "int32")
        places = ops.arange(ops.shape(prompt_ids)[1])

        def next_logits(token_ids, state, index):
            prefix = state["prompt_mask"]  # of each beam
            known = ops.logical_or(prefix, places < index)
            hidden = self.backbone.encode(token_ids, padding_mask=known, prefix_mask=prefix)
            last = hidden[:, index - 1]
            logits = self.backbone.logits(ops.expand_dims(last, 1))[:, 0]
            logits, state = certain_logits(logits, token_ids, state, index, stop_token_ids)
            return logits, last, state

        token_ids = self.sampler(
            next=next_logits,
            prompt=prompt_ids,
            cache=tracked(prompt_mask),
            index=ops.min(ops.sum(ops.cast(prompt_mask, "int32"), axis=1)),
            mask=prompt_mask,
            stop_token_ids=stop_token_ids,
            model=self,
        )
        mask = up_to_end(token_ids, prompt_mask, stop_token_ids)
        return {"token_ids": token_ids, "padding_mask": mask}

    def generate_ids(self, token_ids, max_length):
        """Returns the continuations of prompts, as one graph of core ops.

        Args:
            token_ids: int32 [B,S], prompts without an end token, followed by pads (0).
            max_length: int >= 1. N.

        Returns:
            int32 [B,N]: each continuation with its end token, then pads.
        """
        end_token_id = self.preprocessor.tokenizer.end_token_id
        rows, count = self.rows(tf.pad(token_ids, [[0, 0], [0, max_length]]))
        places, steps = tf.range(tf.shape(rows)[1]), tf.range(max_length)
        prefix = places < count[:, None]  # [B,S+N]

        def unfinished(index, rows, generated, finished):
            return tf.logical_and(index < max_length, tf.logical_not(tf.reduce_all(finished)))

        def step(index, rows, generated, finished):
            length = count + index  # [B]
            mask = places < length[:, None]
            hidden = self.backbone.encode(rows, padding_mask=mask, prefix_mask=prefix)
            last = tf.gather(hidden, length[:, None] - 1, batch_dims=1)  # [B,1,D]
            best = tf.argmax(self.backbone.logits(last)[:, 0], axis=-1, output_type=tf.int32)
            token = tf.where(finished, 0, best)  # [B]
            rows = tf.where(places == length[:, None], token[:, None], rows)
            generated = tf.where(steps == index, token[:, None], generated)
            return index + 1, rows, generated, tf.logical_or(finished, token == end_token_id)

        nothing = tf.zeros_like(count)
        start = (0, rows, tf.tile(nothing[:, None], [1, max_length]), tf.cast(nothing, tf.bool))
        return tf.while_loop(unfinished, step, start)[2]

    def rows(self, token_ids):
        """Returns prompts as the encoder reads them, int32 [B,S], S >= 1, and their lengths, int32 [B]."""
        count = tf.reduce_sum(tf.cast(token_ids != 0, tf.int32), axis=1)
        is_first = tf.range(tf.shape(token_ids)[1]) == 0
        is_empty = tf.logical_and(is_first, count[:, None] == 0)
        token_ids = tf.where(is_empty, self.preprocessor.tokenizer.end_token_id, token_ids)
        return token_ids, tf.maximum(count, 1)

    def continued(self, text, token_ids):
        """Returns texts [B] without trailing white space, and what token ids [B,N] add to them."""
        text = tf.strings.regex_replace(text, r"\s+$", "")  # the tokenizer drops it too
        added = tf.strings.reduce_join(self.preprocessor.tokenizer.pieces(token_ids), axis=-1)
        added = tf.strings.regex_replace(added, SPACE, " ")
        return tf.where(text == "", tf.strings.regex_replace(added, "^ ", ""), tf.strings.join([text, added]))


def _columns_of(inputs):
    """Returns the inputs of `generate` as a list of texts, and whether they were one text."""
    found = given_data.single_or_many(inputs)
    if found is None:
        raise ValueError(
            "`inputs` must be a text, a list of texts or a data set of tf.data. "
            f"Received: {arrays.in_line(inputs)}"
        )
    return found
