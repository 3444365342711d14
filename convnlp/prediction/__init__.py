"""Answers of a trained model to texts as people have them: lines, tables, the command line."""
