"""Computes the gradient of a batch in parts, for batches whose activations do not fit into memory at once."""

import tensorflow as tf


def gradients_in_parts(loss_fn, variables, batch, seed, num_parts):
    """Returns the gradient of the sum of a batch's losses, computed one part after the other.

    Args:
        loss_fn: function of (batch, seed), see `convnlp.training.loop.train`.
        variables: list of variables.
        batch: nested structure of tensors [B,...], B known; other axes may be open.
        seed: int32 [2]. Each part uses a seed derived from it.
        num_parts: int. A divisor of B; each part has B / num_parts consecutive rows.

    Returns:
        (list of gradients of the sum of `loss_sum`, None for a variable that it does not depend on; dict of
        the outputs of `loss_fn`, each summed over the parts).

    Raises:
        ValueError: if `num_parts` does not divide B.
    """
    sizes = {x.shape[0] for x in tf.nest.flatten(batch)}
    if any(size % num_parts for size in sizes):
        raise ValueError(
            "`accumulate_steps` must divide each replica's part of the batch. "
            f"Received: accumulate_steps={num_parts}, parts of {max(sizes)} rows"
        )
    parts = tf.nest.map_structure(lambda x: _in_parts(x, num_parts), batch)
    seen = {}  # set while tracing: the same for every part

    def add_part(index, sums, rows):
        part = tf.nest.map_structure(lambda x: x[index], parts)
        with tf.GradientTape() as tape:
            outputs = loss_fn(part, tf.random.fold_in(seed, index))
        gradients = tape.gradient(outputs["loss_sum"], variables)
        seen.update(outputs=outputs, reached=[g is not None for g in gradients])
        sums = [
            total if g is None else total + tf.cast(tf.convert_to_tensor(g), total.dtype)
            for total, g in zip(sums, gradients, strict=True)
        ]
        row = tf.stack([tf.cast(x, tf.float32) for x in tf.nest.flatten(outputs)])
        return index + 1, sums, rows.write(index, row)

    _, sums, rows = tf.while_loop(
        lambda index, *_: index < num_parts,
        add_part,
        (
            tf.constant(0),
            [tf.zeros(v.shape, v.dtype) for v in variables],
            tf.TensorArray(tf.float32, size=num_parts, element_shape=[None]),
        ),
        parallel_iterations=1,  # two parts at a time would need the memory of both
    )
    totals = tf.reduce_sum(rows.stack(), axis=0)  # [M]
    totals = tf.unstack(totals, len(tf.nest.flatten(seen["outputs"])))
    gradients = [g if reached else None for g, reached in zip(sums, seen["reached"], strict=True)]
    return gradients, tf.nest.pack_sequence_as(seen["outputs"], totals)


def _in_parts(x, num_parts):
    """Cuts a tensor [B,...] into parts: [num_parts,B/num_parts,...]."""
    leading = [num_parts, x.shape[0] // num_parts]
    parts = tf.reshape(x, tf.concat([leading, tf.shape(x)[1:]], 0))
    return tf.ensure_shape(parts, [*leading, *x.shape[1:]])
