r"""Where the time of a forward pass or of a training step goes, for our model and for PyTorch's.

    python -m benchmarks.profile --work=encoder --dtype=float32 --length=512

The models and inputs are those of benchmarks.encoder, of benchmarks.train_step (--work=training) or of
benchmarks.pretraining.encoder_step (--work=pretraining, only ours). For our model, TensorFlow's profiler
gives the time that each kind of operation took on its thread; for PyTorch's, torch.profiler gives the time
of each operation without those that it calls. Operations may run at the same time, so the kinds can add up
to more than the call took. The profilers themselves take some time, so compare the shares, or the times
with each other, but not with those of other programs.
"""

import collections
import glob
import json
import re
import tempfile
import time

import tensorflow as tf
from absl import flags

from benchmarks import encoder, machine, pages, train_step
from benchmarks.pretraining import encoder_step
from benchmarks.shared_flags import check_json, define_output
from benchmarks.small_models import ATTENTION, CONVOLUTION, POLICIES, SIZES, token_ids
from convnlp import outputs, programs

# An event of TensorFlow's executor is NAME:OPERATION, or a run of what XLA compiled; the executor's own
# work is CLASS::METHOD.
_OPERATION = re.compile(r"[^:]+:(\w+)|CpuExecutable::ExecuteAsyncOnStream")
_COMPILED = "compiled loops (XLA)"


def tensorflow_kinds(call, num_calls):
    """Measures where `call` spends its time, with TensorFlow's profiler.

    Args:
        call: function without arguments that runs a graph and waits for it.
        num_calls: int.

    Returns:
        dict, operation -> (ms per call, times per call).
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as directory:
        tf.profiler.experimental.start(
            directory, tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
        )
        try:
            for _ in range(num_calls):
                call()
        finally:
            tf.profiler.experimental.stop()
        (trace,) = glob.glob(f"{directory}/**/*.xplane.pb", recursive=True)
        space = xplane_pb2.XSpace()
        with open(trace, "rb") as file:
            space.ParseFromString(file.read())
    milliseconds, times = collections.Counter(), collections.Counter()
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events if line.name.startswith("tf_Compute") else ():
                if match := _OPERATION.fullmatch(plane.event_metadata[event.metadata_id].name):
                    milliseconds[match[1] or _COMPILED] += event.duration_ps / 1e9
                    times[match[1] or _COMPILED] += 1
    return {kind: (milliseconds[kind] / num_calls, times[kind] / num_calls) for kind in times}


def pytorch_kinds(call, num_calls):
    """Does the same as `tensorflow_kinds`, with torch.profiler."""
    from torch import profiler

    with profiler.profile(activities=[profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(num_calls):
            call()
    return {
        event.key: (event.self_cpu_time_total / 1e3 / num_calls, event.count / num_calls)
        for event in profile.key_averages()
    }


def calls(work, dtype, mixer, length, sizes=SIZES, tokens_per_call=8192):
    """Returns the calls to profile: dict, name -> (function without arguments, its profiler).

    Args:
        work: str, "encoder", "training" or "pretraining"; the last ignores `dtype` and uses the dtype of
            `convnlp.pretrain`.
        dtype: str, a key of `POLICIES`. With "float32", training has no call of PyTorch, which only trains
            with bfloat16 autocast here.
        mixer: str.
        length: int.
        sizes: dict, see `benchmarks.peers`.
        tokens_per_call: int, a multiple of the length.
    """
    batch_size = tokens_per_call // length
    if work == "training":
        batch = train_step.random_batch(batch_size, length, length * 114 // 512, sizes["vocabulary_size"])
        found = {"convnlp": (train_step.our_step(mixer, dtype, sizes, batch), tensorflow_kinds)}
        if machine.optional_torch() and dtype == "bfloat16":
            found["PyTorch"] = (train_step.pytorch_step("conv", sizes, batch), pytorch_kinds)
        return found
    if work == "pretraining":
        settings = encoder_step.Settings(
            vocabulary_size=sizes["vocabulary_size"], changes={"data.input_length": length}
        )
        return {"convnlp": (encoder_step.step(mixer, batch_size, settings)[0], tensorflow_kinds)}
    settings = encoder.Settings(lengths=(length,), latency_lengths=(), sizes=sizes)
    models = encoder.Models(dtype, settings)
    ids = token_ids(batch_size, length, sizes["vocabulary_size"])
    found = {"convnlp": (models.ours(mixer, ids, None), tensorflow_kinds)}
    for name, forms in models.peers(ids, None).items():
        if name.startswith("PyTorch"):
            found |= {f"PyTorch {form}": (call, pytorch_kinds) for form, call in forms.items()}
    return found


def profile(call, kinds_of, num_calls):
    """Returns (ms of one call without a profiler, its kinds as a dict like that of `tensorflow_kinds`)."""
    call()
    call()
    start = time.perf_counter()
    for _ in range(num_calls):
        call()
    milliseconds = 1000 * (time.perf_counter() - start) / num_calls
    return milliseconds, kinds_of(call, num_calls)


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_enum("work", "encoder", ["encoder", "training", "pretraining"], "What to profile.")
    flags.DEFINE_enum("dtype", "float32", POLICIES, "Number type; ignored for pretraining.")
    flags.DEFINE_enum("mixer", CONVOLUTION, [CONVOLUTION, ATTENTION], "Mixer of our model.")
    flags.DEFINE_integer("length", 512, "Tokens per text; a call has up to 8192.", 1, 8192)
    flags.DEFINE_integer("calls", 5, "Number of calls to average.", 1)
    flags.DEFINE_integer("top", 12, "Number of kinds of operation to show.", 1)
    define_output("json", "File to write the machine and the kinds to.")
    flags.DEFINE_integer("threads", 2, "Threads of TensorFlow and PyTorch.", 1)


def main(_):
    """Flags -> profiles -> tables, JSON."""
    args = flags.FLAGS
    check_json(args.json)
    machine.use_threads(args.threads)
    description = machine.describe(args.threads)
    description["allocator_tuned"] = machine.tune_allocator()
    report = {}
    for name, (call, kinds_of) in calls(args.work, args.dtype, args.mixer, args.length).items():
        milliseconds, kinds = profile(call, kinds_of, args.calls)
        top = sorted(kinds.items(), key=lambda item: -item[1][0])[: args.top]
        lines = [(kind, f"{each:.2f}", f"{times:g}") for kind, (each, times) in top]
        print(f"\n{name}: {milliseconds:.1f} ms per call\n")
        print(pages.table(("operation", "ms", "times"), lines), flush=True)
        report[name] = {"ms": milliseconds, "operations": dict(top)}
    if args.json:
        setting = {name: args[name].value for name in ("work", "dtype", "mixer", "length")}
        found = {"machine": description, "setting": setting, "profiles": report}
        outputs.write_file(args.json, f"{json.dumps(found, indent=1)}\n".encode())


if __name__ == "__main__":
    define_flags()
    programs.run(main)
