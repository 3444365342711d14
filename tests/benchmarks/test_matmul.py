import numpy as np
import pytest

from benchmarks import matmul
from benchmarks.machine import optional_torch


def test_all_forms_agree():
    forms = matmul.candidates(num_rows=8, inputs=4, outputs=6, dtype="float32")
    products = {name: np.asarray(form()) for name, form in forms.items()}
    assert len(products) == 5 + (optional_torch() is not None)
    for name, product in products.items():
        assert product.shape == (8, 6)
        # Float32 sums of four terms of size one, in another order.
        np.testing.assert_allclose(product, products["tf.matmul"], atol=1e-5, err_msg=name)


def test_rows_are_the_products_of_a_layer():
    settings = matmul.Settings(
        dtypes=("bfloat16",), rows=8, hidden_dim=4, intermediate_dim=12, repeats=1, min_seconds=0.0
    )
    found = list(matmul.rows(settings))
    sizes = [(row.setting["inputs"], row.setting["outputs"]) for row in found]
    assert sizes == [(4, 8), (4, 4), (4, 12), (12, 4)]
    for row in found:
        seconds = row.detail["ours_ms"]["median"] / 1000
        operations = 2 * 8 * row.setting["inputs"] * row.setting["outputs"]
        assert row.ours == pytest.approx(operations / seconds / 1e9, rel=1e-3)
        assert (row.peer is None) == (optional_torch() is None)
