from convnlp.models import model_card, preset_names
from convnlp.models.layouts import LAYOUTS
from convnlp.models.multi_label_classifier import MultiLabelClassifier
from convnlp.models.pooled_encoder import PooledEncoder, token_inputs
from convnlp.models.prefix_lm import PrefixLM
from convnlp.models.prefix_lm_preprocessor import PrefixLMPreprocessor
from convnlp.models.question_answerer import QuestionAnswerer
from convnlp.models.question_answerer_preprocessor import QuestionAnswererPreprocessor
from convnlp.models.seq2seq_backbone import Seq2SeqBackbone
from convnlp.models.seq2seq_lm import Seq2SeqLM
from convnlp.models.seq2seq_lm_preprocessor import Seq2SeqLMPreprocessor
from convnlp.models.sizes import SIZES
from convnlp.models.text_classifier import TextClassifier
from convnlp.models.text_classifier_preprocessor import TextClassifierPreprocessor
from convnlp.models.text_regressor import TextRegressor
from convnlp.models.tokenizer import Tokenizer
from convnlp.presets import PRESETS

preset_names.register(PRESETS, Seq2SeqBackbone)

__all__ = [
    "LAYOUTS",
    "SIZES",
    "MultiLabelClassifier",
    "PooledEncoder",
    "PrefixLM",
    "PrefixLMPreprocessor",
    "QuestionAnswerer",
    "QuestionAnswererPreprocessor",
    "Seq2SeqBackbone",
    "Seq2SeqLM",
    "Seq2SeqLMPreprocessor",
    "TextClassifier",
    "TextClassifierPreprocessor",
    "TextRegressor",
    "Tokenizer",
    "model_card",
    "token_inputs",
]
