"""Runs signatures without convnlp, in a process of its own: `python -I fresh_run.py JOBS RESULTS`.

JOBS is a pickled list of `(directory, uses_text_ops, tensor_names, [(signature, {input: array}), ...])`;
tensor_names, {signature: ({input: tensor}, {output: tensor})}, is for runtimes that do not read signatures.
RESULTS is a pickled list of rows `(directory, signature, loader, inputs, {output: array} or the error)`;
loader is "python" for `tf.saved_model.load` and "session" for the Session that TensorFlow Serving runs. This
file is run, not imported, and imports nothing from the project.
"""

import pickle
import sys

for _name in ("convnlp", "export", "keras_hub", "keras_nlp"):
    sys.modules[_name] = None  # importing it now raises ImportError


def main(jobs_path, results_path):
    """Answers all jobs, first those without text operations, before tensorflow_text is imported."""
    import tensorflow as tf

    with open(jobs_path, "rb") as file:
        jobs = sorted(pickle.load(file), key=lambda job: job[1])
    rows = []
    for directory, uses_text_ops, _, requests in jobs:
        if uses_text_ops:
            import tensorflow_text  # noqa: F401 - registers the tokenizer's operation
        elif any(name.startswith("tensorflow_text") for name in sys.modules):
            raise RuntimeError("tensorflow_text was loaded before a model that must do without it")
        for loader, load in (("python", _python), ("session", _session)):
            try:
                run = load(tf, directory)
            except Exception as error:
                rows += [(directory, name, loader, inputs, str(error)) for name, inputs in requests]
                continue
            for name, inputs in requests:
                # What is said last is the reason if the process dies.
                print("asked", name, *(value.shape for value in inputs.values()), file=sys.stderr, flush=True)
                try:
                    outputs = run(name, inputs)
                except Exception as error:
                    outputs = str(error)
                rows.append((directory, name, loader, inputs, outputs))
    with open(results_path, "wb") as file:
        pickle.dump(rows, file)


def _python(tf, directory):
    loaded = tf.saved_model.load(directory)

    def run(name, inputs):
        outputs = loaded.signatures[name](**{key: tf.constant(value) for key, value in inputs.items()})
        return {key: value.numpy() for key, value in outputs.items()}

    return run


def _session(tf, directory):
    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        signatures = tf.compat.v1.saved_model.load(session, ["serve"], directory).signature_def

    def run(name, inputs):
        signature = signatures[name]
        feed = {signature.inputs[key].name: value for key, value in inputs.items()}
        return session.run({key: info.name for key, info in signature.outputs.items()}, feed)

    return run


if __name__ == "__main__":
    main(*sys.argv[1:])
