"""What is changed in a file, and who is said to have noticed."""

from tests.mutation.mutate_files import changes, run
from tests.mutation.operators import KINDS


def test_every_nth_change_of_the_chosen_kinds_is_made(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("def add(x):\n" + "".join(f"    x = x + {i}\n    x = x[{i}]\n" for i in range(5)))
    assert len(changes(path, KINDS, 1)) == 10
    assert [mutant.line for mutant in changes(path, ["sign"], 1)] == [2, 4, 6, 8, 10]
    assert [mutant.line for mutant in changes(path, ["sign"], 3)] == [4, 10]


def test_the_first_test_that_fails_has_noticed(tmp_path):
    (tmp_path / "test_a.py").write_text("def test_good():\n    pass\n")
    assert run(tmp_path, ["test_a.py"]) is None
    (tmp_path / "test_b.py").write_text("def test_good():\n    pass\n\ndef test_bad():\n    assert 0\n")
    assert run(tmp_path, ["test_a.py", "test_b.py"]) == "test_b.py::test_bad"
    (tmp_path / "test_c.py").write_text("def test_broken(:\n")
    assert run(tmp_path, ["test_c.py", "test_b.py"]) == "test_c.py"
