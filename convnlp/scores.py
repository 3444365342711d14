"""What `evaluate` and `finetune` measure: classification and text-to-text scores of a whole split."""

import unicodedata

import keras
import numpy as np
import tensorflow as tf

from convnlp.data import Label, sources

CLASSIFICATION_METRICS = ("accuracy", "f1", "f1_macro", "loss")
TEXT_TO_TEXT_METRICS = ("exact_match", "ranked_accuracy", "ranked_f1", "ranked_f1_macro")


def classification_scores(classifier, batches):
    """Scores of a classifier on a finite data set.

    Args:
        classifier: called on {"token_ids", "padding_mask"}, gives logits [B,C].
        batches: iterable of dicts with these keys and "label" int [B], "weight" float [B] (0: a filling row).

    Returns:
        dict of floats: "accuracy", with two classes "f1" (of class 1), "f1_macro", "loss" (nats),
        "num_examples".
    """
    predict = tf.function(lambda inputs: classifier(inputs, training=False), reduce_retracing=True)
    logits, labels = [], []
    for batch in batches:
        is_real = np.asarray(batch["weight"]) > 0
        inputs = {name: batch[name] for name in ("token_ids", "padding_mask")}
        logits.append(predict(inputs).numpy()[is_real])
        labels.append(np.asarray(batch["label"])[is_real])
    return _scores_of_logits(np.concatenate(logits), np.concatenate(labels))


def text_to_text_scores(lm, inputs, targets, label_names=None, batch_size=32):
    """Scores of a text-to-text model by real greedy decoding, and by ranking label strings.

    Args:
        lm: a `convnlp.models.Seq2SeqLM` with its preprocessor.
        inputs: list of str.
        targets: list of str, what the model should write.
        label_names: list of str, which holds every target. When given, "ranked_accuracy", "ranked_f1" (two
            names) and "ranked_f1_macro" take as answer the name of highest log-probability.
        batch_size: int.

    Returns:
        dict of floats: "exact_match" (see `normalized`), "num_examples" and those of `label_names`.
    """
    predictions = greedy_predictions(lm, inputs, batch_size)
    hits = [normalized(a) == normalized(b) for a, b in zip(predictions, targets, strict=True)]
    scores = {"exact_match": float(np.mean(hits)), "num_examples": float(len(hits))}
    if label_names is None:
        return scores
    labels = np.array([list(label_names).index(target) for target in targets])
    ranked = _scores_of_logits(lm.rank_labels(inputs, label_names, batch_size=batch_size), labels)
    ranked = {f"ranked_{name}": value for name, value in ranked.items()}
    return {**scores, **{name: ranked[name] for name in TEXT_TO_TEXT_METRICS if name in ranked}}


def read_pairs(source, input_field, target_field, label_names=None):
    """The texts that `text_to_text_scores` takes, of a whole split.

    Args:
        source: `convnlp.data.Source`.
        input_field: str. Field of the input text.
        target_field: str. Field of the target text, or of a class.
        label_names: sequence of str. The target is the name of the class in `target_field`.

    Returns:
        (list of str, list of str).
    """
    label = Label(target_field, names=tuple(label_names)) if label_names else None
    fields = (input_field,) if label else (input_field, target_field)
    rows = list(sources.read(source, fields, label).as_numpy_iterator())
    targets = [label_names[row["label"]] if label else row[target_field].decode() for row in rows]
    return [row[input_field].decode() for row in rows], targets


def greedy_predictions(lm, inputs, batch_size=32):
    """What `lm.generate` writes with the greedy sampler, whatever sampler it is compiled with.

    Args:
        lm: a `convnlp.models.Seq2SeqLM` with its preprocessor.
        inputs: list of str.
        batch_size: int. The last batch is filled up, so that one graph serves all.

    Returns:
        list of str.
    """
    max_length = lm.preprocessor.decoder_sequence_length - 1  # without the start token
    generate = tf.function(lambda ids, mask: lm.generate_ids(ids, mask, max_length))
    texts = []
    for start in range(0, len(inputs), batch_size):
        chunk = list(inputs[start : start + batch_size])
        x = lm.preprocessor.generate_preprocess(chunk + [""] * (batch_size - len(chunk)))
        ids = generate(x["encoder_token_ids"], x["encoder_padding_mask"])
        texts += lm.preprocessor.tokenizer.detokenize(ids)[: len(chunk)]
    return texts


def normalized(text):
    """The form in which texts are compared: NFKC, as SentencePiece normalises, and single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def _scores_of_logits(logits, labels):
    """Logits [N,C], integer labels [N] -> the dict of `classification_scores`."""
    num_classes = logits.shape[-1]
    f1 = keras.metrics.F1Score(average=None)
    f1.update_state(keras.ops.one_hot(labels, num_classes), logits)
    f1 = f1.result().numpy()  # [C]
    loss = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    return {
        "accuracy": float(np.mean(logits.argmax(-1) == labels)),
        **({"f1": float(f1[1])} if num_classes == 2 else {}),
        "f1_macro": float(f1.mean()),
        "loss": float(np.mean(loss)),
        "num_examples": float(len(labels)),
    }
