"""Kept results are read as they were written, one a line."""

from benchmarks import kept_results


def test_results_are_kept_in_their_order(tmp_path):
    path = tmp_path / "new" / "kept.json"
    assert kept_results.read(None, "cells") == kept_results.read(path, "cells") == {}
    kept_results.write(path, {"cores": 2}, "cells", {"b": [1], "a": {"x": None}})
    assert list(kept_results.read(path, "cells").items()) == [("b", [1]), ("a", {"x": None})]
    assert path.read_text() == '{"machine": {"cores": 2},\n"cells": {\n"b": [1],\n"a": {"x": null}\n}}\n'
