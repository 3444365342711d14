"""How the shipped presets are made: the mixture of texts, the search, the long runs and their curves."""
