"""One training loop for every `tf.distribute` strategy, and what it needs. Knows nothing of models or data."""
