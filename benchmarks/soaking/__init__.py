"""The parts of `benchmarks.soak`: a training run and a server, the faults they undergo, and the report."""
