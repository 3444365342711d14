"""The reader of presets: `from_preset` of a classifier, of whose files one is any bytes."""

import shutil

from convnlp.models import (
    Seq2SeqBackbone,
    TextClassifier,
    TextClassifierPreprocessor,
    Tokenizer,
    checksums,
)
from tests.fuzz.reader import Reader, documented
from tests.fuzz.tokenizer_model import small_proto

FILES = (
    "config.json",
    "task.json",
    "tokenizer.json",
    "preprocessor.json",
    "metadata.json",
    "assets/tokenizer/vocabulary.spm",
    "model.weights.h5",
    "task.weights.h5",
    checksums.FILE,
)


class PresetFiles(Reader):
    """The first byte chooses the file, the others are what stands in it. The sums are taken anew."""

    def __init__(self, folder):
        super().__init__(folder)
        tokenizer = Tokenizer(small_proto())
        backbone = Seq2SeqBackbone(
            tokenizer.vocabulary_size(), 1, 1, 4, 4, num_decoder_layers=0, kernel_size=3
        )
        preprocessor = TextClassifierPreprocessor(tokenizer, 8)
        classifier = TextClassifier(backbone, 2, preprocessor, labels=["bad", "good"])
        self._whole = folder / "whole"
        classifier.save_to_preset(str(self._whole))
        self.seeds = [bytes([i]) + (self._whole / name).read_bytes() for i, name in enumerate(FILES)]

    def read(self, data):
        name = FILES[data[0] % len(FILES)] if data else FILES[0]
        preset = self.folder / "preset"
        shutil.rmtree(preset, ignore_errors=True)
        shutil.copytree(self._whole, preset)
        (preset / name).write_bytes(data[1:])
        if name != checksums.FILE:
            checksums.write(str(preset))
        with documented(ValueError):
            TextClassifier.from_preset(str(preset))
            return "read"
        return "refused"
