"""What a model is trained on: losses of a backbone or classifier on one batch.

Each builder returns `loss_fn(batch, seed, training=True)` for `convnlp.training.loop`: a dict with
`loss_sum`, `weight` and further metrics `name -> (sum, weight)`, all float32 scalars. `seed` (int32 [2])
drives dropout.
"""

import tensorflow as tf

from convnlp import kernels
from convnlp.layers import dropout_seed

OBJECTIVES = ("span_corruption", "masked_lm", "prefix_lm")


def cross_entropy(logits, targets, mask):
    """Logits [...,V], targets [...], mask [...] -> summed cross-entropy in nats, number of targets."""
    weights = tf.cast(mask, tf.float32)
    losses = kernels.cross_entropy(logits, targets)
    return tf.reduce_sum(losses * weights), tf.reduce_sum(weights)


def _encode(backbone, batch, training):
    return backbone.encode(
        batch["encoder_token_ids"],
        padding_mask=batch["encoder_padding_mask"],
        segment_ids=batch.get("encoder_segment_ids"),
        training=training,
    )


def _target_logits(backbone, batch, encoder_output, encoder_padding_mask, training):
    hidden = backbone.decode(
        batch["decoder_token_ids"],
        encoder_output,
        encoder_padding_mask=encoder_padding_mask,
        padding_mask=batch["decoder_padding_mask"],
        segment_ids=batch.get("decoder_segment_ids"),
        encoder_segment_ids=batch.get("encoder_segment_ids"),
        training=training,
    )
    return backbone.token_embedding.logits(hidden)  # `cross_entropy` needs no float32 copy of them


def text_to_text_loss(backbone):
    """Teacher-forced cross-entropy of the target tokens; span corruption and text-to-text tasks alike.

    Source: Raffel et al., 2020, section 3.1.4. The mean runs over the target tokens that are not padding.
    """

    def loss_fn(batch, seed, training=True):
        with dropout_seed(seed):
            encoder_output = _encode(backbone, batch, training)
            logits = _target_logits(backbone, batch, encoder_output, batch["encoder_padding_mask"], training)
        targets, mask = batch["target_token_ids"], batch["decoder_padding_mask"]
        loss_sum, weight = cross_entropy(logits, targets, mask)
        hits = tf.cast(tf.equal(tf.argmax(logits, -1, tf.int32), targets), tf.float32) * tf.cast(
            mask, tf.float32
        )
        return {"loss_sum": loss_sum, "weight": weight, "token_accuracy": (tf.reduce_sum(hits), weight)}

    return loss_fn


