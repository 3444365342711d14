"""A SentencePiece tokenizer: one op for training, serving and TFLite, and ids that no text can produce."""

import keras
import keras_nlp
import numpy as np
import sentencepiece
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from convnlp.models import arguments
from convnlp.models.checked_preset import TextPreset
from convnlp.models.seq2seq_backbone import Seq2SeqBackbone
from convnlp.models.token_rows import check_length

SPACE = "\u2581"  # what SentencePiece writes for a space
_KINDS = {1: "UNIGRAM", 2: "BPE", 3: "WORD", 4: "CHAR"}  # TrainerSpec.ModelType of sentencepiece_model.proto
# White space of two and of three bytes. It is replaced by as many ASCII spaces first, because
# WhitespaceTokenizeWithOffsetsV2 of tensorflow_text 2.21 counts its first byte to the word before it.
_WIDE_SPACES = (
    (r"[\x{85}\x{a0}]", "  "),
    (r"[\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]", "   "),
)


@keras.saving.register_keras_serializable(package="convnlp")
class Tokenizer(TextPreset, keras_nlp.tokenizers.SentencePieceTokenizer):
    """A SentencePiece unigram model with T5's layout: pad 0, eos 1, unk 2, the pieces, then the sentinels.

    Sentinel k has the id `vocabulary_size() - 1 - k`: the first is the last row of the embedding. Pad and eos
    are control pieces, and the sentinels are not pieces at all, so the text "</s>" or "<extra_id_0>" is split
    into ordinary pieces: ids with a special meaning come only from our code.

    Source: Kudo and Richardson, 2018, https://arxiv.org/abs/1808.06226; layout of Raffel et al., 2020.
    Departs from keras_nlp's class: eager calls, tf.data, SavedModel and TFLite all run the FastSentencepiece
    op of tensorflow_text (which splits ties as the newest SentencePiece does, and has a TFLite kernel), and
    decoding uses core TensorFlow ops. That op cannot do byte fallback, and splits all texts as unigram models
    do: other kinds of models, such as BPE, are refused.

    Args:
        proto: bytes of a SentencePiece model; None while a preset is being loaded. See `from_file`.
        num_sentinels: int >= 0. Reserved ids above the model's pieces. Default 100.
        **kwargs: of `keras_nlp.tokenizers.SentencePieceTokenizer`.

    Raises:
        ValueError: if `proto` is not a SentencePiece model, has another kind or layout, or has byte fallback;
            or if `num_sentinels` is out of its range.

    Example:
    ```python
    import io, sentencepiece
    from convnlp.models import Tokenizer
    proto = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat", "the dog ran"]), model_writer=proto, vocab_size=16,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2)
    tokenizer = Tokenizer(proto.getvalue(), num_sentinels=2)
    assert tokenizer.vocabulary_size() == 18 and tokenizer.sentinel_token_ids == [17, 16]
    ids = tokenizer.ragged(["the cat"])
    assert tokenizer.detokenize(ids) == ["the cat"]
    ids, begins, ends = tokenizer.ragged_with_offsets(["the  cat"])
    assert begins[0, 0] == 0 and ends[0, -1] == 8
    ```
    """

    backbone_cls = Seq2SeqBackbone
    pad_token_id = 0
    start_token_id = 0  # the decoder starts from the pad id, as in T5
    end_token_id = 1
    unk_token_id = 2

    def __init__(self, proto=None, num_sentinels=100, **kwargs):
        arguments.refuse_unknown(Tokenizer, kwargs, also=("config_file",))
        dtype = kwargs.get("dtype") or "int32"
        if keras.dtype_policies.get(dtype).name != "int32":
            raise ValueError(f"`dtype` must be int32, the type of ids. Received: dtype={dtype!r}")
        self.num_sentinels = check_length("num_sentinels", num_sentinels, 0)
        super().__init__(proto=proto, _allow_python_workflow=False, **kwargs)

    @classmethod
    def from_file(cls, path, num_sentinels=100):
        """Returns the tokenizer of a SentencePiece model file.

        Args:
            path: str. The `.model` file.
            num_sentinels: int >= 0. Reserved ids above the model's pieces.

        Raises:
            ValueError: if the file is no SentencePiece model that the graph's tokenizer can use.
            tf.errors.OpError: if it cannot be read.
        """
        with tf.io.gfile.GFile(path, "rb") as file:
            proto = file.read()
        try:
            return cls(proto, num_sentinels)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    @classmethod
    def from_config(cls, config):
        """As in Keras. Raises ValueError if it names a vocabulary, which must be a file of the preset."""
        if config.get("proto") is not None:
            raise ValueError(
                f"`proto` must be None in a saved configuration. Received: proto={config['proto']!r:.100}"
            )
        return super().from_config(config)

    @property
    def sentinel_token_ids(self):
        """The ids of the sentinels 0, 1, ..., which descend from the end of the vocabulary."""
        size = self.vocabulary_size()
        return list(range(size - 1, size - 1 - self.num_sentinels, -1))

    def set_proto(self, proto):
        if isinstance(proto, str):  # the path that `load_assets` passes
            with tf.io.gfile.GFile(proto, "rb") as file:
                proto = file.read()
        if proto is not None:
            surfaces = _surfaces(proto)
        super().set_proto(proto)
        if proto is None:
            return
        sentinels = [f"<extra_id_{k}>" for k in reversed(range(self.num_sentinels))]
        self._vocabulary.extend(sentinels)
        self._token_to_id_map.update({token: len(surfaces) + i for i, token in enumerate(sentinels)})
        self._vocabulary_size += self.num_sentinels
        # An array, because Keras would wrap and track each string of a list.
        self._surfaces = np.array(surfaces + [SPACE + token for token in sentinels], dtype=object)

    def _set_proto_tf(self, proto):
        import tensorflow_text  # here, because the rest of the package works without it

        try:
            with tf.init_scope():  # the model is a constant of the op: it must not belong to a traced graph
                self._sentence_piece = tensorflow_text.FastSentencepieceTokenizer(
                    proto, add_bos=self.add_bos, add_eos=self.add_eos
                )
        except RuntimeError as error:
            reason = str(error).split("\n")[0]
            raise ValueError(f"`proto` cannot be read by the FastSentencepiece op: {reason}") from error
        self._words = tensorflow_text.WhitespaceTokenizer()

    def ragged(self, text):
        """Returns token ids without special tokens, as a ragged tensor in eager and graph mode alike.

        Args:
            text: str, list of str, or string tensor [B].

        Returns:
            int32 RaggedTensor [B,None]; int32 tensor [T] for a single string.
        """
        self._check_vocabulary()
        self._maybe_initialized_tf()
        return self._sentence_piece.tokenize(tf.convert_to_tensor(text, tf.string))

    def ragged_with_offsets(self, text):
        """Returns token ids, and which bytes of the text each of them stands for.

        The op has no offsets, and normalisation (NFKC, white space) changes bytes. So words, which white
        space separates, are tokenized one by one; the pieces are those of the whole text, except for ties
        between splits of a word, and for U+000B and U+0085, which are white space here but not to the op. If
        the pieces of a word spell exactly its bytes, each stands for its own. Otherwise, because the word was
        normalised or a piece is unknown, each piece stands for the whole word, and so does a piece that is
        only a space. Bytes of a word without pieces belong to no token. Every offset lies between two
        characters of the original text.

        Args:
            text: string tensor [B], UTF-8.

        Returns:
            int32 RaggedTensors [B,None]: the ids, where each token begins, and where it ends.

        Example: see the class.
        """
        self._check_vocabulary()
        self._maybe_initialized_tf()
        text = tf.convert_to_tensor(text, tf.string)
        for wide, spaces in _WIDE_SPACES:
            text = tf.strings.regex_replace(text, wide, spaces)
        words, word_begins, word_ends = self._words.tokenize_with_offsets(text)  # [B,(words)]
        pieces = self._sentence_piece.tokenize(words.flat_values)  # [N,(pieces)]
        letters = [surface.replace(SPACE, "") for surface in self._surfaces]
        sizes = tf.constant([len(piece.encode()) for piece in letters])  # bytes
        spelt = tf.strings.reduce_join(tf.gather(tf.constant(letters), pieces), axis=-1)  # [N]
        splits, word = tf.cast(pieces.row_splits, tf.int64), pieces.value_rowids()

        own = tf.gather(sizes, pieces.flat_values)
        before = tf.concat([[0], tf.cumsum(own)], axis=0)  # bytes of the pieces before each, over all words
        within = before[:-1] - tf.gather(tf.gather(before, splits[:-1]), word)
        is_whole = tf.gather(spelt != words.flat_values, word) | (own == 0)
        first = tf.gather(tf.cast(word_begins.flat_values, tf.int32), word)
        last = tf.gather(tf.cast(word_ends.flat_values, tf.int32), word)
        begins = tf.where(is_whole, first, first + within)
        ends = tf.where(is_whole, last, begins + own)
        of_text = tf.gather(splits, words.row_splits)  # [B+1]
        return tuple(
            tf.RaggedTensor.from_row_splits(values, of_text, validate=False)
            for values in (pieces.flat_values, begins, ends)
        )

    def detokenize(self, inputs):
        """Returns the text of token ids: pad and eos vanish, and sentinel k becomes "<extra_id_k>".

        Args:
            inputs: int ids [B,T], ragged or dense, or [T].

        Returns:
            A str, or a list of B of them; a string tensor when traced in a graph.

        Raises:
            tf.errors.InvalidArgumentError: if an id is outside the vocabulary.
        """
        self._check_vocabulary()
        ids = (
            inputs
            if isinstance(inputs, (tf.Tensor, tf.RaggedTensor))
            else tf.ragged.constant(inputs, tf.int32)
        )
        text = tf.strings.reduce_join(self.pieces(ids), axis=-1)
        text = tf.strings.regex_replace(tf.strings.regex_replace(text, f"^{SPACE}", ""), SPACE, " ")
        if not tf.executing_eagerly():
            return text
        text = text.numpy()
        return text.decode() if isinstance(text, bytes) else [row.decode() for row in text]

    def pieces(self, ids):
        """Returns what each id adds to the text, shaped as `ids`: a space as "\u2581", "" for pad and eos."""
        return tf.gather(tf.constant(self._surfaces), ids)

    def get_config(self):
        return {**super().get_config(), "num_sentinels": self.num_sentinels}


