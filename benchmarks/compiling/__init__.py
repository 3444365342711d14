"""Compiles a training step with the TPU's own compiler on a machine without a TPU."""
