"""The channels of a tensor as heads: contiguous blocks, head = c // (D / H)."""

import tensorflow as tf


def split_heads(x, num_heads):
    """[B,T,D] -> [B,T,H,D/H]."""
    shape = tf.shape(x)
    return tf.reshape(x, [shape[0], shape[1], num_heads, x.shape[2] // num_heads])  # [B,T,H,D/H]


def merge_heads(x):
    """[B,T,H,K] -> [B,T,H*K]."""
    shape = tf.shape(x)
    return tf.reshape(x, [shape[0], shape[1], x.shape[2] * x.shape[3]])  # [B,T,H*K]
