"""One small step through TensorFlow and the TPU's own compiler, where that is installed."""

import pytest

from benchmarks.compiling import compiler
from benchmarks.compiling.cells import Cell, compute

MISSING = compiler.missing()


@pytest.mark.slow  # a minute
@pytest.mark.multiprocess
@pytest.mark.skipif(bool(MISSING), reason="the TPU's compiler needs requirements-tpu.txt")
@pytest.mark.parametrize(("optimizer", "moments"), [("adafactor", 0), ("adamw", 2)])
def test_a_small_step_compiles_for_a_tpu(tmp_path, optimizer, moments):
    found = compute(Cell("v5e", "tiny", "lightweight_conv", 2, 64, optimizer), tmp_path)
    assert "refusal" not in found
    # Products are most of what it counts; what else there is takes part of the rest.
    assert 1.0 < found["flops"] / (6 * found["multiply_adds"]) < 1.5
    memory = found["memory"]
    # Weights and AdamW's moments, or those that Adafactor does not factor, in float32, and the super-batch.
    assert memory["arguments"] > 4 * (1 + moments) * found["parameters"]
    assert memory["outputs"] < 1e5  # the rest overwrites arguments
    assert 0 < found["matrix_cycles"] < found["cycles"]
    assert sum(found["cycles_by_part"].values()) == found["cycles"]
    assert set(found["cycles_by_part"]) >= {"mixer", "feed-forward", "optimizer", "loss"}


@pytest.mark.skipif(bool(MISSING), reason="the TPU's compiler needs requirements-tpu.txt")
def test_what_is_no_program_is_refused():
    from benchmarks.compiling.chips import CHIPS

    with pytest.raises(compiler.RefusedError):
        compiler.compiled("module { func.func @main() { stablehlo.nonsense } }", CHIPS["v5e"])
