"""The parts of the program `benchmarks.first_results`: sets, our model, its peers, paired tests, page."""
