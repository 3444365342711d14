"""The tests of a folder: a target for each file, which pytest runs."""

def pytest_tests(deps = [], test_deps = [], shared = [], binaries = [], data = []):
    """Declares a library of the folder's helpers, `support`, and a py_test for each test_*.py.

    Args:
        deps: labels that helpers and tests need.
        test_deps: labels that the tests alone need.
        shared: test files that others import.
        binaries: names of files that are programs.
        data: other files that the tests read.
    """
    native.py_library(
        name = "support",
        testonly = True,
        srcs = native.glob(["*.py"], exclude = ["test_*.py"] + [name + ".py" for name in binaries]) + shared,
        data = ["//:files"] + data,
        visibility = ["//tests:__subpackages__"],
        deps = deps,
    )
    own = [":support"] if native.package_name() == "tests" else [":support", "//tests:support"]
    for name in binaries:
        native.py_binary(
            name = name,
            testonly = True,
            srcs = [name + ".py"],
            main = name + ".py",
            visibility = ["//tests:__subpackages__"],
            deps = own,
        )
    for file in native.glob(["test_*.py"]):
        native.py_test(
            name = file[:-len(".py")],
            size = "large",
            srcs = ["//tests:run_pytest.py", file],
            args = ["$(rootpath %s)" % file],
            main = "//tests:run_pytest.py",
            deps = own + test_deps,
        )
