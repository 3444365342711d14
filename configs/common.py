"""All fields of an experiment and their defaults; every other config starts from these.

`convnlp/runs/config_fields.py` explains each of them, and --help_config prints it. A field that is not here
does not exist: setting an unknown field raises an error, on the command line and in a file.
"""

import collections.abc

import ml_collections

# The types of fields that may also be None, by the type of their other values. Flags have parsers for them.
OR_NONE = {kind: type(f"{kind.__name__}_or_none", (), {}) for kind in (bool, int, float, str)}
ENCODER_ONLY_MIXERS = (
    "fourier",
    "mlp_mixer",
    "feed_forward_stack",
    "outlook_attention",
    "external_attention",
    "mb_conv",
    "latent_attention",
    "linformer",
    "matrix_decomposition",
)


class OpenConfig(ml_collections.ConfigDict):
    """Fields that this file does not know: the options of mixers, objectives and tasks, including yours.

    It takes any name, even while the config around it is locked: `--config.model.mixer_options.NAME=VALUE`
    adds an option, and `--config.model.mixer_options.MIXER.NAME=VALUE` adds one for that mixer alone. Names
    and values are checked by their owner when a run starts (`convnlp.layers.mixer_options`,
    `convnlp.options`).
    """

    def lock(self):
        """Stays open."""
        return self

    def get_type(self, key):
        """Returns the type of a field's value; any literal for a new one, which the flag parser asks for."""
        if key not in self:
            self[key] = None
        return object if self[key] is None else super().get_type(key)

    def __setitem__(self, key, value):
        super().__setitem__(key, _opened(value))

    def __getitem__(self, key):
        if key not in self:  # only a path on the command line asks for what is not there
            self[key] = OpenConfig()
        return super().__getitem__(key)

    def __getattr__(self, name):
        if name not in self:
            raise AttributeError(f"there is no option {name}")
        return super().__getitem__(name)

    def get(self, key, default=None):
        """Returns the value of a field, or `default` if there is none."""
        if key not in self:
            return default
        return self[key]


class Section(ml_collections.ConfigDict):
    """Fields of a part of a config; one that is open takes a dict and stays open."""

    def __setitem__(self, key, value):
        super().__setitem__(key, _opened(value) if isinstance(self.get(key), OpenConfig) else value)

    def get_type(self, key):
        """Returns the type of a field's value; that of `OR_NONE` for a placeholder, which may be None."""
        kind = super().get_type(key)
        field = dict(self.items(preserve_field_references=True))[key]
        return OR_NONE.get(kind, kind) if isinstance(field, ml_collections.FieldReference) else kind


def _opened(value):
    """Returns a mapping as an `OpenConfig`, and any other value as it is."""
    if isinstance(value, OpenConfig):
        return value
    value = value.to_dict() if isinstance(value, ml_collections.ConfigDict) else value
    return OpenConfig(value) if isinstance(value, collections.abc.Mapping) else value


def get_config():
    """Returns the default experiment: the paper's recipe at size base, with dynamic convolutions."""
    config = ml_collections.ConfigDict()
    config.seed = 0
    config.tokenizer = ""
    config.init_from = ""

    config.model = model = Section()
    model.size = "base"
    model.num_layers = ml_collections.config_dict.placeholder(int)
    model.num_decoder_layers = ml_collections.config_dict.placeholder(int)
    model.num_heads = ml_collections.config_dict.placeholder(int)
    model.hidden_dim = ml_collections.config_dict.placeholder(int)
    model.intermediate_dim = ml_collections.config_dict.placeholder(int)
    model.mixer = "dynamic_conv"
    model.encoder_mixer = ml_collections.config_dict.placeholder(str)
    model.decoder_mixer = ml_collections.config_dict.placeholder(str)
    model.kernel_size = (7,)
    model.decoder_kernel_size = ()
    model.dilation_rate = (1,)
    model.pool_size = (1,)
    model.weight_softmax = ml_collections.config_dict.placeholder(bool)
    model.mixer_options = OpenConfig()
    model.residual_form = "pre"
    model.dropout = 0.1
    model.max_sequence_length = ml_collections.config_dict.placeholder(int)
    model.cross_attention_init = "independent"
    model.position_embedding = "auto"

    config.data = data = Section()
    data.source = "tfds:c4/en"
    data.data_dir = ""
    data.split = "train"
    data.validation_source = ""
    data.validation_split = "validation"
    data.test_source = ""
    data.test_split = "test"
    data.input_length = ml_collections.config_dict.placeholder(int)
    data.input_length = 512
    data.target_length = 128
    data.shuffle_buffer = 8192
    data.group_by_length = False

    config.objective = objective = Section()
    objective.names = ("span_corruption",)
    objective.noise_density = 0.15
    objective.mean_span_length = 3.0
    objective.freeze_encoder = False
    objective.options = OpenConfig()

    config.optimizer = optimizer = Section()
    optimizer.name = "adafactor"
    optimizer.schedule = "inverse_sqrt"
    optimizer.learning_rate = 1.0
    optimizer.warmup_steps = 10_000
    optimizer.decay_steps = 0
    optimizer.weight_decay = 0.0
    optimizer.clip_norm = 0.0
    optimizer.beta_2 = 0.98
    optimizer.layer_decay = 1.0
    optimizer.ema_momentum = 0.0

    config.train = train = Section()
    train.batch_size = 128
    train.accumulate_steps = 1
    train.num_steps = 2**19
    train.stage_steps = ()
    train.stage_batch_sizes = ()
    train.stage_input_lengths = ()
    train.steps_per_call = 128
    train.eval_every = 10_240
    train.eval_batches = 20
    train.checkpoint_every = 5_120
    train.keep_checkpoints = 3
    train.dtype = "auto"
    train.deterministic = True
    train.num_samples = 2

    config.task = task = Section()
    task.kind = "classification"
    task.unlabelled_source = ""
    task.text_field = "text"
    task.second_text_field = ""
    task.label_field = "label"
    task.label_names = ()
    task.label_threshold = ml_collections.config_dict.placeholder(float)
    task.input_field = "inputs"
    task.target_field = "targets"
    task.question_field = "question"
    task.context_field = "context"
    task.answers_field = "answers"
    task.pack = False
    task.num_epochs = ml_collections.config_dict.placeholder(float)
    task.num_epochs = 0.0
    task.pooling = "auto"
    task.head_dropout = 0.3
    task.options = OpenConfig()
    return config


def set_mixer(config, mixer):
    """Pre-trains with this mixer; if it cannot decode, trains an encoder alone, by masked LM alone."""
    config.model.mixer = mixer
    if mixer in ENCODER_ONLY_MIXERS:
        config.model.num_decoder_layers = 0
        config.objective.names = ("masked_lm",)


def set_kernels(config, mixer):
    """Four layers that see further and further; in full convolutions, with 2 K D^2 weights, by dilation."""
    config.model.kernel_size = (3, 7, 15, 31)
    if mixer == "dilated_conv":
        config.model.kernel_size = (7,)
        config.model.dilation_rate = (1, 2, 4, 8)
    if mixer in ("gated_dilated_conv", "conv_s2s"):
        config.model.kernel_size = (3,)
        config.model.dilation_rate = (1, 2, 5, 1)  # conv_s2s has none
