"""TF Serving's gRPC interface."""
