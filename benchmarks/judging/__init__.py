"""What `benchmarks.blimp` is made of: its pairs of sentences, their likelihoods, store and page."""
