"""Serving an exported model: the local server, its client, and the configuration of TensorFlow Serving."""
