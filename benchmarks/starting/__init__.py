"""The parts of the program `benchmarks.startup`: the forms of a model, their servers, and its page."""
