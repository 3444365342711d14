"""Proof, in fresh processes, that an exported model answers what its preset does."""
