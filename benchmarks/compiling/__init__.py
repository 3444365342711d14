"""A training step, compiled by the TPU's own compiler on a machine without a TPU."""
