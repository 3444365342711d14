"""The parts of `benchmarks.inference`: models, variants, their processes, their timing, and the page."""
