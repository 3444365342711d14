"""The parts of the program `benchmarks.recall`: its rows of symbols, cells, training, page and plot."""
