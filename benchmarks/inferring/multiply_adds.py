"""How many int8 multiply-adds one core can do per second, measured with the instruction made for them."""

import ctypes
import pathlib
import subprocess
import tempfile
import typing

from benchmarks import machine

_REPEATS = 7
_PRODUCT = 2  # 1 times 2, in both loops
# Sixteen sums in registers, so that no instruction waits for the previous one; vpdpbusd adds 4 products to
# each of 16 numbers. The empty __asm__ keeps the compiler from seeing that all sums are equal: it would
# compute only one.
_VECTORS = """
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
# Four sums of 16 x 16 numbers in tiles; tdpbssd adds 64 products to each. Linux gives a process the tiles
# only if it asks (arch_prctl, ARCH_REQ_XCOMP_PERM).
_TILES = """
#define _GNU_SOURCE
#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#define ALL(DO) DO(0) DO(1) DO(2) DO(3)
#define CLEAR(i) _tile_zero(i);
#define ADD(i) _tile_dpbssd(i, 4, 5);
#define TOTAL(i) _tile_stored(i, sums, 64); for (int k = 0; k < 256; k++) sum += sums[k];
long run(long rounds) {
  if (syscall(SYS_arch_prctl, 0x1023, 18)) return -1;
  struct { unsigned char palette, start, rest[14]; unsigned short bytes[16]; unsigned char rows[16]; } shape;
  memset(&shape, 0, sizeof shape);
  shape.palette = 1;
  for (int k = 0; k < 6; k++) { shape.bytes[k] = 64; shape.rows[k] = 16; }
  _tile_loadconfig(&shape);
  char x[1024], y[1024];
  int sums[256];
  memset(x, 1, sizeof x);
  memset(y, 2, sizeof y);
  _tile_loadd(4, x, 64);
  _tile_loadd(5, y, 64);
  ALL(CLEAR)
  for (long k = 0; k < rounds; k++) { ALL(ADD) }
  long sum = 0;
  ALL(TOTAL)
  _tile_release();
  return sum;
}
"""


class Unit(typing.NamedTuple):
    """A part of a processor that multiplies int8.

    Attributes:
        title: str.
        flag: str, its name in /proc/cpuinfo.
        source: str, a loop in C.
        options: tuple of str, what a C compiler needs to be told.
        a_round: int, multiply-adds of a round of the loop.
    """

    title: str
    flag: str
    source: str
    options: tuple
    a_round: int


UNITS = (  # the fastest first
    Unit("AMX", "amx_int8", _TILES, ("-mamx-tile", "-mamx-int8"), 4 * 16 * 16 * 64),
    Unit("AVX512-VNNI", "avx512_vnni", _VECTORS, ("-mavx512f", "-mavx512vnni"), 16 * 64),
)


def best():
    """Returns the fastest `Unit` of this processor.

    Raises:
        ValueError: if it has none of them.
    """
    # Without it, even a call with no rounds would kill the process.
    for unit in UNITS:
        if machine.has_flag(unit.flag):
            return unit
    names = " or ".join(f"{unit.title} ({unit.flag} in /proc/cpuinfo)" for unit in UNITS)
    raise ValueError(f"the processor must have {names}")


def compiled(unit):
    """Returns the compiled loop of a `Unit`: a function of the number of rounds that returns the sum.

    Raises:
        ValueError: if no C compiler supports it.
    """
    with tempfile.TemporaryDirectory() as directory:
        source, library = pathlib.Path(directory, "peak.c"), pathlib.Path(directory, "peak.so")
        source.write_text(unit.source, encoding="ascii")
        flags = ["-O2", "-shared", "-fPIC", *unit.options, "-o", str(library), str(source)]
        try:
            subprocess.run(["cc", *flags], check=True, capture_output=True)
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            raise ValueError(f"a C compiler that supports {unit.title} must be installed as cc") from error
        run = ctypes.CDLL(str(library)).run
    run.argtypes, run.restype = [ctypes.c_long], ctypes.c_long
    return run


def a_second(unit, clock, count=10**10):
    """Returns multiply-adds per second: the best of several runs.

    Args:
        unit: `Unit`.
        clock: function without arguments that returns seconds, such as `time.perf_counter`.
        count: int, about how many multiply-adds a run has.

    Raises:
        ValueError: if the unit computes nothing, as where the system does not allow it.
    """
    run, fastest, rounds = compiled(unit), 0.0, max(1, count // unit.a_round)
    for _ in range(_REPEATS):
        start = clock()
        total, seconds = run(rounds), clock() - start
        if total != _PRODUCT * rounds * unit.a_round:
            raise ValueError(f"the system must allow {unit.title}. Received: {total} as the sum of a loop")
        fastest = max(fastest, rounds * unit.a_round / seconds)
    return fastest
