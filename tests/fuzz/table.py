"""The readers by the names that `tests.fuzz.run` and the tests know them by."""

from tests.fuzz.grpc_message import GrpcMessage
from tests.fuzz.http_bytes import HttpBytes
from tests.fuzz.preset_files import PresetFiles
from tests.fuzz.records import Records
from tests.fuzz.rest_request import RestRequest
from tests.fuzz.saved_model_graph import SavedModelGraph
from tests.fuzz.tokenizer_model import TokenizerModel

READERS = {
    "tokenizer_model": TokenizerModel,
    "preset_files": PresetFiles,
    "saved_model_graph": SavedModelGraph,
    "records": Records,
    "rest_request": RestRequest,
    "http_bytes": HttpBytes,
    "grpc_message": GrpcMessage,
}
