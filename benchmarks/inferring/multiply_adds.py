"""How many int8 multiply-adds one core can do per second, measured with the instruction made for them."""

import ctypes
import pathlib
import subprocess
import tempfile

from benchmarks import machine

_REPEATS = 7
# Sixteen sums in registers, so that no instruction waits for the previous one; vpdpbusd adds 4 products to
# each of 16 numbers. The empty __asm__ keeps the compiler from seeing that all sums are equal: it would
# compute only one.
_SOURCE = """
#include <immintrin.h>
#define FOUR(DO, a, b, c, d) DO(a) DO(b) DO(c) DO(d)
#define ALL(DO) FOUR(DO, 0, 1, 2, 3) FOUR(DO, 4, 5, 6, 7) FOUR(DO, 8, 9, 10, 11) FOUR(DO, 12, 13, 14, 15)
#define CLEAR(i) __m512i s##i = _mm512_setzero_si512(); __asm__("" : "+v"(s##i));
#define ADD(i) s##i = _mm512_dpbusd_epi32(s##i, x, y);
#define TOTAL(i) sum += _mm512_reduce_add_epi32(s##i);
long run(long rounds) {
  __m512i x = _mm512_set1_epi8(1), y = _mm512_set1_epi8(2);
  ALL(CLEAR)
  for (long k = 0; k < rounds; k++) { ALL(ADD) }
  long sum = 0;
  ALL(TOTAL)
  return sum;
}
"""
A_ROUND = 16 * 64  # multiply-adds


def compiled():
    """Returns the compiled loop: a function of the number of rounds that returns the sum.

    Raises:
        ValueError: if the processor has no AVX512-VNNI, or no C compiler supports it.
    """
    # Without it, even a call with no rounds would kill the process: the sums have 512 bits.
    if not machine.has_flag("avx512_vnni"):
        raise ValueError("the processor must have AVX512-VNNI (avx512_vnni in /proc/cpuinfo)")
    with tempfile.TemporaryDirectory() as directory:
        source, library = pathlib.Path(directory, "peak.c"), pathlib.Path(directory, "peak.so")
        source.write_text(_SOURCE, encoding="ascii")
        flags = ["-O2", "-shared", "-fPIC", "-mavx512f", "-mavx512vnni", "-o", str(library), str(source)]
        try:
            subprocess.run(["cc", *flags], check=True, capture_output=True)
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            raise ValueError("a C compiler that supports AVX512-VNNI must be installed as cc") from error
        run = ctypes.CDLL(str(library)).run
    run.argtypes, run.restype = [ctypes.c_long], ctypes.c_long
    return run


def a_second(clock, rounds=10**7):
    """Returns multiply-adds per second: the best of several runs.

    Args:
        clock: function without arguments that returns seconds, such as `time.perf_counter`.
        rounds: int, rounds per run.
    """
    run, best = compiled(), 0.0
    for _ in range(_REPEATS):
        start = clock()
        run(rounds)
        best = max(best, rounds * A_ROUND / (clock() - start))
    return best
