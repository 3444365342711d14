"""One training loop for every `tf.distribute` strategy. Knows nothing of models or data."""
