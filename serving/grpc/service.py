"""The gRPC interface: TF Serving's PredictionService and ModelService, with the models and runner of REST."""

import logging
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
from tensorflow_serving.apis import (
    classification_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from convnlp.serving.core import inference, messages
from convnlp.serving.core.config_files import model_configs
from convnlp.serving.core.errors import ServingError, invalid_argument
from convnlp.serving.core.limits import Limits
from convnlp.serving.core.metrics import microseconds
from convnlp.serving.grpc.calls import Careful, fail, wait

_LARGEST_MESSAGE = 2**31 - 1  # in bytes; neither gRPC nor protobuf knows larger ones
_log = logging.getLogger("serving")


def build_grpc_server(
    manager,
    runner,
    metrics,
    limits=None,
    num_threads=16,
    reload=None,
    shares_port=False,
):
    """Builds the gRPC server; the caller binds its port and starts it.

    Args:
        manager: `ModelManager`. The models.
        runner: `Runner` or `Batcher`. Runs the models.
        metrics: `Metrics`. Counts requests.
        limits: `Limits`.
        num_threads: int. How many requests are handled at the same time.
        reload: Callable. Called with a new configuration. Default: `manager.reload`.
        shares_port: bool. Whether other processes listen on its port too.

    Returns:
        grpc.Server.
    """
    limits = limits or Limits()
    server = grpc.server(
        ThreadPoolExecutor(num_threads, "grpc"),
        maximum_concurrent_rpcs=limits.concurrent_requests,
        options=[
            ("grpc.max_receive_message_length", min(limits.body_bytes, _LARGEST_MESSAGE)),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", int(shares_port)),
        ],
    )
    careful = Careful(server)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(manager, runner, metrics, limits), careful
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(ModelService(manager, reload), careful)
    return server


class _Service:
    """Turns exceptions into the status of a call."""

    def _guarded(self, context, answer, count=lambda code: None):
        """Returns the result of `answer`; an exception ends the call with its status.

        Args:
            context: grpc.ServicerContext.
            answer: Callable without arguments.
            count: Callable. Called with the status code before the call ends.
        """
        try:
            response = answer()
        except ServingError as error:
            failure = error
        except (UnicodeDecodeError, ValueError, TypeError) as error:
            failure = invalid_argument(str(error))
        except Exception:
            _log.exception("gRPC")
            failure = ServingError("INTERNAL", "Internal error, see the server's log")
        else:
            count("OK")
            return response
        count(failure.code)
        return fail(context, failure)


class PredictionService(_Service, prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predictions; see `build_grpc_server` for the arguments."""

    def __init__(self, manager, runner, metrics, limits):
        self._manager = manager
        self._runner = runner
        self._metrics = metrics
        self._limits = limits

    def Predict(self, request, context):
        """Answers a PredictRequest."""

        def write(servable, outputs):
            response = predict_pb2.PredictResponse(
                model_spec=messages.model_spec(servable, request.model_spec.signature_name)
            )
            for name, array in outputs.items():
                response.outputs[name].CopyFrom(messages.tensor_proto(array))
            return response

        def read(servable):
            return messages.predict(servable, request, self._limits)

        return self._answer("Predict", request.model_spec, context, read, write)

    def Classify(self, request, context):
        """Answers a ClassificationRequest."""

        def read(servable):
            return messages.by_examples(servable, request, self._limits, inference.classify)

        def write(servable, results):
            return classification_pb2.ClassificationResponse(
                model_spec=messages.model_spec(servable, request.model_spec.signature_name),
                result=messages.classification_result(results),
            )

        return self._answer("Classify", request.model_spec, context, read, write)

    def Regress(self, request, context):
        """Answers a RegressionRequest."""

        def read(servable):
            return messages.by_examples(servable, request, self._limits, inference.regress)

        def write(servable, values):
            return regression_pb2.RegressionResponse(
                model_spec=messages.model_spec(servable, request.model_spec.signature_name),
                result=messages.regression_result(values),
            )

        return self._answer("Regress", request.model_spec, context, read, write)

    def MultiInference(self, request, context):
        """Answers a MultiInferenceRequest: several Classify and Regress requests about the same examples."""
        names = {task.model_spec.name for task in request.tasks}
        spec = request.tasks[0].model_spec if request.tasks else None

        def read(servable):
            if len(names) > 1:
                raise invalid_argument(
                    "All ModelSpecs in a MultiInferenceRequest must access the same model name."
                )
            return messages.multi_inference(servable, request, self._limits)

        def write(servable, results):
            response = inference_pb2.MultiInferenceResponse()
            for task, result in zip(request.tasks, results, strict=True):
                answer = response.results.add(
                    model_spec=messages.model_spec(servable, task.model_spec.signature_name)
                )
                if task.method_name == inference.CLASSIFY_METHOD:
                    answer.classification_result.CopyFrom(messages.classification_result(result))
                else:
                    answer.regression_result.CopyFrom(messages.regression_result(result))
            return response

        return self._answer("MultiInference", spec, context, read, write)

    def GetModelMetadata(self, request, context):
        """Answers a GetModelMetadataRequest."""

        def answer():
            if not request.HasField("model_spec"):
                raise invalid_argument("Missing ModelSpec")
            if not request.metadata_field:
                raise invalid_argument("GetModelMetadataRequest must specify at least one metadata_field")
            for name in request.metadata_field:
                if name != "signature_def":
                    raise invalid_argument(f"Metadata field {name} is not supported")
            servable = self._acquire(request.model_spec)
            try:
                return messages.model_metadata(servable)
            finally:
                self._manager.release(servable)

        return self._guarded(context, answer)

    def _answer(self, method, spec, context, read, write):
        started = time.monotonic()

        def count(code):
            name = spec.name if spec and spec.name in self._manager.names() else ""
            self._metrics.request_count.add(name, code)
            if code == "OK":
                self._metrics.request_latency.observe(microseconds(started), name, method, "GRPC")

        return self._guarded(context, lambda: self._run(method, spec, context, read, write), count)

    def _run(self, method, spec, context, read, write):
        servable = self._acquire(spec)
        try:
            computation = read(servable)
            self._limits.check_texts(computation.feeds)
            started = time.monotonic()
            future = self._runner.submit(servable, computation.feeds, computation.fetches)
            values = wait(future, context, self._limits.timeout_ms / 1000 or None)
            self._metrics.runtime_latency.observe(microseconds(started), servable.name, method, "TF1")
            if method != "Predict":
                examples = len(next(iter(computation.feeds.values())))
                self._metrics.example_counts.observe(examples, servable.name)
                self._metrics.example_total.add(servable.name, by=examples)
            return write(servable, computation.finish(values))
        finally:
            self._manager.release(servable)

    def _acquire(self, spec):
        if spec is None:
            raise invalid_argument("Missing ModelSpec")
        if not spec.name:
            raise invalid_argument("ModelSpec has no name specified.")
        choice = spec.WhichOneof("version_choice")
        return self._manager.acquire(
            spec.name,
            spec.version.value if choice == "version" else None,
            spec.version_label if choice == "version_label" else None,
        )


class ModelService(_Service, model_service_pb2_grpc.ModelServiceServicer):
    """The states of models, and changes of the configuration; see `build_grpc_server` for the arguments."""

    def __init__(self, manager, reload=None):
        self._manager = manager
        self._reload = reload or manager.reload

    def GetModelStatus(self, request, context):
        """Answers a GetModelStatusRequest."""

        def answer():
            if not request.HasField("model_spec"):
                raise invalid_argument("Missing ModelSpec")
            spec = request.model_spec
            version = spec.version.value if spec.HasField("version") else None
            return messages.model_status(self._manager.status(spec.name, version))

        return self._guarded(context, answer)

    def HandleReloadConfigRequest(self, request, context):
        """Serves the models of a new configuration; answers when they are loaded."""

        def answer():
            if request.config.WhichOneof("config") != "model_config_list":
                raise invalid_argument(
                    "ServerModelConfig type not supported by HandleReloadConfigRequest."
                    " Only ModelConfigList is currently supported"
                )
            self._reload(model_configs(request.config.model_config_list.config))
            return model_management_pb2.ReloadConfigResponse()

        return self._guarded(context, answer)
