"""Every objective, with what its suite needs to know: a new one fails until it has a row."""

OBJECTIVE_TABLE = {
    "span_corruption": {
        "variants": [{}, {"noise_density": 0.4, "mean_span_length": 2.0, "weight": 0.5}],
        "backbone": "encoder and decoder",
    },
    "masked_lm": {"variants": [{}, {"noise_density": 0.4, "input_length": 9, "weight": 2.0}]},
    "prefix_lm": {"variants": [{}, {"input_length": 5}]},
}
