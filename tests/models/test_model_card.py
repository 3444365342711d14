import keras
import keras_nlp
import pytest
import yaml

from convnlp.models import PooledEncoder, model_card, token_inputs

FACTS = {
    "language": "en",
    "trained_on": ["jsonl:train.jsonl train", "pydocs"],
    "objective": "span_corruption",
    "steps": 1200,
    "tokens": 4_915_200,
    "seconds": 3600.5,
    "scores": {"test accuracy": 0.84321, "held-out loss": 3.0},
    "encoder_use": 0.41,
    "encoder_length": 128,
    "command": "python -m convnlp.pretrain --workdir=DIR",
}


def test_everything_given_is_written(classifier, tmp_path):
    classifier.save_to_preset(str(tmp_path / "dynamic_conv_mini_en"))
    cost = classifier.backbone.cost(128)
    path = model_card.write(str(tmp_path / "dynamic_conv_mini_en"), {**FACTS, "cost": cost})
    with open(path, encoding="utf-8") as file:
        card = file.read()
    for text in (
        "# dynamic_conv_mini_en\n",
        "pipeline_tag: text-classification",
        'language: "en"\n',
        "2 encoder layers (dynamic_conv)",
        "Classes: bad, good.",
        f"{classifier.backbone.count_params():,} parameters",
        "- Trained on: jsonl:train.jsonl train, pydocs\n",
        "- Steps: 1,200\n",
        "- Tokens seen: 4,915,200\n",
        "- test accuracy: 0.8432\n",
        "- held-out loss: 3\n",
        f"- multiply adds: {cost['multiply_adds']:,}\n",
        f"- receptive field: {cost['receptive_field']}\n",
        "these figures are for 128 encoder tokens",
        "python -m convnlp.pretrain --workdir=DIR",
        "from convnlp.models import TextClassifier\n\n",
        'model = TextClassifier.from_preset("dynamic_conv_mini_en")\nmodel.predict(["a text"])\n',
    ):
        assert text in card
    assert "encoder output loses): 0.41\n" in card
    assert "decoder layers" not in card


def test_what_is_not_given_is_left_out(lm, tmp_path):
    lm.save_to_preset(str(tmp_path / "lm"))
    with open(model_card.write(str(tmp_path / "lm"), {}), encoding="utf-8") as file:
        card = file.read()
    assert "2 decoder layers (dynamic_conv)" in card
    for title in ("## Training", "## Scores", "## Cost", "## Command", "language:", "None"):
        assert title not in card
    assert "pipeline_tag: text2text-generation\n" in card
    assert 'model = Seq2SeqLM.from_preset("lm")\nmodel.generate("a text")\n' in card


def test_a_backbone_is_for_no_task(lm, tmp_path):
    lm.backbone.save_to_preset(str(tmp_path / "backbone"))
    with open(model_card.write(str(tmp_path / "backbone"), {}), encoding="utf-8") as file:
        card = file.read()
    assert "pipeline_tag" not in card
    assert card.endswith('model = Seq2SeqBackbone.from_preset("backbone")\n```\n')


@keras.saving.register_keras_serializable(package="test_model_card")
class Ranker(PooledEncoder, keras_nlp.models.Task):
    """A class of one's own, which says what it is for."""

    pipeline_tag = "text-ranking"
    example = 'model.predict((["a question"], ["an answer"]))'

    def __init__(self, backbone, preprocessor=None, **kwargs):
        self._take(backbone, preprocessor)
        inputs = token_inputs()
        super().__init__(inputs=inputs, outputs=self.pool(inputs)[0], **kwargs)


def test_a_class_of_ones_own_has_its_own_tag_and_example(lm, tmp_path):
    Ranker(lm.backbone, None).save_to_preset(str(tmp_path / "ranker"))
    with open(model_card.write(str(tmp_path / "ranker"), {}), encoding="utf-8") as file:
        card = file.read()
    assert "pipeline_tag: text-ranking\n" in card
    code = f'from {__name__} import Ranker\n\nmodel = Ranker.from_preset("ranker")\n{Ranker.example}\n'
    assert f"```python\n{code}```" in card


def card_of(model, folder, entries):
    model.save_to_preset(str(folder))
    with open(model_card.write(str(folder), entries), encoding="utf-8") as file:
        return file.read()


