import json

import pytest

from benchmarks import first_results, first_results_report, pages

SEEDS = ["0", "1"]


def put(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value) + "\n")


@pytest.fixture
def workdir(tmp_path):
    """What finished runs leave behind: TREC-6 from both starts, SST-2 from one."""
    steps = [{"step": step, "train/loss": 9.0} for step in (10, 20)]
    names = ("loss", "span_corruption", "masked_lm", "encoder_use")
    held_out = {"step": 20, **{f"valid/{name}": 4.5 for name in names}}
    path = tmp_path / "pretrained" / "metrics.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(row) + "\n" for row in [*steps, held_out]))
    put(tmp_path / "tfidf.json", {"trec6": {"accuracy": 0.89}, "sst2": {"accuracy": 0.81}})
    accuracies = {"trec6_scratch": (0.80, 0.84), "trec6_pretrained": (0.92, 0.92), "sst2_scratch": (0.7, 0.8)}
    for run, by_seed in accuracies.items():
        for seed, accuracy in zip(SEEDS, by_seed, strict=True):
            test = {"accuracy": accuracy, "num_examples": 500}
            put(tmp_path / f"{run}_{seed}" / "results.json", {"test": test, "cpu_seconds": 60.0})
    return tmp_path


def test_collect_takes_what_is_finished(workdir):
    results = first_results.collect(workdir, SEEDS)
    assert [row["step"] for row in results["pretraining"]] == [10, 20, 20]
    assert set(results["classification"]) == {"trec6"}
    scratch = results["classification"]["trec6"]["scratch"]
    assert scratch["accuracies"] == [0.80, 0.84]
    assert scratch["mean"] == pytest.approx(0.82)
    assert scratch["std"] == pytest.approx(0.02 * 2**0.5)  # of a sample of two
    assert "cogs" not in results


def test_the_page(workdir):
    docs = workdir / "docs"
    docs.mkdir()
    page = docs / "first_results.md"
    page.write_text(f"before\n{first_results_report.BEGIN}\n{pages.END}\nafter\n")
    first_results_report.write(first_results.collect(workdir, SEEDS), docs)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "| trec6 | 89.0 | 82.0 ± 2.8 | 92.0 ± 0.0 | +10.0 | 500 |" in text
    assert "| 20 | 4.500 | 4.500 | 4.500 |" in text
    assert (docs / "first_results_pretraining.svg").stat().st_size > 1000
    figures = json.loads((docs / "first_results.json").read_text())
    assert "pretraining" not in figures
    assert figures["baseline"]["trec6"]["accuracy"] == 0.89

    for seed in SEEDS:
        (workdir / f"trec6_scratch_{seed}" / "results.json").unlink()
    first_results_report.write(first_results.collect(workdir, SEEDS), docs)  # keeps the row it cannot make
    assert "| trec6 | 89.0 | 82.0 ± 2.8 | 92.0 ± 0.0 | +10.0 | 500 |" in page.read_text()


def test_variants_are_compared_over_the_seeds_that_all_have(workdir):
    names = ["sst2_pretrained", *(f"sst2_variant{number}" for number in range(len(first_results.VARIANTS)))]
    for name, accuracy in zip(names, (0.80, 0.81, 0.82, 0.83), strict=True):
        test = {"accuracy": accuracy, "num_examples": 1821}
        put(workdir / f"{name}_0" / "results.json", {"test": test, "cpu_seconds": 60.0})
    put(workdir / "sst2_pretrained_1" / "results.json", {"test": test, "cpu_seconds": 60.0})
    results = first_results.collect(workdir, SEEDS)
    assert list(results["variants"]) == ["as above", *first_results.VARIANTS]
    assert [runs["accuracies"] for runs in results["variants"].values()] == [[0.8], [0.81], [0.82], [0.83]]
    table = first_results_report.variants_table(results)
    assert "seeds: 1" in table
    assert "| as above | 80.0 | 60 |" in table
