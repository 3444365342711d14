"""The parts of the program `benchmarks.scaling`: runs of workers, the model of a step, and its page."""
