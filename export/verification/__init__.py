"""Checks in fresh processes that an exported model answers like its preset."""
