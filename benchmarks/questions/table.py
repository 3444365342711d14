"""The questions of the paper, each a comparison: which mixers, on which tasks, after which pre-training."""

import dataclasses
from collections.abc import Callable, Iterable

from benchmarks.comparison.cells import KINDS
from benchmarks.comparison.plan import Plan, Pretraining
from benchmarks.comparison.tasks import named_task
from benchmarks.comparison.variants import Variant
from benchmarks.questions import long_range

CONVOLUTIONS = ("dynamic_conv", "lightweight_conv", "dilated_conv")
# With T5's initial bias, attention hardly learns at such budgets (docs/paper.md).
BASELINE = "self_attention:bias_initializer=alibi"
# In the order in which they are run: the first two can be compared first.
MIXERS = (CONVOLUTIONS[0], BASELINE, *CONVOLUTIONS[1:])
# Attention, one layer of it on convolutions, and what may replace it in RQ4 at a linear cost.
OPERATORS = (
    BASELINE,
    "cross_segment_attention",
    "linear_attention_on_top",
    "latent_attention_on_top",
    "linear_attention",
    "latent_attention",
    "gated_long_conv",
    "matrix_decomposition",
)

# Shared by all cells. IMDb has the longest rows, and one encoder serves all tasks.
SIZE, BATCH_SIZE, MAX_LENGTH = "mini", 32, 256
LEARNING_RATES = (3e-4, 1e-3)
PRETRAIN_LEARNING_RATES = (5e-4, 1e-3, 2e-3)
PRETRAIN_TRIAL_TOKENS = 2e6
MIXTURE = "jsonl:{mixture_dir}/mixture*.{split}.jsonl.gz"  # of benchmarks.pretraining.mixture
TOKENIZER = "{presets_dir}/dynamic_conv_mini_en/assets/tokenizer/vocabulary.spm"
# Of IMDb's 25,000 test texts, which are shuffled, the first 5,000 are read.
REPLACED = {"imdb": {"test_split": "test[:5000]"}}

# The steps of each fine-tuning, with 32 examples each.
TEXTS = {
    "trec6": 600,
    "sst2": 1000,
    "sst5": 1000,
    "jigsaw_toxicity": 1000,
    "sentiment140": 1000,
    "ag_news:1000": 600,
    "sst2_phrases": 2000,
    "imdb": 1000,
    "cogs_variable_free": 600,
}
FEW_LABELS = {
    "sst2:100": 300,
    "jigsaw_toxicity:100": 300,
    "ag_news:100": 300,
    "sst2:1000": 600,
    "jigsaw_toxicity:1000": 600,
    "ag_news": 1000,
}
PAIRS = {"snli": 1500, "sick": 1000, "mnli": 1500, "rte": 600, "squad": 1000}
STEPS = TEXTS | FEW_LABELS | PAIRS
# The tasks on which a mixer's fine-tuning rates are chosen, for all tasks with one text and with two. For a
# task whose answer is a text, they are chosen on the task itself.
TEXT_TRIAL, PAIR_TRIAL = "sst2", "snli"

SPEED_LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
SPEED_TOKENS = 4096  # per batch


def _plan(question, amount, task, seeds, folders):
    """Returns the `Plan` of a task, for most questions; arguments as for `Question.plan`."""
    data = _data(task)
    trial = PAIR_TRIAL if data.second_text_field else TEXT_TRIAL
    trial = task if data.task_kind.chooses_own_rate else trial
    return Plan(
        mixers=question.rows,
        seeds=seeds,
        data=data,
        tokenizer=TOKENIZER,
        size=SIZE,
        batch_size=BATCH_SIZE,
        amount=STEPS[task],
        learning_rates=LEARNING_RATES,
        trial_data=_data(trial),
        trial_amount=STEPS[trial],
        max_length=MAX_LENGTH,
        pretraining=Pretraining(
            source=MIXTURE,
            amount=amount,
            learning_rates=PRETRAIN_LEARNING_RATES,
            trial_amount=PRETRAIN_TRIAL_TOKENS,
        ),
        from_scratch=question.from_scratch,
        folders=folders,
    )


def _data(task):
    return dataclasses.replace(named_task(task), **REPLACED.get(task, {}))


