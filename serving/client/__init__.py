"""Asks a server for predictions: over REST with only the standard library, or over gRPC.

gRPC needs grpcio and protobuf, but not TensorFlow. `convnlp ask` works through files
(`convnlp.serving.client.command_line`). In Python:

    >>> from convnlp.serving.client import Client
    >>> client = Client("http://127.0.0.1:8501")
    >>> client.predict("classifier", ["a gripping film", "dull"])  # doctest: +SKIP
    [{'label': 'positive', 'scores': [0.03, 0.97]}, {'label': 'negative', 'scores': [0.91, 0.09]}]
"""

from convnlp.serving.client.connection import connect
from convnlp.serving.client.errors import RequestError
from convnlp.serving.client.rest_client import Client

__all__ = ["Client", "RequestError", "connect"]
