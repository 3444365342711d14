"""What the program `benchmarks.scaling` is made of: runs of workers, the model of a step, its page."""
