"""Plots of the generated pages: drawn without a display, written without a date."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def save_figure(figure, path):
    """Writes a figure without its date and closes it."""
    figure.tight_layout()
    with plt.rc_context({"svg.hashsalt": "convnlp"}):
        figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
