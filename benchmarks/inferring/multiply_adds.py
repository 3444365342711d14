"""How many multiply-adds of int8 one core can do in a second, by an instruction that does nothing else."""

import ctypes
import pathlib
import subprocess
import tempfile

from benchmarks import machine

_REPEATS = 7
# Sixteen sums in registers, so that no instruction waits for the one before; vpdpbusd adds 4 products to each
# of 16 numbers. To the compiler the sums differ, or it would compute one of them.
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
    """The loop: function of a number of rounds, which gives the sum.

    Raises:
        ValueError: if the processor has no AVX512-VNNI, or if no C compiler knows it.
    """
    # Without it even a call of no rounds would end the process: the sums are of 512 bits.
    if not machine.has_flag("avx512_vnni"):
        raise ValueError("the processor must have AVX512-VNNI (avx512_vnni in /proc/cpuinfo)")
    with tempfile.TemporaryDirectory() as directory:
        source, library = pathlib.Path(directory, "peak.c"), pathlib.Path(directory, "peak.so")
        source.write_text(_SOURCE, encoding="ascii")
        flags = ["-O2", "-shared", "-fPIC", "-mavx512f", "-mavx512vnni", "-o", str(library), str(source)]
        try:
            subprocess.run(["cc", *flags], check=True, capture_output=True)
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            raise ValueError("a C compiler that knows AVX512-VNNI must be installed as cc") from error
        run = ctypes.CDLL(str(library)).run
    run.argtypes, run.restype = [ctypes.c_long], ctypes.c_long
    return run


def a_second(clock, rounds=10**7):
    """Multiply-adds a second: the most of some runs.

    Args:
        clock: function without arguments to seconds, such as `time.perf_counter`.
        rounds: int, of a run.
    """
    run, best = compiled(), 0.0
    for _ in range(_REPEATS):
        start = clock()
        run(rounds)
        best = max(best, rounds * A_ROUND / (clock() - start))
    return best
