"""Several server processes behind one port, each with the models of its own."""
