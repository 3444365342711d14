"""TF Serving's REST interface: HTTP, its JSON dialect, the methods."""
