"""Answers of a trained model to texts in everyday forms: lines, tables, the command line."""
