"""What the program `benchmarks.paper` is made of: its questions, the results that are kept, its page."""
