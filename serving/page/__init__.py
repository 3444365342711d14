"""The page at `/`, on which the served models can be tried in a browser."""
