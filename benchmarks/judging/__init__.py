"""The parts of `benchmarks.blimp`: its pairs of sentences, their likelihoods, its store and its page."""
