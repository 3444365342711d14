"""The fields of a config: what each means, which values it takes, and whether a resumed run may change it.

Their defaults are in `configs/common.py`. Names that have a table of their own (mixers, sizes, objectives,
tasks) are checked where the table is used; options are checked by their owners, which define them.
"""

from typing import NamedTuple

from convnlp.data import labels, rules
from convnlp.data.rules import Rule
from convnlp.training import optimizers, schedules

ALWAYS = "always"  # affects neither the weights nor what is known about them
ON_REQUEST = "on_request"  # affects only what follows the last checkpoint, and fits its state
NEVER = "never"


class Field(NamedTuple):
    """A field of a config.

    Attributes:
        help: str, its meaning. Lengths are in tokens and times in steps unless it says otherwise.
        rule: `Rule` of its values; None for the options of mixers, objectives and tasks.
        may_change: ALWAYS, ON_REQUEST or NEVER, in a run that is resumed.
    """

    help: str
    rule: Rule | None = None
    may_change: str = NEVER


_POSITIVE, _NATURAL = rules.integer(1), rules.integer(0)
_RATE = rules.number("[0, 1)")
_SIZES = Rule(
    "one integer >= 1, or one per layer",
    lambda value: isinstance(value, list | tuple) and bool(value) and all(map(_POSITIVE.holds, value)),
)


def _sequence(rule):
    """Returns the rule for a field that is empty or has one value per stage."""
    return Rule(
        f"empty, or a sequence whose every entry is {rule.text}",
        lambda value: isinstance(value, list | tuple) and all(map(rule.holds, value)),
    )


def _optional(rule):
    return Rule(f"None or {rule.text}", lambda value: value is None or rule.holds(value))


