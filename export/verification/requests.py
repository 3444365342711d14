"""Requests to every signature of an exported model, for the warm-up of a server and for the checks."""

import tensorflow as tf

BATCH_SIZES = (1, 2, 5)  # one, few, and several texts of unequal lengths

_TEXTS = (
    "A quiet film about an old bridge, and a wonderful one.",
    "No.",
    "",  # nothing but the end token
    "Grüße aus Köln 🙂 \u4f60\u597d",  # pieces that a vocabulary may lack
    "the captain repairs the broken clock behind the station " * 100,  # longer than any sequence length
)


def texts(batch_size):
    """Returns `batch_size` <= 5 strings: short and long, empty and in foreign scripts."""
    return list(_TEXTS[:batch_size])


def request(servable, name, batch_size):
    """Returns the inputs of one request.

    Args:
        servable: a `Servable`.
        name: str. One of its signatures.
        batch_size: int in 1..5.

    Returns:
        dict, input name -> NumPy array.

    Raises:
        ValueError: if the task does not give a value for an input.
    """
    values = servable.request(name, texts(batch_size))
    inputs = [spec.name for spec in servable.signatures[name].input_signature]
    if missing := sorted(set(inputs) - set(values)):
        raise ValueError(
            f"`request` of the task's answers must give every input of signature {name!r}, including "
            f"{', '.join(missing)}. Received: {', '.join(values)}"
        )
    return {key: values[key] for key in inputs}


def of_servable(servable):
    """Returns (signature, inputs) of a check: all signatures at all batch sizes, and ids of odd lengths."""
    asked = []
    for name in servable.signatures:
        for batch_size in BATCH_SIZES:
            inputs = request(servable, name, batch_size)
            asked.append((name, inputs))
            asked += [(name, cut) for cut in [odd_length(inputs, batch_size)] if cut]
    return asked


def odd_length(inputs, batch_size):
    """Returns the inputs cut to 2 * batch_size - 1 positions (1, 3 or 9); None if they have no such axis."""
    if any(value.ndim < 2 for value in inputs.values()):
        return None
    return {name: value[:, : 2 * batch_size - 1] for name, value in inputs.items()}


def warm_up_records(servable):
    """Returns serialized PredictionLogs for `tf_serving_warmup_requests`: each signature and batch size."""
    from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

    records = []
    for name in servable.signatures:
        for batch_size in BATCH_SIZES:
            predict = predict_pb2.PredictRequest()
            predict.model_spec.signature_name = name
            for key, value in request(servable, name, batch_size).items():
                predict.inputs[key].CopyFrom(tf.make_tensor_proto(value))
            log = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=predict))
            records.append(log.SerializeToString())
    return records
