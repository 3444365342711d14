"""Shows which pieces of a text or pair its label rests on: the label's probability if each is left out."""

import tensorflow as tf

# Rows that are classified at once: few enough to bound the memory, and enough to keep some cores busy.
_ROWS_A_STEP = 32


def explain(classifier, rows, logits):
    """Returns the pieces of texts, and by how much leaving each out lowers the label's log-probability.

    importances[b,t] = log p(c | x_b) - log p(c | x_b without its piece t), c = argmax p(. | x_b): positive if
    the piece speaks for the label, negative if it speaks against it. A piece is left out by removing it, as
    if the text had been written without it (Li, Monroe and Jurafsky, 2016, https://arxiv.org/abs/1612.08220,
    erase in the same way). It costs one forward pass per piece, in steps of a bounded number of rows.

    Args:
        classifier: a `TextClassifier`.
        rows: {"token_ids" int32 [B,T], "padding_mask" bool [B,T]}, one text or pair per row.
        logits: float [B,C], the classifier's logits for these rows.

    Returns:
        {"tokens" string [B,T], "importances" float32 [B,T]}. A token that begins a word begins with a space;
        end tokens and pads are "" and 0.
    """
    token_ids, mask = rows["token_ids"], rows["padding_mask"]
    tokenizer = classifier.preprocessor.tokenizer
    label = tf.argmax(logits, axis=-1)  # [B]
    whole = tf.gather(tf.nn.log_softmax(logits), label, batch_dims=1)  # [B]
    places = tf.where(mask & (token_ids != tokenizer.end_token_id))  # [N,2], (row, position) of each piece
    padded = {name: tf.pad(row, [[0, 0], [0, 1]]) for name, row in rows.items()}  # [B,T+1]
    index = tf.range(tf.shape(mask)[1], dtype=places.dtype)  # [T]

    def step(start, importances):
        these = places[start : start + _ROWS_A_STEP]  # [n,2]
        row, position = these[:, 0], these[:, 1:]
        kept = index + tf.cast(index >= position, index.dtype)  # [n,T], skips the position
        without = {
            name: tf.gather(tf.gather(values, row), kept, batch_dims=1) for name, values in padded.items()
        }
        # Mixers with weights for each position must know T while the graph is made.
        without = {name: tf.ensure_shape(values, mask.shape) for name, values in without.items()}
        left = tf.nn.log_softmax(classifier(without, training=False))  # [n,C]
        left = tf.gather(left, tf.gather(label, row), batch_dims=1)  # [n]
        fallen = tf.gather(whole, row) - left
        return start + _ROWS_A_STEP, importances + tf.scatter_nd(these, fallen, tf.shape(mask, places.dtype))

    _, importances = tf.while_loop(
        lambda start, _: start < tf.shape(places)[0],
        step,
        (0, tf.zeros(tf.shape(mask))),
        parallel_iterations=1,  # more of them would multiply the memory
    )
    tokens = tf.strings.regex_replace(tokenizer.pieces(token_ids), "\u2581", " ")
    return {"tokens": tokens, "importances": importances}