def pretraining_loss(backbone, objectives=("span_corruption",), masked_lm_weight=1.0):
    """Span corruption (T5), masked-LM (BERT) or prefix-LM (UniLM) on the encoder, or their weighted sum.

    The encoder's two predict through the tied embedding, so that they add no parameters. Prefix-LM predicts
    each token behind a prefix from what is before it: the encoder alone is the language model.

    Args:
        backbone: `Seq2SeqBackbone`.
        objectives: some of "span_corruption", "masked_lm", "prefix_lm".
        masked_lm_weight: float > 0. Factor on the masked-LM's mean loss where both are on.

    Raises:
        ValueError: on an empty or unknown objective, span corruption without a decoder, masked-LM or
            prefix-LM with an encoder that merges positions, or prefix-LM with a mixer that would leak.
    """
    unknown = set(objectives) - set(OBJECTIVES)
    if unknown or not objectives:
        raise ValueError(f"`objectives` must be one or more of {OBJECTIVES}. Received: {tuple(objectives)}")
    if masked_lm_weight <= 0:
        raise ValueError(f"`masked_lm_weight` must be > 0. Received: {masked_lm_weight}")
    if "span_corruption" in objectives and backbone.decoder is None:
        raise ValueError("The objective span_corruption needs a decoder. Received: num_decoder_layers=0")
    for name in set(objectives) - {"span_corruption"}:
        if not backbone.num_layers:
            raise ValueError(f"The objective {name} trains an encoder. Received: num_layers=0")
        if backbone.encoder.pool_factor > 1:
            raise ValueError(
                f"The objective {name} needs an encoder output for every token. "
                f"Received: pool_size={backbone.pool_size}"
            )
    leaking = {layer.mixer.name for layer in backbone.encoder.layers if not layer.mixer.supports_prefix}
    if "prefix_lm" in objectives and leaking:
        raise ValueError(
            "The objective prefix_lm needs mixers with supports_prefix = True in the encoder. "
            f"Received: {', '.join(sorted(leaking))}"
        )

    def loss_fn(batch, seed, training=True):
        metrics = {}
        loss = 0.0
        with dropout_seed(seed):
            if "span_corruption" in objectives:
                encoder_output = _encode(backbone, batch, training)
                mask = batch["encoder_padding_mask"]
                logits = _target_logits(backbone, batch, encoder_output, mask, training)
                total, weight = cross_entropy(
                    logits, batch["target_token_ids"], batch["decoder_padding_mask"]
                )
                metrics["span_corruption"] = (total, weight)
                loss += total / weight
                if not training:
                    metrics["encoder_use"] = _encoder_use(backbone, batch, encoder_output, total, weight)
            if "masked_lm" in objectives:
                total, weight = _masked_lm(backbone, batch, training)
                metrics["masked_lm"] = (total, weight)
                loss += masked_lm_weight * total / weight
            if "prefix_lm" in objectives:
                total, weight = _prefix_lm(backbone, batch, training)
                metrics["prefix_lm"] = (total, weight)
                loss += total / weight
        # Every example has the same number of targets, so the mean over examples is the mean over targets, on
        # any number of replicas.
        examples = tf.cast(tf.shape(next(iter(batch.values())))[0], tf.float32)
        return {"loss_sum": loss * examples, "weight": examples, **metrics}

    return loss_fn


def _masked_lm(backbone, batch, training):
    hidden = backbone.encode(batch["masked_token_ids"], training=training)
    at_masks = tf.gather(hidden, batch["masked_positions"], batch_dims=1)  # [B,M,D]
    targets = batch["masked_targets"]
    return cross_entropy(backbone.token_embedding.logits(at_masks), targets, tf.ones_like(targets))


def _prefix_lm(backbone, batch, training):
    token_ids, prefix_mask = batch["prefix_lm_token_ids"], batch["prefix_mask"]
    hidden = backbone.encode(token_ids[:, :-1], prefix_mask=prefix_mask[:, :-1], training=training)
    return cross_entropy(backbone.logits(hidden), token_ids[:, 1:], ~prefix_mask[:, 1:])


def _encoder_use(backbone, batch, encoder_output, right_total, weight):
    """Target cross-entropy with another example's encoder output minus with the right one, in nats per token.

    Near 0 the decoder is a language model that ignores its encoder, and nothing will transfer to a
    classifier.
    """
    wrong_output = tf.roll(encoder_output, 1, axis=0)
    wrong_mask = tf.roll(batch["encoder_padding_mask"], 1, axis=0)
    logits = _target_logits(backbone, batch, wrong_output, wrong_mask, training=False)
    wrong_total, _ = cross_entropy(logits, batch["target_token_ids"], batch["decoder_padding_mask"])
    return wrong_total - right_total, weight


def classification_loss(classifier):
    """Softmax cross-entropy of the label; examples with weight 0 (padding of a last batch) do not count."""

    def loss_fn(batch, seed, training=True):
        inputs = {"token_ids": batch["token_ids"], "padding_mask": batch["padding_mask"]}
        with dropout_seed(seed):
            logits = classifier(inputs, training=training)
        loss_sum, weight = cross_entropy(logits, batch["label"], batch["weight"])
        hits = (
            tf.cast(tf.equal(tf.argmax(logits, -1, tf.int32), batch["label"]), tf.float32) * batch["weight"]
        )
        return {"loss_sum": loss_sum, "weight": weight, "accuracy": (tf.reduce_sum(hits), weight)}

    return loss_fn