def _kind(proto):
    """Returns the kind of model that was trained: "UNIGRAM", "BPE", ..."""
    # Read with a part of SentencePiece's schema: its own module needs a newer protobuf than Apache Beam has.
    fields = descriptor_pb2.FieldDescriptorProto
    schema = descriptor_pb2.FileDescriptorProto(name="kind.proto", syntax="proto2")
    spec = schema.message_type.add(name="TrainerSpec")
    spec.field.add(name="model_type", number=3, type=fields.TYPE_INT32, label=fields.LABEL_OPTIONAL)
    schema.message_type.add(name="ModelProto").field.add(
        name="trainer_spec",
        number=2,
        type=fields.TYPE_MESSAGE,
        type_name=".TrainerSpec",
        label=fields.LABEL_OPTIONAL,
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(schema)
    model = message_factory.GetMessageClass(pool.FindMessageTypeByName("ModelProto"))
    try:
        found = model.FromString(proto).trainer_spec
        return _KINDS[found.model_type if found.HasField("model_type") else 1]
    except (DecodeError, KeyError) as error:
        raise ValueError("`proto` is not a SentencePiece model that protobuf can read") from error


def _surfaces(proto):
    """Checks a model, and returns what each of its pieces adds to the decoded text."""
    try:
        model = sentencepiece.SentencePieceProcessor(model_proto=proto)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"`proto` is not a SentencePiece model ({type(proto).__name__} of {len(proto)})"
        ) from error
    kind = _kind(proto)
    if kind != "UNIGRAM":
        raise ValueError(
            f"`proto` must be a unigram model, as the FastSentencepiece op reads. Received: {kind}"
        )
    size = model.vocab_size()
    layout = [model.pad_id(), model.eos_id(), model.unk_id()]
    if layout != [Tokenizer.pad_token_id, Tokenizer.end_token_id, Tokenizer.unk_token_id]:
        raise ValueError(
            f"`proto` must have pad, eos and unk at the ids 0, 1 and 2. Received: {layout} of {size} pieces"
        )
    if any(model.is_byte(i) for i in range(size)):
        raise ValueError(
            "`proto` was trained with byte_fallback, which the FastSentencepiece op does not support"
        )
    surfaces = ["" if model.is_control(i) else model.id_to_piece(i) for i in range(size)]
    surfaces[model.unk_id()] = model.decode([model.unk_id()])
    return surfaces
