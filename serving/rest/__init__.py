"""TF Serving's REST interface: HTTP, its JSON dialect, and the methods."""
