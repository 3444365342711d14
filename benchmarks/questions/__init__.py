"""The parts of the program `benchmarks.paper`: its questions, the results that are kept, and its page."""
