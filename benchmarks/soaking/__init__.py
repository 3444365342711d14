"""The parts of `benchmarks.soak`: a run and a server, what is done to them, and what is made of it."""
