"""SavedModels: signatures around a model, and the versioned directories that servers load."""
