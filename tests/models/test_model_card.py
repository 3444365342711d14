import keras
import keras_nlp
import pytest

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
        "language: en",
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


def test_an_unknown_fact_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="Received also: acuracy"):
        model_card.write(str(tmp_path), {"acuracy": 1})
