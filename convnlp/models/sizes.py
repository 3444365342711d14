"""The named sizes of the skeleton; base is the paper's."""

SIZES = {
    "tiny": {
        "num_layers": 2,
        "num_decoder_layers": 2,
        "hidden_dim": 128,
        "intermediate_dim": 512,
        "num_heads": 4,
    },
    "mini": {
        "num_layers": 4,
        "num_decoder_layers": 4,
        "hidden_dim": 256,
        "intermediate_dim": 1024,
        "num_heads": 8,
    },
    "small": {
        "num_layers": 6,
        "num_decoder_layers": 6,
        "hidden_dim": 512,
        "intermediate_dim": 2048,
        "num_heads": 8,
    },
    "base": {
        "num_layers": 12,
        "num_decoder_layers": 12,
        "hidden_dim": 768,
        "intermediate_dim": 3072,
        "num_heads": 12,
    },
    "large": {
        "num_layers": 24,
        "num_decoder_layers": 24,
        "hidden_dim": 1024,
        "intermediate_dim": 4096,
        "num_heads": 16,
    },
}
