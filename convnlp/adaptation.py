"""Continues masked language modelling on a user's own text before a preset is fine-tuned."""

import keras

from convnlp import pretrain, tasks
from convnlp.data import Source, fields, sources
from convnlp.runs import experiment
from convnlp.training import checkpoints, storage

FOLDER = "adapted"  # directory of this run, inside that of the fine-tuning
ROW_LENGTH = 128
NUM_STEPS = 1000
_FIELDS = {
    "data.split": "train[10%:]",
    "data.validation_source": "",
    "data.validation_split": "train[:10%]",
    "data.test_source": "",
    "objective.names": ("masked_lm",),
    "objective.noise_density": 0.25,
    "optimizer.name": "adamw",
    "optimizer.schedule": "warmup_linear",
    "optimizer.learning_rate": 5e-4,
    "optimizer.weight_decay": 0.1,
    "optimizer.layer_decay": 1.0,
    "optimizer.ema_momentum": 0.0,
    "optimizer.clip_norm": 1.0,
    "train.batch_size": 32,
    "train.accumulate_steps": 1,
    "train.stage_steps": (),
    "train.stage_batch_sizes": (),
    "train.stage_input_lengths": (),
    "train.steps_per_call": 10,  # which divides NUM_STEPS
    "train.num_samples": 0,
    "task.num_epochs": 0.0,
    "task.unlabelled_source": "",
}


def check(config, backbone):
    """Opens `task.unlabelled_source` and checks its rows before anything is trained, and the backbone.

    Raises:
        ValueError: if masked language modelling cannot train the backbone.
        SourceError: if the source is missing, has no field of texts or rows that cannot be used, or too few
            to hold some out.
    """
    if not backbone.num_layers or backbone.encoder.pool_factor > 1:
        raise ValueError(
            "`task.unlabelled_source` must be empty unless the model has an encoder with an output for every "
            f"token. Received: task.unlabelled_source={config.task.unlabelled_source}, a model with "
            f"num_layers={backbone.num_layers}, pool_size={backbone.pool_size}"
        )
    field = _text_field(config)
    for name in ("data.split", "data.validation_split"):
        source = Source(config.task.unlabelled_source, _FIELDS[name], config.data.data_dir)
        sources.check(source, (field,))


def _text_field(config):
    """Returns the field to read: that of one of the task's texts if it is there, else the obvious one."""
    source = Source(config.task.unlabelled_source, data_dir=config.data.data_dir)
    roles = tasks.task_named(config.task.kind).text_roles
    return fields.text(source, *filter(None, map(config.task.get, roles)))


def run(config, workdir, strategy, longest_text=None, finish=False, resume_with_changes=False):
    """Trains `init_from` further by masked LM on `task.unlabelled_source`.

    This is a separate run in WORKDIR/adapted: 1,000 steps of 32 rows, 128 tokens each. It continues where it
    was stopped, and is done only once. What follows draws the same random numbers in either case.

    Args:
        config: the experiment of the fine-tuning.
        workdir: its directory, in which `experiment.prepare` has written config.json.
        strategy: `tf.distribute.Strategy`.
        longest_text: int, the most tokens that the encoder takes, or None.
        finish: bool. Whether only the preset of a run that is done will do. Defaults to False.
        resume_with_changes: bool, see `experiment.prepare`. Defaults to False.

    Returns:
        str, the directory of the new preset.

    Raises:
        ValueError: if there is no preset and `finish` is set: what follows has not begun then. Also if the
            directory holds such a run with a different config, such as other texts.
    """
    folder = storage.join(workdir, FOLDER)
    preset = storage.join(folder, "preset")
    is_done = storage.gfile.exists(storage.join(preset, "config.json"))
    if is_done and checkpoints.steps(workdir):  # with which `config` has been compared
        return preset
    if finish:
        raise ValueError(
            f"`finish` needs a run with a checkpoint. Received: finish=True, and no preset yet in {folder}"
        )
    own = config.copy_and_resolve_references()
    steps = dict.fromkeys(("num_steps", "eval_every", "checkpoint_every"), NUM_STEPS)
    own.update_from_flattened_dict(
        {
            **_FIELDS,
            "data.source": config.task.unlabelled_source,
            "task.text_field": _text_field(config),
            "data.input_length": min(ROW_LENGTH, longest_text or ROW_LENGTH),
            "optimizer.warmup_steps": NUM_STEPS // 10,
            **{f"train.{name}": value for name, value in steps.items()},
        }
    )
    name = storage.read_json(storage.join(workdir, "config.json"))["strategy"]["name"]
    experiment.prepare(own, folder, name, strategy=strategy, resume_with_changes=resume_with_changes)
    if is_done:
        experiment.finish(folder)
    else:
        with experiment.undone_on_error(folder):
            pretrain.run(own, folder, strategy)
    keras.utils.set_random_seed(config.seed)  # the head is drawn next, whether or not this took steps
    return preset