@dataclasses.dataclass(frozen=True)
class Question:
    """A question and what is run to answer it.

    Args:
        title: str.
        mixers: tuple of str, rows; if `BASELINE` is among them, the others are compared with it.
        tasks: names, see `named_task`. `STEPS`, or the question's `plan`, has the steps of their
            fine-tunings.
        every_budget: bool, whether it is asked after each amount of pre-training, or only after the first.
        from_scratch: bool, whether the same models without pre-training are part of the answer.
        plan: function of the question, an amount of pre-training, the name of a task, seeds and folders, as
            for `plans`, that returns a `Plan`. Defaults to that of all questions about words.
    """

    title: str
    mixers: tuple
    tasks: Iterable
    every_budget: bool = False
    from_scratch: bool = True
    plan: Callable = _plan

    @property
    def rows(self):
        """The mixers, written as in a `Plan`."""
        return tuple(str(Variant.parse(text)) for text in self.mixers)


QUESTIONS = {
    "rq1": Question("Does pre-training help convolutions?", MIXERS, TEXTS),
    "rq1_spans": Question(
        "Does it by span corruption?",
        tuple(f"{mixer}:pretraining.objective=span_corruption" for mixer in MIXERS),
        TEXTS,
    ),
    "rq4": Question(
        "Where do they fail? Pairs of texts",
        (
            "dynamic_conv",
            BASELINE,
            "cross_segment_attention",
            "linear_attention_on_top",
            "dynamic_conv:task.pooling=pair",
            f"{BASELINE}:task.pooling=pair",
            "latent_attention_on_top",
        ),
        PAIRS,
        from_scratch=False,
    ),
    "rq2": Question(
        "Are convolutions competitive, and when?",
        MIXERS,
        FEW_LABELS | TEXTS,
        every_budget=True,
        from_scratch=False,
    ),
    "rq5": Question(
        "Do the variants differ?",
        (
            *CONVOLUTIONS,
            BASELINE,
            "self_attention",
            "lightweight_conv:num_heads=2",
            "lightweight_conv:num_heads=256",
            "lightweight_conv:weight_softmax=false",
            "dynamic_conv:weight_softmax=false",
            "dynamic_conv:model.kernel_size=7",
            "dynamic_conv:model.kernel_size=3+5+7+9",
            "dynamic_conv:model.kernel_size=31+15+7+3",
            "dynamic_conv:model.residual_form=post",
            "dynamic_conv:model.residual_form=sublayer_output",
        ),
        ("trec6", "sst2", "snli"),
        from_scratch=False,
    ),
    "lra": Question(
        "Are they fit for long texts?",
        (*CONVOLUTIONS[:2], BASELINE, long_range.DILATED, "linear_attention_on_top"),
        long_range.STEPS,
        plan=long_range.plan,
    ),
}
# The questions about words, which share encoders.
SHARED = tuple(name for name, question in QUESTIONS.items() if question.plan is _plan)


def plans(question, tokens, seeds, folders):
    """Returns the `Plan`s of a question.

    Args:
        question: `Question`.
        tokens: tuple of floats, amounts of pre-training.
        seeds: tuple of ints.
        folders: dict, "data_dir", "mixture_dir", "presets_dir", "workdir" -> path.

    Returns:
        List of (tokens, name of the task, `Plan`).
    """
    found = [
        (task, question.plan(question, amount, task, seeds, folders))
        for amount in (tokens if question.every_budget else tokens[:1])
        for task in question.tasks
    ]
    return [(plan.pretraining.amount, task, plan) for task, plan in found]


def speed_plans(folders, mixers=MIXERS):
    """Returns the plans of RQ3: only measurements, with about as many tokens in a batch at each length.

    Args:
        folders: as for `plans`.
        mixers: tuple of str, rows that are measured in turn: `MIXERS` or `OPERATORS`.

    Returns:
        List of (length, `Plan`), whose only cells are measurements.
    """
    return [
        (
            length,
            Plan(
                mixers=mixers,
                seeds=(),
                data=dataclasses.replace(_data(TEXT_TRIAL), length=length),
                tokenizer=TOKENIZER,
                size=SIZE,
                batch_size=SPEED_TOKENS // length,
                max_length=max(SPEED_LENGTHS),
                folders=folders,
            ),
        )
        for length in SPEED_LENGTHS
    ]


COMPUTED = tuple(kind for kind in KINDS if kind != "measure")  # speeds wait for an idle machine
