"""The page at `/`, where the models that are served can be tried in a browser."""
