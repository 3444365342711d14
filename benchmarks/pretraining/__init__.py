"""How the shipped presets are made and examined: mixture, search, speed of a step, vocabulary and bias."""
