"""TFLite files: forms, conversion, calibration, metadata."""
