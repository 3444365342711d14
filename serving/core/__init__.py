"""The models that are served: versions, sessions, batching, limits, whatever interface a request came by."""
