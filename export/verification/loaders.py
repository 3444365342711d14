"""Runs exported models in fresh processes, in every way that a server or program may load them."""

import concurrent.futures
import json
import pathlib
import pickle
import subprocess
import sys
import tempfile

from tensorflow.core.framework import op_def_pb2

from convnlp.export.verification import stock

LOADERS = ("python", "session", "c_api")  # tf.saved_model.load, TensorFlow Serving's Session, the C API
_FOLDER = pathlib.Path(__file__).parent
_START = """
import json, runpy, sys
sys.path[:] = json.loads(sys.argv[1])
del sys.argv[:2]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def ask(graphs, asked):
    """Runs SavedModels with all loaders.

    Args:
        graphs: dict, directory -> its `graph.Graph`. Those without text operations run first, before
            tensorflow_text is loaded.
        asked: dict, directory -> list of (signature, {input: array}).

    Returns:
        (rows, set of the operations that TensorFlow itself registers). A row is (directory, signature,
        loader, inputs, outputs), where outputs is {output: array} or the error that was raised.

    Raises:
        ValueError: if a process ends without an answer.
    """
    jobs, given = [], {}
    for directory, graph in graphs.items():
        path = str(pathlib.Path(directory).resolve())  # the processes have another working directory
        given[path] = directory
        names = {signature: graph.tensor_names(signature) for signature, _ in asked[directory]}
        jobs.append((path, stock.uses_text_ops(graph), names, asked[directory]))
    by_python, (by_c_api, op_list) = _side_by_side(("fresh_run.py", "c_api.py"), jobs)
    rows = [(given[path], *row) for path, *row in by_python + by_c_api]
    return rows, {definition.name for definition in op_def_pb2.OpList.FromString(op_list).op}


def _side_by_side(files, jobs):
    """Returns the results of files of this folder, run on the jobs; if one fails, the others are killed."""
    running = []
    with concurrent.futures.ThreadPoolExecutor() as pool:
        try:
            answers = [pool.submit(_run, file, jobs, running) for file in files]
            for answer in concurrent.futures.as_completed(answers):
                answer.result()
        finally:  # an interruption ends here too
            for process in running:
                process.kill()
    return [answer.result() for answer in answers]


def _run(file, jobs, running):
    with tempfile.TemporaryDirectory() as scratch:
        jobs_path, results_path = pathlib.Path(scratch, "jobs"), pathlib.Path(scratch, "results")
        jobs_path.write_bytes(pickle.dumps(jobs))
        with open(pathlib.Path(scratch, "messages"), "w+") as messages:
            arguments = str(_FOLDER / file), str(jobs_path), str(results_path)
            process = _isolated(*arguments, directory=scratch, stderr=messages)
            running.append(process)
            if code := process.wait():
                messages.seek(0)
                last = messages.read().strip().splitlines()[-1:] or ["no message"]
                raise ValueError(f"{file} ends with exit code {code} in a fresh process: {last[0]}")
        return pickle.loads(results_path.read_bytes())


def _isolated(file, *arguments, directory, stderr):
    """Starts `python -I file arguments`, which finds the packages that this process finds.

    By itself, -I would leave out those of PYTHONPATH and of the user's own site-packages.
    """
    command = [sys.executable, "-I", "-c", _START, json.dumps(sys.path, default=str), file, *arguments]
    return subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=stderr)
