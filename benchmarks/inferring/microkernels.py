"""Where a LiteRT model spends its time, by the names of XNNPACK's microkernels that Linux's `perf` samples.

XNNPACK's own profile cannot be read from Python. The names of its microkernels say what they do:
xnn_qd8_f32_qc8w_gemm_minmax_ukernel_5x64c4__asm_amd64_avx512vnni multiplies 5 rows by 64 columns.
"""

import collections
import os
import re
import signal
import subprocess
import tempfile
import time

# Kind -> pattern of the function's name; the first that matches counts.
KINDS = {
    "products in int8": r"xnn_q.*gemm",
    "products in float32": r"xnn_f32.*gemm",
    "quantisation of activations": (
        r"rminmax|xnn_f32_q[su]8_vcvt|pack_lh|quantization_params|packed_q[ps]8|llrint"
    ),
    "depthwise convolution": r"dwconv",
    "norms: mean of squares": r"_rsum|_vsqr|_vrsqrt",
    "norms and masks: product with a number per token": r"_vmulc",
    "gate: sigmoid": r"_vsigmoid|_vhswish",
    "gate: product": r"_vmul_",
    "softmax": r"softmax|raddstoreexp|_vexp",
    "residual sums": r"_vadd",
    "pooling": r"_rd(sum|max|min)",
    "embedding to float32": r"xnn_q[su]8_f32_vcvt",
    "copies: split, pads, look-up": r"memmove|memcpy|memset|_copy_|transposec|xnn_x\d+_",
    "calls of operations": r"xnn_|pthreadpool|tflite|[Ii]nvoke",
}
ELSEWHERE = "elsewhere: Python, the system"
_FREQUENCY = 5000  # samples per second
_STARTS_IN = 0.5  # seconds that perf takes to start


def kind(function):
    """Returns what a function with this name does: a key of `KINDS`, or `ELSEWHERE`.

    Example:
    >>> kind("xnn_f32_dwconv_minmax_ukernel_9p16c__avx512f")
    'depthwise convolution'
    """
    return next((name for name, pattern in KINDS.items() if re.search(pattern, function)), ELSEWHERE)


def shares(lines):
    """Returns the share of each kind: dict, kind -> float. The shares add up to 1.

    Args:
        lines: list of str, the lines of `perf report --fields=sample,symbol`, each with a number and
            `[.] function`.

    Raises:
        ValueError: if there are no samples.
    """
    counts = collections.Counter()
    for line in lines:
        if found := re.match(r"\s*(\d+)\s+\[.\]\s+(.+)", line):
            counts[kind(found[2])] += int(found[1])
    if not counts:
        raise ValueError("perf has taken no samples")
    total = sum(counts.values())
    return {name: count / total for name, count in counts.most_common()}


def sampled(call, seconds):
    """Returns the `shares` of the time of `call`, which is called repeatedly for this many seconds.

    Raises:
        ValueError: if `perf` is missing or is not allowed to sample.
    """
    with tempfile.TemporaryDirectory() as directory:
        file = os.path.join(directory, "perf.data")
        record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(_FREQUENCY), "-o", file]
        try:
            perf = subprocess.Popen([*record, "-p", str(os.getpid())], stderr=subprocess.DEVNULL)
        except FileNotFoundError as error:
            raise ValueError("Linux's perf must be installed (linux-tools, linux-perf)") from error
        try:
            end = time.perf_counter() + _STARTS_IN + seconds
            while time.perf_counter() < end:
                call()
        finally:
            perf.send_signal(signal.SIGINT)
            perf.wait()
        report = ["perf", "report", "-i", file, "--stdio", "--fields=sample,symbol"]
        done = subprocess.run(report, capture_output=True, text=True, check=False)
    return shares(done.stdout.splitlines())
