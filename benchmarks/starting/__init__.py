"""What the program `benchmarks.startup` is made of: forms of a model, the servers of them, its page."""
