"""One training loop for every `tf.distribute` strategy. It knows nothing about models or data."""
