"""Scores a text-to-text model by what it writes, and by how it ranks the names of classes."""

import numpy as np
import tensorflow as tf

from convnlp.data.schema import SEVERAL
from convnlp.models.token_rows import text_batches
from convnlp.tasks import scores

OF_TEXTS = ("word_f1", *scores.SQUAD)  # only where targets are not classes
METRICS = ("exact_match", *OF_TEXTS, "ranked_accuracy", "ranked_f1", "ranked_f1_macro")


def text_to_text_scores(lm, inputs, targets, label_names=None, batch_size=32):
    """Scores a text-to-text model by real greedy decoding, and by ranking label strings.

    Args:
        lm: a `convnlp.models.Seq2SeqLM` with its preprocessor.
        inputs: list of str, or a tuple of two for pairs.
        targets: list of str, what the model should write. Several acceptable texts are separated by
            `convnlp.data.schema.SEVERAL`; the best counts.
        label_names: list of str that includes every target. If given, "ranked_accuracy", "ranked_f1" (for
            two names) and "ranked_f1_macro" take the name of highest log-probability as the answer.
        batch_size: int.

    Returns:
        dict of floats: "exact_match" (see `normalized`), "num_examples" and, without `label_names`, "word_f1"
        (see `scores.word_f1`), "squad_exact_match" and "squad_f1" (see `scores.squad_normalized`); with
        `label_names`, the scores named there.
    """
    predictions = greedy_predictions(lm, inputs, batch_size)
    pairs = [(a, b.split(SEVERAL)) for a, b in zip(predictions, targets, strict=True)]
    hits = [max(scores.normalized(a) == scores.normalized(b) for b in right) for a, right in pairs]
    found = {"exact_match": float(np.mean(hits)), "num_examples": float(len(hits))}
    if label_names is None:
        of_pair = {"word_f1": scores.word_f1, **scores.SQUAD}
        best = {name: [max(of(a, b) for b in right) for a, right in pairs] for name, of in of_pair.items()}
        return {**found, **{name: float(np.mean(values)) for name, values in best.items()}}
    labels = np.array([list(label_names).index(target) for target in targets])
    ranked = scores.of_logits(lm.rank_labels(inputs, label_names, batch_size=batch_size), labels)
    ranked = {f"ranked_{name}": value for name, value in ranked.items()}
    return {**found, **{name: ranked[name] for name in METRICS if name in ranked}}


def greedy_predictions(lm, inputs, batch_size=32):
    """Returns what `lm.generate` writes with the greedy sampler, whatever sampler it is compiled with.

    Args:
        lm: a `convnlp.models.Seq2SeqLM` with its preprocessor.
        inputs: list of str, or a tuple of two for pairs.
        batch_size: int. The last batch is filled up, so that one graph serves all.

    Returns:
        list of str.
    """
    max_length = lm.preprocessor.decoder_sequence_length - 1  # without the start token
    generate = tf.function(lambda ids, mask: lm.generate_ids(ids, mask, max_length), autograph=False)
    texts = []
    for chunk, count in text_batches(inputs, batch_size):
        x = lm.preprocessor.generate_preprocess(chunk)
        ids = generate(x["encoder_token_ids"], x["encoder_padding_mask"])
        texts += lm.preprocessor.tokenizer.detokenize(ids)[:count]
    return texts
