"""What the program `benchmarks.scores` is made of: sets, the models beside ours, paired tests, its page."""
