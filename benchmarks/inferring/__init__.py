"""What the program `benchmarks.inference` is made of: models, forms, their processes and turns, its page."""
