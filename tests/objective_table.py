"""Every objective, with what its suite needs to know: a new one fails until it has a row."""

OBJECTIVE_TABLE = {
    "span_corruption": {
        "variants": [{}, {"noise_density": 0.4, "mean_span_length": 2.0, "weight": 0.5}],
        "backbone": "encoder and decoder",
    },
    "masked_lm": {"variants": [{}, {"noise_density": 0.4, "input_length": 9, "weight": 2.0}]},
    "prefix_lm": {"variants": [{}, {"input_length": 5}]},
    "unilm": {
        "variants": [
            {},
            {"noise_density": 0.4, "input_length": 9, "ngram_share": 0.8, "weight": 2.0},
            {"bidirectional": 0.0, "sequence_to_sequence": 0.0, "left_to_right": 0.0},
        ]
    },
}
