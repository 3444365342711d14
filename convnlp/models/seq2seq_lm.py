"""A text-to-text model: generation through keras_nlp's samplers, one decoding step at a time."""

import functools
import threading

import keras
import keras_nlp
import numpy as np
import tensorflow as tf
from keras import ops

from convnlp.models import arguments, arrays, given_data
from convnlp.models.language_model import LanguageModel, certain_logits, tracked, up_to_end
from convnlp.models.seq2seq_backbone import Seq2SeqBackbone
from convnlp.models.seq2seq_lm_preprocessor import Seq2SeqLMPreprocessor
from convnlp.models.token_rows import check_length, text_batches
from convnlp.models.tokenizer import Tokenizer

_TEXTS = {"encoder_text", "decoder_text"}
_INPUTS = (
    '`inputs` must be a text, a list of texts, or a dict with "encoder_text", which is a tuple of two for '
    "pairs"
)
_call = threading.local()  # of each thread: `strips_prompt`, of the `generate` that is under way


@keras.saving.register_keras_serializable(package="convnlp")
class Seq2SeqLM(LanguageModel, keras_nlp.models.Seq2SeqLM):
    """p(y_t | y_<t, x) = softmax(E h_t): the backbone's decoder output times the tied embedding.

    `generate` runs any sampler of keras_nlp (greedy unless compiled with another) on the decoder's
    `decode_step`, whose flat dict of fixed shapes is the cache that beam search gathers. Departs from
    keras_nlp's loop: a beam's score is that of its own text, see `language_model.certain_logits`.

    Args:
        backbone: a `Seq2SeqBackbone` with a decoder.
        preprocessor: a `Seq2SeqLMPreprocessor`, or None to feed token ids.
        compile: bool. Default False: the optimiser is the user's choice, or belongs in a strategy's scope.
        **kwargs: `name` and `trainable` of the Keras model.

    Raises:
        ValueError: if an argument is unknown, `backbone` has no decoder, or the preprocessor's rows are too
            long for its mixers.

    Example:
    ```python
    import io, sentencepiece
    from convnlp.models import Seq2SeqBackbone, Seq2SeqLM, Seq2SeqLMPreprocessor, Tokenizer
    proto = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat", "the dog ran"]), model_writer=proto, vocab_size=16,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2)
    tokenizer = Tokenizer(proto.getvalue())
    backbone = Seq2SeqBackbone(
        tokenizer.vocabulary_size(), num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16)
    lm = Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(tokenizer, 8, 8))
    assert isinstance(lm.generate("the cat"), str)
    lm.compile(sampler="beam")
    assert len(lm.generate(["the cat", "a dog"], max_length=6)) == 2
    ```
    """

    pipeline_tag = "text2text-generation"
    backbone_cls = Seq2SeqBackbone
    preprocessor_cls = Seq2SeqLMPreprocessor

    @staticmethod
    def check_backbone(backbone):
        """Raises ValueError unless a backbone has a decoder."""
        if not backbone.num_decoder_layers:
            raise ValueError(
                "`backbone` must have a decoder; an encoder alone is for `PrefixLM` or `TextClassifier`. "
                "Received: one with num_decoder_layers=0"
            )

    def __init__(self, backbone, preprocessor=None, compile=False, **kwargs):
        arguments.refuse_unknown(Seq2SeqLM, kwargs)
        self.check_backbone(backbone)
        if preprocessor is not None:
            backbone.require_vocabulary(preprocessor)
            for side in ("encoder", "decoder"):
                name = f"{side}_sequence_length"
                backbone.require_length(side, name, getattr(preprocessor, name))
            if not backbone.num_layers:  # one row holds both
                length = preprocessor.encoder_sequence_length + preprocessor.decoder_sequence_length
                name = "encoder_sequence_length + decoder_sequence_length"
                backbone.require_length("decoder", name, length)

        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor

        # === Functional model ===
        inputs = backbone.input
        super().__init__(
            inputs=inputs,
            outputs=backbone.logits(backbone(inputs)["decoder_sequence_output"]),
            compile=False,
            **kwargs,
        )

        self._prepare(compile)

    def _check_form(self, x=None, name="x"):
        """Raises ValueError unless x holds sources and targets, as the preprocessor takes them."""
        part = getattr(x, "element_spec", x)  # of a data set
        part = part[0] if isinstance(x, tf.data.Dataset) and isinstance(part, tuple) else part
        if self.preprocessor is not None and not (isinstance(part, dict) and {*part} >= _TEXTS):
            raise ValueError(
                f'`{name}` must be a dict with "encoder_text" and "decoder_text", the texts to read and '
                f"those to write, or a data set of such dicts. Received: {arrays.in_line(x)}"
            )

    def generate(self, inputs, max_length=None, stop_token_ids="auto", strip_prompt=False):
        """As in keras_nlp.

        Args:
            inputs: str, list of str, a dict with "encoder_text" and "decoder_text" (the prompt, which may be
                left out), or a data set of what the preprocessor takes. For pairs of texts, pass a tuple of
                two as "encoder_text": `generate({"encoder_text": (questions, passages)})`.
            max_length: int >= 2, with start and end token. Default: the preprocessor's.
            stop_token_ids: "auto" (the tokenizer's end token), None or an empty list (nothing stops before
                `max_length`), or a list of token ids.
            strip_prompt: bool. Whether to return the output without the prompt.

        Returns:
            str or list of str; without a preprocessor, a dict of token ids and mask.

        Raises:
            ValueError: if an argument is out of its range.
        """
        if max_length is not None:
            max_length = check_length("max_length", max_length, 2)
            self._require_length(max_length)
        stop_token_ids = self._stop_token_ids(stop_token_ids)
        inputs, is_single = self._columns(inputs, _columns_of)
        if self.preprocessor is not None and arrays.is_empty(inputs):
            return []
        found = self._generate(inputs, max_length, stop_token_ids, strip_prompt)
        return found[0] if is_single else found

    def _require_length(self, max_length):
        """Raises ValueError if outputs can be too long: XLA, in which they are made, drops such checks."""
        if self.backbone.num_layers or self.preprocessor is None:
            self.backbone.require_length("decoder", "max_length", max_length)
            return
        length = self.preprocessor.encoder_sequence_length
        self.backbone.require_length("decoder", "encoder_sequence_length + max_length", length + max_length)

    def _generate(self, inputs, max_length, stop_token_ids, strip_prompt):
        _call.strips_prompt = strip_prompt
        try:
            return super().generate(inputs, max_length, stop_token_ids)
        finally:
            _call.strips_prompt = False

    def make_generate_function(self):
        """As in keras_nlp; inside a `generate` with `strip_prompt`, the outputs have no prompts."""
        generate_function = super().make_generate_function()
        if not getattr(_call, "strips_prompt", False):
            return generate_function

        def without_prompt(inputs, stop_token_ids=None):
            return _without_prompt(generate_function(inputs, stop_token_ids=stop_token_ids), inputs)

        return without_prompt

    def generate_step(self, inputs, stop_token_ids=None):
        """Generates for one batch; `generate` compiles this.

        Args:
            inputs: as `Seq2SeqLMPreprocessor.generate_preprocess` returns them; T is the output's length.
            stop_token_ids: list of int. A row ends with the first of them; None: at T.

        Returns:
            {"decoder_token_ids" int32 [B,T], "decoder_padding_mask" bool [B,T]}, with start and end token.
        """
        prompt_mask = ops.cast(inputs["decoder_padding_mask"], "bool")
        prompt_ids = ops.cast(inputs["decoder_token_ids"], "int32")
        state = self._encode(
            inputs["encoder_token_ids"], inputs["encoder_padding_mask"], max_length=ops.shape(prompt_ids)[1]
        )
        state |= tracked(prompt_mask)
        sample = functools.partial(self._sample, stop_token_ids=stop_token_ids)
        if not tf.executing_eagerly():
            # One XLA program for the loop: a step has hundreds of small operations, and TensorFlow's overhead
            # for each would take half of its time. The encoder before it is faster without XLA.
            sample = tf.function(sample, autograph=False, jit_compile=True)
        token_ids = sample(prompt_ids, prompt_mask, state)
        mask = up_to_end(token_ids, prompt_mask, stop_token_ids)
        return {"decoder_token_ids": token_ids, "decoder_padding_mask": mask}

    def _sample(self, prompt_ids, prompt_mask, state, stop_token_ids):
        """Runs the sampler's loop over the positions of int32 [B,T], from the decoder's first state."""

        def next_logits(token_ids, state, index):
            state = dict(state)
            known = {name: state.pop(name) for name in tracked(prompt_mask)}
            logits, hidden, state = self._step(token_ids[:, index - 1], state, index - 1)
            logits, known = certain_logits(logits, token_ids, known, index, stop_token_ids)
            return logits, hidden, {**state, **known}

        return self.sampler(
            next=next_logits,
            prompt=prompt_ids,
            cache=state,
            index=1,  # position 0 holds the start token
            mask=prompt_mask,
            stop_token_ids=stop_token_ids,
            model=self,
        )

    def generate_ids(
        self, encoder_token_ids, encoder_padding_mask, max_length, end_token_id=Tokenizer.end_token_id
    ):
        """Decodes greedily in one graph of core ops and fixed shapes, for exported models.

        Args:
            encoder_token_ids: int32 [B,S].
            encoder_padding_mask: bool [B,S], True = token.
            max_length: int. N, the upper bound of the output's length, including the end token.
            end_token_id: int. The loop stops when every row has it. Defaults to the tokenizer's, 1.

        Returns:
            int32 [B,N]: the output without a start token but with its end token, then pads (0).
        """
        state = self._encode(encoder_token_ids, encoder_padding_mask, max_length)
        last = tf.zeros(tf.shape(encoder_token_ids)[:1], tf.int32)  # [B], also of rows without a token
        positions = tf.expand_dims(tf.range(max_length), 0)

        def unfinished(index, ids, last, finished, state):
            return tf.logical_and(index < max_length, tf.logical_not(tf.reduce_all(finished)))

        def step(index, ids, last, finished, state):
            logits, _, state = self._step(last, state, index)
            last = tf.where(finished, 0, tf.argmax(logits, axis=-1, output_type=tf.int32))
            ids = tf.where(positions == index, tf.expand_dims(last, 1), ids)  # [B,N]
            return index + 1, ids, last, tf.logical_or(finished, last == end_token_id), state

        ids = tf.tile(tf.expand_dims(last, 1), [1, max_length])
        start = (0, ids, last, tf.zeros_like(last, tf.bool), state)
        return tf.while_loop(unfinished, step, start)[1]

    def rank_labels(self, texts, label_names, batch_size=32):
        """Returns log p(label | text) of every label string with its end token: T5's rank classification.

        Args:
            texts: list of N str, or a tuple of two for pairs.
            label_names: list of C >= 1 str.
            batch_size: int >= 1. Texts per step; each is decoded C times.

        Returns:
            float32 NumPy array [N,C].

        Raises:
            ValueError: if an argument is out of its range, or if there is no preprocessor.
        """
        if self.preprocessor is None:
            raise ValueError("`rank_labels` needs a preprocessor: without one texts cannot be tokenized")
        label_names = given_data.listed(label_names, "label_names")
        if not label_names:
            raise ValueError("`label_names` must hold at least one label. Received: []")
        columns = [
            given_data.listed(column, "texts") for column in (texts if isinstance(texts, tuple) else (texts,))
        ]
        if len({len(column) for column in columns}) > 1:
            counts = ", ".join(str(len(column)) for column in columns)
            raise ValueError(f"The columns of `texts` must have as many entries each. Received: {counts}")
        texts = tuple(columns) if len(columns) > 1 else columns[0]
        tokenizer = self.preprocessor.tokenizer
        longest = max(len(row) for row in tokenizer.tokenize(label_names))
        label = self.preprocessor(
            {"encoder_text": label_names, "decoder_text": label_names}, sequence_length=longest + 1
        )
        score = tf.function(self._label_scores, autograph=False)
        scores = [np.zeros([0, len(label_names)], "float32")]
        for chunk, count in text_batches(texts, batch_size):
            x = self.preprocessor.generate_preprocess(chunk)
            scores.append(score(x["encoder_token_ids"], x["encoder_padding_mask"], *label).numpy()[:count])
        return np.concatenate(scores)

    def _label_scores(self, encoder_token_ids, encoder_padding_mask, label_inputs, label_ids, label_weight):
        batch, count = tf.shape(encoder_token_ids)[0], label_ids.shape[0]
        encoder_output = self.backbone.encode(encoder_token_ids, padding_mask=encoder_padding_mask)

        def per_text(labels):  # [C,T] -> [B*C,T]
            return tf.tile(labels, [batch, 1])

        hidden = self.backbone.decode(
            per_text(label_inputs["decoder_token_ids"]),
            tf.repeat(encoder_output, count, axis=0),  # [B*C,S,D]
            encoder_padding_mask=tf.repeat(encoder_padding_mask, count, axis=0),
            padding_mask=per_text(label_inputs["decoder_padding_mask"]),
        )
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
            per_text(label_ids), self.backbone.logits(hidden)
        )
        return -tf.reshape(tf.reduce_sum(loss * per_text(label_weight), axis=1), [batch, count])  # [B,C]

    def _encode(self, token_ids, padding_mask, max_length):
        """Returns the decoder's state for a batch of sources."""
        padding_mask = ops.cast(padding_mask, "bool")
        encoder_output = self.backbone.encode(token_ids, padding_mask=padding_mask)
        return self.backbone.init_decoder_state(encoder_output, padding_mask, max_length)

    def _step(self, last, state, index):
        """Takes token ids [B] at position `index`; returns the next logits [B,V], hidden [B,D] and state."""
        hidden, state = self.backbone.decode_step(ops.expand_dims(last, 1), state, index)
        return self.backbone.logits(hidden)[:, 0], hidden[:, 0], state


