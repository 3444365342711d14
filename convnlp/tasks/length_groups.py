"""Groups the rows of a batch by similar length, inside an exported graph."""

import tensorflow as tf


def in_groups(function, rows, group_size, round_to):
    """Applies a function to rows one group at a time, so that a long text lengthens only a few others.

    The rows are sorted by length and split into groups of `group_size`. Each group is as long as its longest
    row, rounded up to a multiple of `round_to`. The groups run in a loop of the graph.

    Args:
        function: from {"token_ids" int32 [b,t], "padding_mask" bool [b,t]} to a dict of tensors [b,...] whose
            other axes do not depend on t. A row's outputs must not depend on other rows or on its pads.
        rows: such a dict, [B,T].
        group_size: int >= 1.
        round_to: int >= 1.

    Returns:
        dict of tensors [B,...], in the order of the rows.
    """
    specs = {name: tf.TensorSpec([None, None], tensor.dtype) for name, tensor in rows.items()}
    traced = tf.function(function, input_signature=[specs], autograph=False).get_concrete_function()
    outputs = traced.structured_outputs
    mask = rows["padding_mask"]
    places = tf.range(1, tf.shape(mask)[1] + 1)
    lengths = tf.reduce_max(places * tf.cast(mask, tf.int32), axis=1)  # [B]
    order = tf.argsort(lengths, stable=True)
    num_rows = tf.shape(lengths)[0]
    num_groups = tf.maximum(-(-num_rows // group_size), 1)  # an empty batch has one group without rows
    arrays = {
        name: tf.TensorArray(output.dtype, num_groups, infer_shape=False, element_shape=output.shape)
        for name, output in outputs.items()
    }

    def step(group, arrays):
        chosen = order[group * group_size : (group + 1) * group_size]
        longest = tf.maximum(tf.reduce_max(tf.gather(lengths, chosen)), 1)
        longest = -(-longest // round_to) * round_to
        found = traced({name: tf.gather(tensor, chosen)[:, :longest] for name, tensor in rows.items()})
        return group + 1, {name: array.write(group, found[name]) for name, array in arrays.items()}

    _, arrays = tf.while_loop(lambda group, _: group < num_groups, step, (0, arrays))
    places = tf.argsort(order)
    found = {name: tf.gather(array.concat(), places) for name, array in arrays.items()}
    return {name: tf.ensure_shape(value, outputs[name].shape) for name, value in found.items()}
