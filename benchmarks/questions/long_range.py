"""Long texts: IMDb's reviews as bytes, after the Long Range Arena, from scratch and self-pre-trained."""

import dataclasses

from benchmarks.comparison.plan import Plan, Pretraining
from benchmarks.comparison.tasks import named_task

LENGTHS = (1024, 4096)  # bytes of a review; longer ones are truncated
# Steps of a fine-tuning, with 16 reviews of up to 1,024 bytes, or 4 of up to 4,096. It takes about ten CPU
# minutes; with attention one CPU hour at 1,024 bytes and three at 4,096. See docs/paper.md for other cells.
STEPS = {"imdb, 1,024 bytes": 2000, "imdb, 4,096 bytes": 1000}
STEP_BYTES = 16 * 1024
# Two layers that together see 961 bytes, so the rows of pre-training are long enough to train all taps.
DILATED = "dilated_conv:model.dilation_rate=1+31:model.kernel_size=31"

VOCABULARY = "{workdir}/bytes.spm"  # of benchmarks.questions.byte_vocabulary
SIZE = "tiny"  # two layers, so that attention over 4,096 bytes is affordable
PRETRAIN_BYTES = 16e6  # about half of the training reviews
PRETRAIN_TRIAL_BYTES = 2e6
PRETRAIN_LENGTH = LENGTHS[0]
PRETRAIN_LEARNING_RATES = (1e-3, 2e-3, 4e-3)
LEARNING_RATES = (3e-4, 1e-3)
TRIAL_STEPS = 400  # at the shorter length, for both lengths
# At 4,096 bytes, ten evaluations on a tenth of the reviews and one on all test reviews would cost the most.
SPLITS = {"split": "train[500:]", "validation_split": "train[:500]"}
TEST_SPLIT = "test[:2500]"


def plan(question, amount, task, seeds, folders):
    """Returns the `Plan` of a length; arguments as for `benchmarks.questions.table.Question.plan`.

    A mixer's encoder is pre-trained once, on rows of `PRETRAIN_LENGTH` bytes, and its fine-tuning rates are
    chosen on reviews of that length. The amount of pre-training is `PRETRAIN_BYTES`, whatever it is for the
    other questions.
    """
    del amount
    length = LENGTHS[list(STEPS).index(task)]
    return Plan(
        mixers=question.rows,
        seeds=seeds,
        data=_reviews(length),
        tokenizer=VOCABULARY,
        size=SIZE,
        batch_size=STEP_BYTES // length,
        amount=STEPS[task],
        learning_rates=LEARNING_RATES,
        trial_data=_reviews(PRETRAIN_LENGTH),
        trial_amount=TRIAL_STEPS,
        trial_batch_size=STEP_BYTES // PRETRAIN_LENGTH,
        max_length=max(LENGTHS),
        pretraining=Pretraining(
            source=named_task("imdb").source,
            amount=PRETRAIN_BYTES,
            learning_rates=PRETRAIN_LEARNING_RATES,
            trial_amount=PRETRAIN_TRIAL_BYTES,
            batch_size=STEP_BYTES // PRETRAIN_LENGTH,
            length=PRETRAIN_LENGTH,
            **SPLITS,
        ),
        folders=folders,
    )


def _reviews(length):
    return dataclasses.replace(named_task("imdb"), length=length, test_split=TEST_SPLIT, **SPLITS)