FIELDS = {
    "seed": Field("seed of all random numbers", _NATURAL),
    "tokenizer": Field("path of a SentencePiece model; empty takes init_from's", rules.STRING),
    "init_from": Field(
        "name or directory of a preset to start from; empty starts from random weights", rules.STRING
    ),
    "model.size": Field(
        "tiny, mini, small, base or large; the fields of model that are not None override it", rules.NAME
    ),
    "model.num_layers": Field("layers of the encoder; 0 for a decoder alone", _optional(_NATURAL)),
    "model.num_decoder_layers": Field(
        "layers of the decoder, also of one added to init_from's encoder; 0 for none", _optional(_NATURAL)
    ),
    "model.num_heads": Field(
        "attention heads, and kernels of a convolution with shared taps", _optional(_POSITIVE)
    ),
    "model.hidden_dim": Field("width of the model", _optional(_POSITIVE)),
    "model.intermediate_dim": Field("inner width of the feed-forward sublayers", _optional(_POSITIVE)),
    "model.mixer": Field("a mixer, a layout (docs/models.md), or a mixer per layer: a,b", rules.NAME),
    "model.encoder_mixer": Field("the same for the encoder alone", _optional(rules.STRING)),
    "model.decoder_mixer": Field("the same for the decoder alone", _optional(rules.STRING)),
    "model.kernel_size": Field("taps of the convolutions: one number, or one per encoder layer", _SIZES),
    "model.decoder_kernel_size": Field(
        "the decoder's: one number, or one per layer; () takes the encoder's first",
        Rule(
            "empty, one integer >= 1, or one per layer",
            lambda value: value in ((), []) or _SIZES.holds(value),
        ),
    ),
    "model.dilation_rate": Field(
        "tokens from one tap to the next: one number, or one per encoder layer", _SIZES
    ),
    "model.pool_size": Field(
        "positions merged into one before a layer: one number, or one per encoder layer", _SIZES
    ),
    "model.weight_softmax": Field(
        "whether taps are normalised; None takes the mixer's default", _optional(rules.BOOL)
    ),
    "model.mixer_options": Field("further options of the mixers, by name (docs/models.md)"),
    "model.residual_form": Field("pre, post, sublayer_output or affine", rules.NAME),
    "model.dropout": Field("share of units dropped in training", _RATE),
    "model.max_sequence_length": Field(
        "longest text, for mixers with weights per position; None takes the data's", _optional(_POSITIVE)
    ),
    "model.cross_attention_init": Field("independent; or tied, for small budgets", rules.NAME),
    "model.position_embedding": Field(
        "auto means sinusoidal if no mixer knows the order of tokens",
        rules.one_of(("auto", "none", "learned", "sinusoidal")),
    ),
    "data.source": Field(
        "data to train on: csv:GLOB, jsonl:GLOB, tfds:NAME, ... (docs/sources.md)", rules.NAME
    ),
    "data.data_dir": Field("directory of TFDS; empty for TFDS's own default", rules.STRING, ALWAYS),
    "data.split": Field("split of the source, optionally sliced: train[10%:]", rules.NAME),
    "data.validation_source": Field("empty takes data.source", rules.STRING),
    "data.validation_split": Field("in fine-tuning, empty holds out a part of data.split", rules.STRING),
    "data.test_source": Field("data scored once, at the end; empty for none", rules.STRING, ALWAYS),
    "data.test_split": Field("split of test_source", rules.NAME, ALWAYS),
    "data.input_length": Field(
        "longest input; longer texts are cut. None: 128 to 1,024, by the texts to train on",
        _optional(rules.integer(2)),
    ),
    "data.target_length": Field("longest target of text_to_text", rules.integer(2)),
    "data.shuffle_buffer": Field("rows that pre-training shuffles at a time", _NATURAL),
    "data.group_by_length": Field(
        "in fine-tuning, batches texts of similar length together, for fewer pads", rules.BOOL
    ),
    "objective.names": Field(
        "span_corruption, masked_lm, prefix_lm, unilm, or several of them",
        rules.sequence_of(rules.NAME, at_least=1),
    ),
    "objective.noise_density": Field("share of tokens that an objective hides", rules.number("(0, 1)")),
    "objective.mean_span_length": Field("tokens of a hidden span, on average", rules.number("[1, inf)")),
    "objective.freeze_encoder": Field(
        "trains only the decoder; encoder and embedding stay as in init_from", rules.BOOL
    ),
    "objective.options": Field("an objective's own options, by its name: masked_lm.weight"),
    "optimizer.name": Field(
        "adamw for small batches; adafactor as in the paper", rules.one_of(optimizers.OPTIMIZERS)
    ),
    "optimizer.schedule": Field(
        "how the learning rate changes", rules.one_of(schedules.SCHEDULES), ON_REQUEST
    ),
    "optimizer.learning_rate": Field(
        "the highest rate; for inverse_sqrt, a factor", rules.number("(0, inf)"), ON_REQUEST
    ),
    "optimizer.warmup_steps": Field(
        "steps during which the rate rises; in fine-tuning, 0 means a tenth of all", _NATURAL, ON_REQUEST
    ),
    "optimizer.decay_steps": Field(
        "last steps of warmup_flat_linear, during which the rate falls to 0", _NATURAL, ON_REQUEST
    ),
    "optimizer.weight_decay": Field(
        "decay of the weights, except biases, norms and embeddings", rules.number("[0, inf)"), ON_REQUEST
    ),
    "optimizer.clip_norm": Field(
        "largest norm of the gradient; 0 for no limit", rules.number("[0, inf)"), ON_REQUEST
    ),
    "optimizer.beta_2": Field(
        "how much of AdamW's mean of squared gradients each step keeps", _RATE, ON_REQUEST
    ),
    "optimizer.layer_decay": Field(
        "factor on the rate for each layer further down; 1 for none", rules.number("(0, 1]"), ON_REQUEST
    ),
    "optimizer.ema_momentum": Field(
        "momentum of a weight average, which is then evaluated and saved; 0 for none", _RATE
    ),
    "train.batch_size": Field("examples per step, over all replicas", _POSITIVE),
    "train.accumulate_steps": Field(
        "parts that each batch is split into, to save memory", _POSITIVE, ON_REQUEST
    ),
    "train.num_steps": Field(
        "length of the run; follows from the size of the data unless task.num_epochs is 0",
        _POSITIVE,
        ON_REQUEST,
    ),
    "train.stage_steps": Field(
        "steps of each stage, summing to num_steps; empty for one stage", _sequence(_POSITIVE), ON_REQUEST
    ),
    "train.stage_batch_sizes": Field("batch size of each stage; empty for batch_size", _sequence(_POSITIVE)),
    "train.stage_input_lengths": Field(
        "input length of each stage; empty for data.input_length", _sequence(rules.integer(2))
    ),
    "train.steps_per_call": Field("steps that run as one call, between two looks at the loss", _POSITIVE),
    "train.eval_every": Field("steps between two evaluations", _POSITIVE, ON_REQUEST),
    "train.eval_batches": Field("batches per evaluation in pre-training", _POSITIVE),
    "train.checkpoint_every": Field("steps between two checkpoints", _POSITIVE, ALWAYS),
    "train.keep_checkpoints": Field("how many of the newest checkpoints are kept", _POSITIVE, ALWAYS),
    "train.dtype": Field(
        "auto means mixed_bfloat16 if the machine is faster in it",
        rules.one_of(("auto", "float32", "mixed_bfloat16")),
    ),
    "train.deterministic": Field("whether equal runs give bit-identical results", rules.BOOL),
    "train.num_samples": Field("predictions shown at each evaluation", _NATURAL, ALWAYS),
    "task.kind": Field(
        "classification, multi_label, regression, question_answering, text_to_text or continuation",
        rules.NAME,
    ),
    "task.unlabelled_source": Field(
        "texts without labels: finetune first trains further on them by masked LM or, "
        "with teachers, learns from their answers; fit-head learns from its own answers; empty for none",
        rules.STRING,
    ),
    "task.text_field": Field("field that holds the text", rules.NAME),
    "task.second_text_field": Field(
        "field that holds the second text of a pair; empty for none", rules.STRING
    ),
    "task.label_field": Field("field that holds the label", rules.NAME),
    "task.label_names": Field(
        "names of the classes, if the data have none of their own",
        Rule(
            f"empty, or {labels.CLASS_NAMES.text}",
            lambda value: isinstance(value, list | tuple) and (not value or labels.CLASS_NAMES.holds(value)),
        ),
    ),
    "task.label_threshold": Field(
        "where the second class begins, if labels are numbers; None if they are classes",
        _optional(rules.number("(-inf, inf)")),
    ),
    "task.input_field": Field("field that holds the input of text_to_text", rules.NAME),
    "task.target_field": Field("field that holds the text that text_to_text learns to write", rules.NAME),
    "task.question_field": Field("field that holds the question of question_answering", rules.NAME),
    "task.context_field": Field("field that holds the text to find the answer in", rules.NAME),
    "task.answers_field": Field("field that holds the answer, or a list of acceptable answers", rules.NAME),
    "task.pack": Field("whether rows of text_to_text hold several examples", rules.BOOL),
    "task.num_epochs": Field(
        "None chooses by the size of the data; 0 takes train.num_steps",
        _optional(rules.number("[0, inf)")),
        ON_REQUEST,
    ),
    "task.pooling": Field(
        "how the encoder's output becomes one vector: mean_max, mean or max; layers, the means "
        "of all layers; attention or class_attention, which are learned; pair, which pools two texts apart; "
        "auto is pair for two texts in an encoder of limited range, and mean_max otherwise",
        rules.NAME,
    ),
    "task.head_dropout": Field("share of units dropped before the last layer", _RATE),
    "task.options": Field("further options of the task, by name (docs/finetuning.md)"),
}


def that_may_change(when):
    """Returns the names of the fields whose `may_change` is `when`."""
    return [name for name, field in FIELDS.items() if field.may_change == when]
