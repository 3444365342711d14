"""What all models that take texts share, beyond what keras_nlp gives them."""

import keras

from convnlp.models import arrays, given_data, lora, recipe
from convnlp.models.checked_preset import ModelPreset


class RecipeModel(ModelPreset):
    """Trains by the project's recipe, and has presets with sums.

    Comes before a keras_nlp class among the bases of a model.
    """

    example = 'model.predict(["a text"])'
    head_size_argument = None  # the constructor's argument for the size of the head, if it has one
    head_arguments = ()  # arguments of the constructor that the weights of a head are trained for
    needs_targets = True  # whether `fit` needs a `y`; a language model makes it from the texts
    _gives_logits = False  # whether losses and metrics must not take its outputs for probabilities
    _has_classes = False  # whether each example has one class, which `class_weight` can weigh
    _uses_recipe = False
    _peak = None  # of the learning rate, while the recipe's schedule changes it
    _knows_lora = False  # whether graphs are made since the backbone has LoRA

    def _prepare(self, compile):
        """Does the last part of a constructor."""
        self.supports_jit = False  # XLA's depthwise convolution on CPU is slower than no XLA
        if compile:
            self.compile()

    def compile(self, optimizer="auto", loss="auto", **kwargs):
        """As in keras_nlp, except for the optimizer "auto".

        Args:
            optimizer: "auto" is the recipe of configs/finetune_classification.py: AdamW with a rate that
                rises to 5e-4 over the first tenth of the steps of `fit` and falls to 0, weight decay 0.01 and
                gradients clipped to norm 1.
            loss: as in keras_nlp.
            **kwargs: as in keras_nlp.

        Raises:
            ValueError: if the outputs are logits, and the loss or a metric takes them for probabilities, as
                cross-entropies by name do.
        """
        if self._gives_logits:
            recipe.check_loss(loss)
            recipe.check_metrics([kwargs.get("metrics"), kwargs.get("weighted_metrics")])
        self._uses_recipe = isinstance(optimizer, str) and optimizer == "auto"
        optimizer = recipe.optimizer(self) if self._uses_recipe else optimizer
        super().compile(optimizer=optimizer, loss=loss, **kwargs)

    def fit(
        self,
        x=None,
        y=None,
        batch_size=None,
        sample_weight=None,
        validation_data=None,
        validation_split=None,
        **kwargs,
    ):
        """As in keras_nlp, and shuffled; `validation_split` takes lists too, and all data columns of pandas.

        Lists, arrays and columns are read in another order in each epoch unless `shuffle` is False. Of a
        data set, the order is its own.

        Raises:
            ValueError: if there is no example, a text or `y` is missing, columns have unequal lengths,
                `batch_size` is less than 1, the split is outside [0, 1), `class_weight` is given to a model
                without classes, or variables became trainable after an earlier `fit`, such as those of LoRA,
                and `compile` was not called since.
        """
        given_data.check_batch_size(batch_size)
        self._check_class_weight(kwargs.get("class_weight"))
        x, y, sample_weight = _of_tables(x, y, sample_weight)
        self._check_form(x)
        given_data.check_held_out(self, validation_data)
        if isinstance(validation_data, tuple | list):
            validation_data = _of_tables(*validation_data)
            self._check_form(*validation_data[:1], name="validation_data")
            given_data.check(self, *validation_data, needs_y=self.needs_targets, name="validation_data")
            if len(validation_data) > 1:
                held_out_x, held_out_y, *weight = validation_data
                validation_data = (held_out_x, self._targets(held_out_x, held_out_y), *weight)
        given_data.check(self, x, y, sample_weight, self.needs_targets)
        y = self._targets(x, y)
        arrays.check_validation_split(validation_split)
        if arrays.are_columns(x):
            if validation_split and validation_data is None:
                (x, y, sample_weight), validation_data = arrays.split((x, y, sample_weight), validation_split)
            if isinstance(validation_data, tuple | list):
                held_out = keras.utils.unpack_x_y_sample_weight(tuple(validation_data))
                validation_data = arrays.batches(*held_out, batch_size, is_shuffled=False)
            x = arrays.batches(x, y, sample_weight, batch_size, kwargs.pop("shuffle", True))
            y = sample_weight = batch_size = validation_split = None
            kwargs["shuffle"] = False  # the data set is
        first_epoch = kwargs.get("initial_epoch", 0)
        with recipe.schedule(self, kwargs.pop("callbacks", None), first_epoch) as callbacks:
            return super().fit(
                x=x,
                y=y,
                batch_size=batch_size,
                sample_weight=sample_weight,
                validation_data=validation_data,
                validation_split=validation_split,
                callbacks=callbacks,
                **kwargs,
            )

    def evaluate(self, x=None, y=None, batch_size=None, sample_weight=None, **kwargs):
        """As in keras_nlp. Raises the errors of `fit`."""
        if "_use_cached_eval_dataset" not in kwargs:  # with which `fit` passes what it has preprocessed
            given_data.check_batch_size(batch_size)
            x, y, sample_weight = _of_tables(x, y, sample_weight)
            self._check_form(x)
            given_data.check(self, x, y, sample_weight, self.needs_targets)
            y = self._targets(x, y)
        return super().evaluate(x=x, y=y, batch_size=batch_size, sample_weight=sample_weight, **kwargs)

    def make_train_function(self, force=False):
        """As in Keras, but anew once LoRA is enabled.

        Raises:
            ValueError: if a variable became trainable after the optimizer was built.
        """
        recipe.check_optimizer(self)
        self._drop_graphs_without_lora()
        super().make_train_function(force)

    def make_test_function(self, force=False):
        """As in Keras, but anew once LoRA is enabled."""
        self._drop_graphs_without_lora()
        super().make_test_function(force)

    def make_predict_function(self, force=False):
        """As in Keras, but anew once LoRA is enabled."""
        self._drop_graphs_without_lora()
        return super().make_predict_function(force)

    def _drop_graphs_without_lora(self):
        """Drops all graphs if LoRA was enabled after they were traced: they would not use its updates."""
        if lora.is_enabled(self.backbone) and not self._knows_lora:
            self._knows_lora = True
            self._drop_graphs()

    def _drop_graphs(self):
        """Drops what is traced once and then kept."""
        self.train_function = self.test_function = self.predict_function = None

    def get_compile_config(self):
        """As in Keras; the optimizer's part also says whether it is the recipe's, and whether it is built.

        The plain Keras model that `keras.models.clone_model` makes ignores it there.
        """
        config = super().get_compile_config()
        if not config or self.optimizer is None:
            return config
        optimizer = config["optimizer"]
        if isinstance(optimizer, str):
            optimizer = keras.optimizers.serialize(self.optimizer)
        facts = {"uses_recipe": self._uses_recipe, "is_built": self.optimizer.built}
        return {**config, "optimizer": {**optimizer, **facts}}

    def compile_from_config(self, config):
        """As in Keras, which calls it when it loads a file; so the loaded model can be trained on."""
        config = dict(config)
        facts = config["optimizer"] if isinstance(config["optimizer"], dict) else {}
        sampler = {"sampler": config.pop("sampler")} if "sampler" in config else {}
        config = keras.saving.deserialize_keras_object(config)
        # Of the recipe's optimizer, the configuration does not say which variables have no weight decay.
        self.compile(**config | ({"optimizer": "auto"} if facts.get("uses_recipe") else {}), **sampler)
        # If it was not built, the file has no state of it. Files of 0.1.0 do not say.
        if self.optimizer is not None and facts.get("is_built", True):
            self.optimizer.build(self.trainable_variables)

    def _check_class_weight(self, class_weight):
        """Raises ValueError if Keras would weigh by something that is no class."""
        if class_weight is not None and not self._has_classes:
            raise ValueError(
                f"`class_weight` must be None for a {type(self).__name__}, whose examples do not have one "
                f"class each; give `sample_weight`. Received: class_weight={class_weight!r:.100}"
            )

    def _targets(self, x, y):
        """Returns the targets of `x` as the model's loss takes them; by default, unchanged.

        Raises:
            ValueError: if the loss cannot use them.
        """
        return y

    def _check_form(self, x=None, name="x"):
        """Raises ValueError if the preprocessor cannot take x; here, every form passes."""

    def save(self, filepath, *args, **kwargs):
        """As in Keras, except that HDF5 is refused: Keras could not load the model from it again.

        During `fit`, the learning rate in the file is the recipe's peak, see `recipe.at_peak`.
        """
        if str(filepath).lower().endswith((".h5", ".hdf5")):
            raise ValueError(
                f"`filepath` must end in .keras; or call save_to_preset(DIR). Received: filepath={filepath}"
            )
        with recipe.at_peak(self):
            super().save(filepath, *args, **kwargs)

    def save_weights(self, *args, **kwargs):
        """As in Keras; during `fit`, with the recipe's peak rate, as in `save`."""
        with recipe.at_peak(self):
            super().save_weights(*args, **kwargs)


def _of_tables(*data):
    """Returns x, y and more data of `fit` with columns and tables as arrays or lists."""
    return tuple((arrays.of_targets if i == 1 else arrays.of_tables)(part) for i, part in enumerate(data))
