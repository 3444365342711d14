"""How likely a sentence is to a masked language model, which assigns no probability to whole sentences."""

import numpy as np
import tensorflow as tf

_ROUND_TO = 8  # the lengths of rows, so that few shapes are traced
_BATCH_TOKENS = 8192


def pseudo_log_likelihoods(backbone, tokenizer, sentences):
    r"""Returns the log-likelihood of each token when only that token is masked, summed over a sentence.

    PLL(w) = \sum_t log p(w_t | w_1 ... w_{t-1}, mask, w_{t+1} ... w_n), with the end token on both sides,
    as between the documents of pre-training. The end tokens are not predicted.

    Reference: Salazar et al., 2020, "Masked Language Model Scoring", https://arxiv.org/abs/1910.14659.

    Args:
        backbone: `Seq2SeqBackbone` with an encoder that was pre-trained by masked LM.
        tokenizer: `Tokenizer`.
        sentences: list of N str.

    Returns:
        float64 [N], in nats.
    """
    end, pad, mask = tokenizer.end_token_id, tokenizer.pad_token_id, tokenizer.sentinel_token_ids[0]
    rows = [np.array([end, *ids, end], "int32") for ids in tokenizer.ragged(sentences).to_list()]
    sums = np.zeros(len(rows))

    @tf.function
    def log_likelihoods(token_ids, positions, targets):
        hidden = backbone.encode(token_ids, padding_mask=token_ids != pad)
        at_masks = tf.gather(hidden, positions, batch_dims=1)  # [B,D]
        logits = tf.cast(backbone.token_embedding.logits(at_masks), tf.float32)
        return -tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)

    for length, indices in _by_length(rows).items():
        hidden_rows = [(index, position) for index in indices for position in range(1, len(rows[index]) - 1)]
        batch_size = max(_BATCH_TOKENS // length, 1)
        for start in range(0, len(hidden_rows), batch_size):
            chosen, positions = np.array(hidden_rows[start : start + batch_size]).T
            count = len(chosen)
            token_ids = np.full([batch_size, length], pad, "int32")  # one shape per length
            token_ids[:, 0] = end
            for row, index in enumerate(chosen):
                token_ids[row, : len(rows[index])] = rows[index]
            targets = token_ids[np.arange(count), positions]
            token_ids[np.arange(count), positions] = mask
            padding = [0, batch_size - count]
            found = log_likelihoods(token_ids, np.pad(positions, padding), np.pad(targets, padding))
            np.add.at(sums, chosen, found.numpy()[:count])
    return sums


def _by_length(rows):
    """Returns the indices of the rows by the length they are padded to, in ascending order."""
    groups = {}
    for index in sorted(range(len(rows)), key=lambda index: len(rows[index])):
        groups.setdefault(-(-len(rows[index]) // _ROUND_TO) * _ROUND_TO, []).append(index)
    return groups
