"""What begins and ends a training run: its config, what that builds, its directory and its preset."""
