"""Several server processes behind one port, each with its own models."""