def _columns_of(inputs):
    """Returns the inputs of `generate` with a list for each text alone, and whether they were one example.

    keras_nlp would put the lists into the caller's dict, and would take a pair of texts for a batch.

    Raises:
        ValueError: if they are not what `generate` takes.
    """
    named = inputs if isinstance(inputs, dict) else {"encoder_text": inputs}
    named = {name: value for name, value in named.items() if name != "decoder_text" or value is not None}
    if "encoder_text" not in named or set(named) - {"encoder_text", "decoder_text"}:
        raise ValueError(f'{_INPUTS}, and may have "decoder_text". Received: {arrays.in_line(inputs)}')
    columns, singles = {}, set()
    for name, value in named.items():
        is_pair = isinstance(inputs, dict) and name == "encoder_text" and isinstance(value, tuple)
        found = [given_data.single_or_many(text) for text in (value if is_pair else (value,))]
        if any(each is None for each in found):
            raise ValueError(f"{_INPUTS}. Received: {arrays.in_line(inputs)}")
        texts = tuple(text for text, _ in found)
        for text in texts:
            given_data.check_texts(text, "inputs")
        columns[name] = texts if is_pair else texts[0]
        singles |= {is_single for _, is_single in found}
    if len(singles) > 1:
        raise ValueError(
            f"`inputs` must be texts alone or lists, not both. Received: {arrays.in_line(inputs)}"
        )
    return (columns if isinstance(inputs, dict) else columns["encoder_text"]), singles == {True}


def _without_prompt(outputs, inputs):
    """Moves generated tokens to the front, from position 0 on; the prompt follows, outside the mask."""
    given = ops.cast(inputs["decoder_padding_mask"], "bool")
    kept = ops.logical_and(outputs["decoder_padding_mask"], ops.logical_not(given))
    order = tf.argsort(tf.cast(tf.logical_not(kept), tf.int32), axis=1, stable=True)  # [B,T]
    return {
        "decoder_token_ids": tf.gather(outputs["decoder_token_ids"], order, batch_dims=1),
        "decoder_padding_mask": tf.gather(kept, order, batch_dims=1),
    }
