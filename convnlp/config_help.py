"""Explains each field of a config, as --help_config prints it."""

import textwrap

from convnlp import config_rules

# Lengths are in tokens and times in steps unless the text says otherwise.
FIELDS = {
    "seed": "seed of all random numbers",
    "tokenizer": "path of a SentencePiece model; empty takes init_from's",
    "init_from": "name or directory of a preset to start from; empty starts from random weights",
    "model.size": "tiny, mini, small, base or large; the fields of model that are not None override it",
    "model.num_layers": "layers of the encoder; 0 for a decoder alone",
    "model.num_decoder_layers": "layers of the decoder, also of one added to init_from's encoder; 0 for none",
    "model.num_heads": "attention heads, and kernels of a convolution with shared taps",
    "model.hidden_dim": "width of the model",
    "model.intermediate_dim": "inner width of the feed-forward sublayers",
    "model.mixer": "a mixer, a layout (docs/models.md), or a mixer per layer: a,b",
    "model.encoder_mixer": "the same for the encoder alone",
    "model.decoder_mixer": "the same for the decoder alone",
    "model.kernel_size": "taps of the convolutions: one number, or one per encoder layer",
    "model.decoder_kernel_size": "the decoder's: one number, or one per layer; () takes the encoder's first",
    "model.dilation_rate": "tokens from one tap to the next: one number, or one per encoder layer",
    "model.pool_size": "positions merged into one before a layer: one number, or one per encoder layer",
    "model.weight_softmax": "whether taps are normalised; None takes the mixer's default",
    "model.mixer_options": "further options of the mixers, by name (docs/models.md)",
    "model.residual_form": "pre, post, sublayer_output or affine",
    "model.dropout": "share of units dropped in training",
    "model.max_sequence_length": "longest text, for mixers with weights per position; None takes the data's",
    "model.cross_attention_init": "independent; or tied, for small budgets",
    "model.position_embedding": "auto means sinusoidal if no mixer knows the order of tokens",
    "data.source": "data to train on: csv:GLOB, jsonl:GLOB, tfds:NAME, ... (docs/training.md)",
    "data.data_dir": "directory of TFDS; empty for TFDS's own default",
    "data.split": "split of the source, optionally sliced: train[10%:]",
    "data.validation_source": "empty takes data.source",
    "data.validation_split": "in fine-tuning, empty holds out a part of data.split",
    "data.test_source": "data scored once, at the end; empty for none",
    "data.test_split": "split of test_source",
    "data.input_length": "longest input; longer texts are cut. None: 128 to 1,024, by the texts to train on",
    "data.target_length": "longest target of text_to_text",
    "data.shuffle_buffer": "rows that pre-training shuffles at a time",
    "data.group_by_length": "in fine-tuning, batches texts of similar length together, for fewer pads",
    "objective.names": "span_corruption, masked_lm, prefix_lm, unilm, or several of them",
    "objective.noise_density": "share of tokens that an objective hides",
    "objective.mean_span_length": "tokens of a hidden span, on average",
    "objective.freeze_encoder": "trains only the decoder; encoder and embedding stay as in init_from",
    "objective.options": "an objective's own options, by its name: masked_lm.weight",
    "optimizer.name": "adamw for small batches; adafactor as in the paper",
    "optimizer.schedule": "how the learning rate changes",
    "optimizer.learning_rate": "the highest rate; for inverse_sqrt, a factor",
    "optimizer.warmup_steps": "steps during which the rate rises; in fine-tuning, 0 means a tenth of all",
    "optimizer.decay_steps": "last steps of warmup_flat_linear, during which the rate falls to 0",
    "optimizer.weight_decay": "decay of the weights, except biases, norms and embeddings",
    "optimizer.clip_norm": "largest norm of the gradient; 0 for no limit",
    "optimizer.beta_2": "how much of AdamW's mean of squared gradients each step keeps",
    "optimizer.layer_decay": "factor on the rate for each layer further down; 1 for none",
    "optimizer.ema_momentum": "momentum of a weight average, which is then evaluated and saved; 0 for none",
    "train.batch_size": "examples per step, over all replicas",
    "train.accumulate_steps": "parts that each batch is split into, to save memory",
    "train.num_steps": "length of the run; follows from the size of the data unless task.num_epochs is 0",
    "train.stage_steps": "steps of each stage, summing to num_steps; empty for one stage",
    "train.stage_batch_sizes": "batch size of each stage; empty for batch_size",
    "train.stage_input_lengths": "input length of each stage; empty for data.input_length",
    "train.steps_per_call": "steps that run as one call, between two looks at the loss",
    "train.eval_every": "steps between two evaluations",
    "train.eval_batches": "batches per evaluation in pre-training",
    "train.checkpoint_every": "steps between two checkpoints",
    "train.keep_checkpoints": "how many of the newest checkpoints are kept",
    "train.dtype": "auto means mixed_bfloat16 if the machine computes in it",
    "train.deterministic": "whether equal runs give bit-identical results",
    "train.num_samples": "predictions shown at each evaluation",
    "task.kind": "classification, multi_label, regression, question_answering, text_to_text or continuation",
    "task.unlabelled_source": "texts without labels: finetune first trains further on them by masked LM or, "
    "with teachers, learns from their answers; fit-head learns from its own answers; empty for none",
    "task.text_field": "field that holds the text",
    "task.second_text_field": "field that holds the second text of a pair; empty for none",
    "task.label_field": "field that holds the label",
    "task.label_names": "names of the classes, if the data have none of their own",
    "task.label_threshold": "where the second class begins, if labels are numbers; None if they are classes",
    "task.input_field": "field that holds the input of text_to_text",
    "task.target_field": "field that holds the text that text_to_text learns to write",
    "task.question_field": "field that holds the question of question_answering",
    "task.context_field": "field that holds the text to find the answer in",
    "task.answers_field": "field that holds the answer, or a list of acceptable answers",
    "task.pack": "whether rows of text_to_text hold several examples",
    "task.num_epochs": "None chooses by the size of the data; 0 takes train.num_steps",
    "task.pooling": "how the encoder's output becomes one vector: mean_max, mean or max; layers, the means "
    "of all layers; attention or class_attention, which are learned; pair, which pools two texts apart; "
    "auto is pair for two texts in an encoder of limited range, and mean_max otherwise",
    "task.head_dropout": "share of units dropped before the last layer",
    "task.options": "further options of the task, by name (docs/training.md)",
}
_WIDTH, _COLUMN = 110, 46


def page(config, about=""):
    """Returns what --help_config prints.

    Args:
        config: ConfigDict.
        about: str, the text above the fields.

    Returns:
        str, a line or two for each field: its flag, value, meaning and rule.
    """
    lines = [about.strip(), "", "Every field is a flag; here with the values of this config:", ""]
    for path, text in FIELDS.items():
        value = config
        for name in path.split("."):
            value = value[name]
        value = value.to_dict() if hasattr(value, "to_dict") else value
        flag = f"--config.{path}={value}"
        rule = config_rules.RULES.get(path)
        text = f"{text}; {rule.text}" if rule and "string" not in rule.text else text
        indent = " " * _COLUMN
        wrapped = textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)
        lines += [flag, *wrapped] if len(flag) >= _COLUMN else [flag + wrapped[0][len(flag) :], *wrapped[1:]]
    return "\n".join(lines).lstrip("\n")
