"""The configs of a comparison's runs: identical for every mixer, apart from the mixer itself."""

from benchmarks.comparison.variants import Variant
from convnlp.configs import finetune_classification, pretrain_encoder
from convnlp.models import SIZES
from convnlp.objectives import span_corruption

STEPS_PER_CALL = 10
MASKED_SHARE = 0.25  # of the tokens; each is predicted over the whole vocabulary in pre-training
_WARMUP_SHARE = 0.08  # of the steps, as in `configs/pretrain_encoder.py`


def pretrain_config(plan, mixer, learning_rate):
    """Returns `configs/pretrain_encoder.py` with the masking rate that docs/recipes.md found best.

    With span corruption the model also has a decoder, as deep as its size prescribes, and the share of
    tokens removed is T5's.

    Args:
        plan: `benchmarks.comparison.plan.Plan` with a `pretraining`.
        mixer: str, a row.
        learning_rate: float.
    """
    variant, pretraining = Variant.parse(mixer), plan.pretraining
    config = pretrain_encoder.get_config(variant.mixer)
    config.seed = 0
    config.tokenizer = plan.path(plan.tokenizer)
    _set_model(config.model, plan, mixer)
    config.objective.names = (variant.objective,)
    if variant.objective == "masked_lm":
        config.objective.noise_density = MASKED_SHARE
    else:
        config.objective.noise_density = span_corruption.NOISE_DENSITY
        config.model.num_decoder_layers = SIZES[plan.size]["num_decoder_layers"]
    config.data.source = plan.path(pretraining.source)
    if pretraining.splits:
        config.data.split, config.data.validation_split = pretraining.splits
    config.data.input_length = pretraining.length
    config.optimizer.learning_rate = learning_rate
    config.train.batch_size = pretraining.batch_size
    return config


def finetune_config(plan, mixer, data, learning_rate, seed=0, preset=""):
    """Returns `configs/finetune_classification.py` with the model of `pretrain_config`.

    All batches have length `data.length`, because not every mixer can shorten them.

    Args:
        plan: `benchmarks.comparison.plan.Plan`.
        mixer: str, a row.
        data: `benchmarks.comparison.tasks.Data`.
        learning_rate: float.
        seed: int. Defaults to 0.
        preset: str, the preset to start from. Defaults to "": random weights.
    """
    variant = Variant.parse(mixer)
    config = finetune_classification.get_config(variant.mixer)
    config.seed = seed
    config.init_from = preset
    config.tokenizer = plan.path(plan.tokenizer)
    _set_model(config.model, plan, mixer, with_options=not preset)  # a preset brings its own
    config.data.source = plan.path(data.source)
    config.data.validation_source = plan.path(data.validation_source)
    config.data.test_source = plan.path(data.test_source)
    for name in ("split", "validation_split", "test_split"):
        config.data[name] = getattr(data, name)
    config.data.input_length = data.length
    config.data.group_by_length = False
    config.task.num_epochs = 0.0
    data.task_kind.set_task(config, plan, data, variant.fields.get("task", {}))
    config.optimizer.learning_rate = learning_rate
    config.train.batch_size = plan.batch_size
    return config


def _set_model(model, plan, mixer, with_options=True):
    """Sets the size and the mixer; of too many kernel sizes, it keeps those of the middle layers."""
    model.size = plan.size
    variant = Variant.parse(mixer)
    model.mixer = variant.mixer.replace("+", ",")
    if with_options:
        model.mixer_options.update(variant.options)
    model.num_decoder_layers = 0
    model.max_sequence_length = plan.longest
    num_layers = SIZES[plan.size]["num_layers"]
    for name in ("kernel_size", "dilation_rate"):
        if len(model[name]) > 1:
            first = (len(model[name]) - num_layers) // 2
            model[name] = model[name][first : first + num_layers]
    for name, value in variant.fields.get("model", {}).items():
        if isinstance(model[name], tuple):  # an entry per layer, or one for all
            value = tuple(value) if isinstance(value, list) else (value,)
        model[name] = value


def set_steps(config, num_steps, evaluations):
    """Sets the length of a run, and how often it is evaluated and writes a checkpoint."""
    every = max(1, num_steps // evaluations // STEPS_PER_CALL) * STEPS_PER_CALL
    config.train.num_steps = num_steps
    config.train.steps_per_call = STEPS_PER_CALL
    config.train.eval_every = config.train.checkpoint_every = every
    config.train.keep_checkpoints = 1


def set_warmup(config):
    """Sets the warm-up of a pre-training as a share of its steps."""
    config.optimizer.warmup_steps = max(1, round(_WARMUP_SHARE * config.train.num_steps))