def test_what_a_shipped_model_says_of_itself(lm, tmp_path):
    card = card_of(
        lm,
        tmp_path / "lm",
        {
            "licence": "apache-2.0",
            "sources": [
                {"name": "c4", "licence": "ODC-BY 1.0", "tokens": 1_250_000, "url": "https://c4.example"},
                {"name": "books", "licence": "public domain"},
            ],
            "cpu_seconds": 36_000.0,
            "scores": {
                "a": {"value": 0.84, "interval": [0.83, 0.8512], "over": "five seeds"},
                "b": {"value": 0.5, "num_examples": 100},
                "c": 2.5,
            },
            "speed": {"texts per second": 310},
            "vocabulary": [{"set": "sst2", "unknown": 0.0001, "such as": "| ~"}],
            "weaknesses": ["It reads English only.", "Irony is lost on it."],
            "bias": [{"groups": "women, men", "difference": 0.02}],
        },
    )
    assert card.startswith('---\nlibrary_name: keras-hub\ntags: [convnlp]\nlicense: "apache-2.0"\n')
    for section in (
        "- CPU hours: 10; energy, estimated: 0.1 kWh, taking 10 W for each busy CPU\n",
        "## Sources\n\n| name | licence | tokens |\n| --- | --- | --- |\n"
        "| [c4](https://c4.example) | ODC-BY 1.0 | 1,250,000 |\n| books | public domain |  |\n",
        "- a: 0.84 (95% interval 0.83 to 0.8512, over five seeds)\n"
        "- b: 0.5 (95% interval 0.4038 to 0.5962, over 100 examples)\n- c: 2.5\n",
        "## Speed\n\n- texts per second: 310\n",
        "## Vocabulary\n\n| set | unknown | such as |\n| --- | --- | --- |\n| sst2 | 0.0001 | \\| ~ |\n",
        "## Known weaknesses\n\n- It reads English only.\n- Irony is lost on it.\n",
        "benchmarks.pretraining.bias`.\n\n| groups | difference |\n| --- | --- |\n| women, men | 0.02 |\n",
    ):
        assert section in card, section


@pytest.mark.parametrize("language", ["en", "no"])
def test_the_front_matter_is_what_a_reader_of_yaml_finds(lm, tmp_path, language):
    card = card_of(lm, tmp_path / "lm", {"language": language, "licence": "cc-by-4.0"})
    found = yaml.safe_load(card.split("---\n")[1])
    assert (found["language"], found["license"]) == (language, "cc-by-4.0")


def test_sections_without_entries_are_left_out(lm, tmp_path):
    card = card_of(lm, tmp_path / "lm", {"cpu_seconds": 360.0, "watts_per_cpu": 25.0, "bias": []})
    assert "- CPU hours: 0.1; energy, estimated: 0.0025 kWh, taking 25 W for each busy CPU\n" in card
    assert [line for line in card.splitlines() if line.startswith("## ")] == ["## Training", "## Use"]


@pytest.mark.parametrize(
    ("share", "low", "high"), [(0.0, 0.0, 0.2775), (1.0, 0.7225, 1.0), (0.9, 0.5958, 0.9821)]
)
def test_the_interval_of_a_share(share, low, high):
    assert model_card.share_interval(share, 10) == pytest.approx((low, high), abs=5e-4)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"sources": [{"name": "c4"}]}, "`sources` must have the keys name and licence"),
        ({"sources": [{"name": "c4", "licence": "x", "size": 1}]}, "`sources` must have the keys name and"),
        ({"scores": {"a": {"value": 1}}}, "`scores` must be numbers, or have .* Received: a: {'value': 1}"),
        ({"bias": [{"a": 1}, {"b": 1}]}, "`bias` must have the same keys in all rows"),
        ({"vocabulary": [{"a": 1}, {"a": 1, "b": 1}]}, "`vocabulary` must have the same keys in all rows"),
        ({"scores": {"a": {"value": 1.5, "num_examples": 9}}}, r"`scores` must be .* value in \[0, 1\] and"),
        ({"scores": {"a": {"value": 0.5, "num_examples": 0}}}, "`scores` must be numbers"),
        ({"scores": {"a": {"value": 1, "interval": [1], "over": "x"}}}, "`scores` must be numbers"),
        ({"scores": {"a": "good"}}, "`scores` must be numbers"),
        ({"scores": [1]}, r"`scores` must be a dict. Received: scores=\[1\]"),
        ({"sources": ["c4"]}, r"`sources` must be a list of dicts. Received: sources=\['c4'\]"),
        ({"bias": {"a": 1}}, "`bias` must be a list of dicts"),
        ({"weaknesses": "It is tiny."}, "`weaknesses` must be a list of sentences"),
        ({"language": ["en"]}, r"`language` must be a string. Received: language=\['en'\]"),
        ({"cpu_seconds": "3"}, "`cpu_seconds` must be a number >= 0. Received: cpu_seconds='3'"),
    ],
)
def test_an_entry_of_another_form_is_refused_before_the_card_is_written(lm, tmp_path, entries, message):
    lm.save_to_preset(str(tmp_path / "lm"))
    with pytest.raises(ValueError, match=message):
        model_card.write(str(tmp_path / "lm"), entries)
    assert not (tmp_path / "lm" / "README.md").exists()


def test_an_unknown_fact_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="Received also: acuracy"):
        model_card.write(str(tmp_path), {"acuracy": 1})
