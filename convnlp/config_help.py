"""What each field of a config means, as --help_config prints it."""

import textwrap

from convnlp import config_rules

# Lengths are in tokens, times in steps unless the text says otherwise.
FIELDS = {
    "seed": "seed of everything that is drawn at random",
    "tokenizer": "path of a SentencePiece model; empty takes the one of init_from",
    "init_from": "name or directory of a preset to start from; empty starts from random weights",
    "model.size": "tiny, mini, small, base or large; the fields of model that are not None override it",
    "model.num_layers": "layers of the encoder; 0 for a decoder alone",
    "model.num_decoder_layers": "layers of the decoder, which an encoder of init_from is given; 0 for none",
    "model.num_heads": "heads of attention, and kernels of a shared convolution",
    "model.hidden_dim": "width of the model",
    "model.intermediate_dim": "inner width of the feed-forward sublayers",
    "model.mixer": "a mixer, a layout (docs/models.md), or a mixer per layer: a,b",
    "model.encoder_mixer": "the same for the encoder alone",
    "model.decoder_mixer": "the same for the decoder alone",
    "model.kernel_size": "taps of the convolutions: one, or one per encoder layer",
    "model.decoder_kernel_size": "those of the decoder: one, or one per layer; () takes the encoder's first",
    "model.dilation_rate": "tokens from one tap to the next: one, or one per encoder layer",
    "model.pool_size": "positions that become one in front of a layer: one, or one per encoder layer",
    "model.weight_softmax": "whether taps are normalised; None as is usual for the mixer",
    "model.mixer_options": "further options of the mixers, by their names (docs/models.md)",
    "model.residual_form": "pre, post, sublayer_output or affine",
    "model.dropout": "share of units that are dropped in training",
    "model.max_sequence_length": "longest text of mixers with weights for each position; None for the data's",
    "model.cross_attention_init": "independent, or tied for small budgets",
    "model.position_embedding": "auto is sinusoidal where no mixer knows the order of tokens",
    "data.source": "what is trained on: csv:GLOB, jsonl:GLOB, tfds:NAME, ... (docs/training.md)",
    "data.data_dir": "directory of TFDS; empty for TFDS's own default",
    "data.split": "split of the source, which may be sliced: train[10%:]",
    "data.validation_source": "empty takes data.source",
    "data.validation_split": "in fine-tuning, empty holds a part of data.split out",
    "data.test_source": "scored once at the end; empty for none",
    "data.test_split": "split of test_source",
    "data.input_length": "longest input, longer texts are cut; None: by the texts fine-tuned on, 128 to 512",
    "data.target_length": "longest target of text_to_text",
    "data.shuffle_buffer": "rows of pre-training that are mixed",
    "data.group_by_length": "in fine-tuning, texts of about the same length side by side, for fewer pads",
    "objective.names": "span_corruption, masked_lm, prefix_lm, unilm, or several of them",
    "objective.noise_density": "share of tokens that an objective hides",
    "objective.mean_span_length": "tokens of a hidden span, on average",
    "objective.freeze_encoder": "train the decoder alone: encoder and embedding stay as in init_from",
    "objective.masked_lm_weight": "weight of masked_lm beside other objectives",
    "objective.options": "own options of an objective, by its name: masked_lm.noise_density",
    "optimizer.name": "adamw for small batches, adafactor as in the paper",
    "optimizer.schedule": "how the learning rate changes",
    "optimizer.learning_rate": "the highest one; of inverse_sqrt, a factor",
    "optimizer.warmup_steps": "steps in which the rate rises; 0 in fine-tuning for a tenth of all",
    "optimizer.decay_steps": "last steps of warmup_flat_linear, in which the rate falls to 0",
    "optimizer.weight_decay": "decay of weights, not of biases, norms and embeddings",
    "optimizer.clip_norm": "largest norm of a gradient; 0 for none",
    "optimizer.beta_2": "how much AdamW's mean of squared gradients keeps at each step",
    "optimizer.layer_decay": "factor on the rate for every layer further down; 1 for none",
    "optimizer.ema_momentum": "momentum of an average of the weights that is evaluated and saved; 0 for none",
    "train.batch_size": "examples per step, over all replicas",
    "train.accumulate_steps": "parts that a batch is cut into, to save memory",
    "train.num_steps": "length of the run; set from the size of the data where task.num_epochs is not 0",
    "train.stage_steps": "steps of each stage, which sum to num_steps; empty for one stage",
    "train.stage_batch_sizes": "batch size of each stage; empty for batch_size",
    "train.stage_input_lengths": "input length of each stage; empty for data.input_length",
    "train.steps_per_call": "steps that run as one, between two looks at the loss",
    "train.eval_every": "steps between two evaluations",
    "train.eval_batches": "batches of an evaluation of pre-training",
    "train.checkpoint_every": "steps between two checkpoints",
    "train.keep_checkpoints": "how many of the newest are kept",
    "train.dtype": "auto is mixed_bfloat16 where the machine computes in it",
    "train.deterministic": "whether equal runs give equal bits",
    "train.num_samples": "predictions shown at each evaluation",
    "task.kind": "classification, multi_label, regression, question_answering, text_to_text or continuation",
    "task.unlabelled_source": "texts on which masked LM goes on before fine-tuning; empty for none",
    "task.text_field": "field of the data that holds the text",
    "task.second_text_field": "field of the second text of a pair; empty for none",
    "task.label_field": "field of the data that holds the label",
    "task.label_names": "names of the classes, for data that have none of their own",
    "task.label_threshold": "where labels are numbers: the second class from here on; None: they are classes",
    "task.input_field": "field of the input of text_to_text",
    "task.target_field": "field of the text that text_to_text is to write",
    "task.question_field": "field of the question of question_answering",
    "task.context_field": "field of the text that it is answered from",
    "task.answers_field": "field of the answer, or of a list of those that are all right",
    "task.pack": "whether rows of text_to_text hold several examples",
    "task.num_epochs": "None goes by the size of the data; 0 takes train.num_steps",
    "task.pooling": "how the encoder's output becomes one vector: mean_max, mean, max; attention or "
    "class_attention, which are learned; pair: two texts apart",
    "task.head_dropout": "share of units that are dropped in front of the last layer",
    "task.options": "further options of the task, by their names (docs/training.md)",
}
_WIDTH, _COLUMN = 110, 46


def page(config, about=""):
    """What --help_config prints.

    Args:
        config: ConfigDict.
        about: str, what stands above the fields.

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
