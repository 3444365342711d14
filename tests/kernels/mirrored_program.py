"""A process of its own, since logical devices are fixed when TensorFlow starts: kernels on two mirrored CPUs.

Prints `equal` if every kernel's fast form has the plain form's values and gradients on both replicas.
"""

import numpy as np
import tensorflow as tf

from convnlp import kernels


def compiled(strategy, x):
    """The kernels that are compiled whole, on both replicas at once."""

    @tf.function
    def run(rows):
        def replica(x):
            with kernels.implementation("fast"), tf.GradientTape() as tape:
                tape.watch(x)
                y, same = kernels.layer_norm(x, tf.ones([4]), tf.zeros([4]))
                loss = tf.reduce_sum(kernels.cross_entropy(y + same, tf.zeros([2, 9], tf.int32)))
            return tape.gradient(loss, x)

        return strategy.run(replica, [rows])

    rows = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(x[context.replica_id_in_sync_group])
    )
    for i, dx in enumerate(strategy.experimental_local_results(run(rows))):
        with tf.GradientTape() as tape:
            single = tf.constant(x[i])
            tape.watch(single)
            y, same = kernels.layer_norm(single, tf.ones([4]), tf.zeros([4]))
            loss = tf.reduce_sum(kernels.cross_entropy(y + same, tf.zeros([2, 9], tf.int32)))
        # Float32 sums of four terms in another order.
        np.testing.assert_allclose(dx, tape.gradient(loss, single), atol=1e-5)


def main():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    rng = np.random.default_rng(0)
    x = rng.normal(size=[2, 2, 9, 4]).astype("float32")  # [replica,B,T,D]
    for kernel, shape in ((kernels.depthwise_conv, [2, 3]), (kernels.dynamic_conv, [2, 9, 2, 3])):
        with strategy.scope():
            taps = tf.Variable(rng.normal(size=shape).astype("float32"))
        rows = strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(x[context.replica_id_in_sync_group])
        )

        @tf.function
        def run(rows, kernel=kernel, taps=taps):
            def replica(x):
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    y = kernel(x, taps)
                    loss = tf.reduce_sum(y**2)
                return y, *tape.gradient(loss, [x, taps])

            return strategy.run(replica, [rows])

        for i in range(2):
            fast = [strategy.experimental_local_results(value)[i] for value in run(rows)]
            with kernels.implementation("plain"), tf.GradientTape() as tape:
                single, single_taps = tf.constant(x[i]), tf.constant(taps.numpy())
                tape.watch([single, single_taps])
                y = kernel(single, single_taps)
                loss = tf.reduce_sum(y**2)
            plain = [y, *tape.gradient(loss, [single, single_taps])]
            for a, b in zip(fast, plain, strict=True):
                # Float32 sums of some dozen terms in another order.
                np.testing.assert_allclose(a, b, atol=1e-4)
    compiled(strategy, x)
    print("equal")


if __name__ == "__main__":
    main()
