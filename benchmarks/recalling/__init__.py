"""What the program `benchmarks.recall` is made of: its rows of symbols, cells, training, page and plot."""
