"""A classifier that is built in a second, for tests of what surrounds a model."""

import tensorflow as tf

from convnlp.models import Seq2SeqBackbone, TextClassifier, TextClassifierPreprocessor, Tokenizer
from tests import corpus


def small_classifier(mixers, length, labels):
    """An untrained classifier of width 16.

    Args:
        mixers: list of str, a layer each.
        length: int, tokens of a text.
        labels: list of str.
    """
    tokenizer = Tokenizer(corpus.tiny_proto())
    backbone = Seq2SeqBackbone(
        tokenizer.vocabulary_size(),
        num_layers=len(mixers),
        num_decoder_layers=0,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        encoder_mixer=mixers,
        max_sequence_length=length,
    )
    preprocessor = TextClassifierPreprocessor(tokenizer, length)
    return TextClassifier(backbone, len(labels), preprocessor, labels=labels)


def keep_ngrams(classifier, texts):
    """Lets a classifier's buckets keep n-grams of texts, so that they count."""
    inputs = classifier.preprocessor(texts)
    classifier.ngrams.adapt(tf.ragged.boolean_mask(inputs["token_ids"], inputs["padding_mask"]))
