"""The building blocks of the losses of objectives and tasks."""

import tensorflow as tf

from convnlp import kernels


def cross_entropy(logits, targets, mask):
    """Returns the summed cross-entropy in nats and the number of targets, both float32 scalars.

    Args:
        logits: float [...,V].
        targets: int [...].
        mask: [...], bool or weights, which targets count.
    """
    weights = tf.cast(mask, tf.float32)
    losses = kernels.cross_entropy(logits, tf.cast(targets, tf.int32))
    return tf.reduce_sum(losses * weights), tf.reduce_sum(weights)


def soft_cross_entropy(logits, probabilities, mask):
    """Returns the summed cross-entropy in nats, - sum over v of q log p, a float32 scalar.

    Args:
        logits: float [...,V], of p.
        probabilities: float [...,V], q.
        mask: [...], bool or weights, which positions count.
    """
    log_p = tf.nn.log_softmax(tf.cast(logits, tf.float32))
    return -tf.reduce_sum(tf.reduce_sum(probabilities * log_p, -1) * tf.cast(mask, tf.float32))


def hits(logits, targets, mask):
    """Returns how many targets in the mask have the largest logit, a float32 scalar.

    Args:
        logits: float [...,V].
        targets: int [...].
        mask: [...], bool or weights, which targets count.
    """
    is_hit = tf.cast(tf.equal(tf.argmax(logits, -1, tf.int32), tf.cast(targets, tf.int32)), tf.float32)
    return tf.reduce_sum(is_hit * tf.cast(mask, tf.float32))


def divergence(logits, others, mask):
    """Returns the summed KL(p||q) + KL(q||p) in nats, sum over v of (p - q) (log p - log q), float32 scalar.

    Args:
        logits: float [...,V], of p.
        others: float [...,V], of q.
        mask: [...], bool or weights, which positions count.
    """
    log_p, log_q = (tf.nn.log_softmax(tf.cast(each, tf.float32)) for each in (logits, others))
    terms = (tf.exp(log_p) - tf.exp(log_q)) * (log_p - log_q)
    return tf.reduce_sum(tf.reduce_sum(terms, -1) * tf.cast(mask, tf.float32))


def encode(backbone, batch, training):
    """Returns the encoder's output [B,S,D] for a batch.

    Args:
        backbone: `Seq2SeqBackbone`.
        batch: dict with "encoder_token_ids" int32 [B,S], "encoder_padding_mask" bool [B,S], True = token,
            and, of packed rows, "encoder_segment_ids" int32 [B,S].
        training: bool. Whether dropout is active.
    """
    return backbone.encode(
        batch["encoder_token_ids"],
        padding_mask=batch["encoder_padding_mask"],
        segment_ids=batch.get("encoder_segment_ids"),
        training=training,
    )


def target_logits(backbone, batch, encoder_output, encoder_padding_mask, training):
    """Returns teacher-forced logits [B,T,V], in the backbone's compute dtype.

    Args:
        backbone: `Seq2SeqBackbone` with a decoder.
        batch: dict with "decoder_token_ids" int32 [B,T], the targets shifted right by one,
            "decoder_padding_mask" bool [B,T] and, of packed rows, the segment ids of both sides.
        encoder_output: what `encode` returned.
        encoder_padding_mask: bool [B,S], True = token.
        training: bool. Whether dropout is active.
    """
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
