"""The REST grammar, one case per line: what each form of request is answered, word for word."""

import gzip
import json
import zlib

import pytest

from convnlp.serving.core import prepared_run
from convnlp.serving.core.batching import Batcher
from convnlp.serving.core.batching_options import BatchingOptions
from convnlp.serving.core.metrics import Metrics
from convnlp.serving.rest import interface
from tests.serving.in_process import InProcess

G = "/v1/models/g"


def sign(name, rest):
    return f'{{"signature_name": "{name}", {rest}}}'


# Every one is POST G:predict; the expected document, or the expected error of status 400.
PREDICT = [
    # rows and columns
    ('{"instances": [1.5, 2]}', {"predictions": [1.5, 2.0]}),
    ('{"instances": [{"x": 1.5}, {"x": 2}]}', {"predictions": [1.5, 2.0]}),
    ('{"inputs": [1.5, 2]}', {"outputs": [1.5, 2.0]}),
    ('{"inputs": {"x": [1.5], "other": "ignored"}}', {"outputs": [1.5]}),
    ('{"inputs": 1.5}', {"outputs": 1.5}),
    ('{"inputs": []}', {"outputs": []}),
    ('{"inputs": [[]]}', {"outputs": [[]]}),
    ('{"instances": [[1, 2], [3, 4]]}', {"predictions": [[1.0, 2.0], [3.0, 4.0]]}),
    ('{"instances": [[], []]}', {"predictions": [[], []]}),
    ('{"instances": [1], "unheard of": 2}', {"predictions": [1.0]}),
    ('{"instances": [1], "instances": [2]}', {"predictions": [1.0]}),
    ('{"instances": [{"x": 1, "x": 2}, {"x": 3}]}', {"predictions": [1.0, 2.0]}),
    ('{"inputs": {"x": [1], "x": [2]}}', {"outputs": [1.0]}),
    ('{"instances": [{"x\\u0000y": 1}]}', {"predictions": [1.0]}),
    (
        sign("pair", '"instances": [{"a": [1, 2], "b": 3}]'),
        {"predictions": [{"sum": 6.0, "twice": [2.0, 4.0]}]},
    ),
    (sign("pair", '"inputs": {"a": [[1, 2]], "b": [3]}'), {"outputs": {"sum": [6.0], "twice": [[2.0, 4.0]]}}),
    (sign("scalar", '"instances": [1, 2]'), {"predictions": [2.0, 4.0]}),
    (sign("", '"instances": [1]'), {"predictions": [1.0]}),
    # what is no request
    ("", "JSON Parse error: The document is empty"),
    (" \n", "JSON Parse error: The document is empty. at offset: 2"),
    ("{", "JSON Parse error: Missing a name for object member. at offset: 1"),
    ("5", "JSON Value: 5 Is not object"),
    ("null", "JSON Value: null Is not object"),
    ('["a", {"b": [1, 2]}]', 'JSON Value: ["a", {\n        "b": [1, 2]\n    }] Is not object'),
    ("{}", "Missing 'inputs' or 'instances' key"),
    ('{"INSTANCES": [1]}', "Missing 'inputs' or 'instances' key"),
    (
        '{"instances": [1], "inputs": 1}',
        'JSON Value: {\n    "instances": [1],\n    "inputs": 1\n} Not formatted correctly expecting only one'
        " of 'inputs' or 'instances' keys to exist ",
    ),
    ('{"instances": 1}', "JSON Value: {\n    \"instances\": 1\n} Expecting 'instances' to be an list/array"),
    ('{"instances": []}', "JSON Value: {\n    \"instances\": []\n} No values in 'instances' array"),
    (
        '{"signature_name": null, "inputs": 1}',
        'JSON Value: {\n    "signature_name": null,\n    "inputs": 1\n} not formatted correctly.'
        " 'signature_name' key must be a string value.",
    ),
    (sign("none", '"inputs": 1'), 'Serving signature name: "none" not found in signature def'),
    (sign("nothing", '"inputs": 1'), "Failed to get input map for signature: nothing"),
    # rows that do not fit
    ('{"instances": [{"x": 1}, 2]}', "Expecting object but got list at item 1 of input list"),
    ('{"instances": [1, {"x": 2}]}', "Expecting value/list but got object at item 1 of input list"),
    (
        '{"instances": [{"x": 1, "z": 2}]}',
        "Failed to process element: 0 key: z of 'instances' list. Error: INVALID_ARGUMENT: JSON object: does"
        " not have named input: z",
    ),
    (
        sign("pair", '"instances": [{"b": 1}]'),
        "Failed to process element: 0 of 'instances' list. JSON object: {\n    \"b\": 1\n} keys must be equal"
        " to: a,b",
    ),
    (
        sign("pair", '"instances": [[1, 2]]'),
        "instances is a plain list, but expecting list of objects as multiple input tensors required as per"
        " tensorinfo_map",
    ),
    (
        sign("pair", '"inputs": 1'),
        "inputs is a plain value/list, but expecting an object as multiple input tensors required as per"
        " tensorinfo_map",
    ),
    (sign("pair", '"inputs": {"b": [1]}'), "Missing named input: a in 'inputs' object."),
    (
        '{"instances": [[1, 2], [3]]}',
        "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: Expecting tensor size: 2"
        " but got: 1",
    ),
    (
        '{"instances": [[[1, 2]], [[3], [4]]]}',
        "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: Expecting shape [1,2] but"
        " got: [2,1]",
    ),
    (
        '{"inputs": [[1], 2]}',
        "JSON Value: 2 found at incorrect level: 2 in the JSON DOM. Expected at level: 2",
    ),
    ('{"inputs": [[1], [2, 3]]}', "Encountered list at unexpected size: 2 at level: 1 expected size: 1"),
    ('{"inputs": [1, [2]]}', "Encountered list at unexpected level: 1 expected < 1"),
    ('{"inputs": ' + "[" * 300 + "]" * 300 + "}", "tensor parsing error: x"),
    # values that do not fit
    ('{"inputs": null}', "JSON Value: null Type: Null is not of expected type: float"),
    ('{"inputs": true}', "JSON Value: true Type: True is not of expected type: float"),
    ('{"inputs": "1"}', 'JSON Value: "1" Type: String is not of expected type: float'),
    (
        '{"inputs": {"b64": "AA=="}}',
        'JSON Value: {\n    "b64": "AA=="\n} Type: Object is not of expected type: float',
    ),
    (sign("int32", '"inputs": [1.0]'), "JSON Value: 1.0 Type: Number is not of expected type: int32"),
    (sign("int32", '"inputs": [1e2]'), "JSON Value: 100.0 Type: Number is not of expected type: int32"),
    (sign("int32", '"inputs": [1e-7]'), "JSON Value: 1e-7 Type: Number is not of expected type: int32"),
    (sign("int32", '"inputs": [1.25e30]'), "JSON Value: 1.25e30 Type: Number is not of expected type: int32"),
    (
        sign("int32", '"inputs": [-0.00025]'),
        "JSON Value: -0.00025 Type: Number is not of expected type: int32",
    ),
    (
        sign("int32", '"inputs": [2147483648]'),
        "JSON Value: 2147483648 Type: Number is not of expected type: int32",
    ),
    (sign("int32", '"inputs": [NaN]'), "JSON Value:  Type: Number is not of expected type: int32"),
    (
        sign("int8", '"inputs": [4294967296]'),
        "JSON Value: 4294967296 Type: Number is not of expected type: int8",
    ),
    (sign("uint32", '"inputs": [-1]'), "JSON Value: -1 Type: Number is not of expected type: uint32"),
    (sign("bool", '"inputs": [1]'), "JSON Value: 1 Type: Number is not of expected type: bool"),
    (sign("string", '"inputs": [1]'), "JSON Value: 1 Type: Number is not of expected type: string"),
    (sign("string", '"inputs": [{"b64": "_-8="}]'), "Unable to base64 decode"),
    (
        sign("string", '"inputs": [{"b64": "AA==", "z": 1}]'),
        'JSON Value: {\n    "b64": "AA==",\n    "z": 1\n} not formatted correctly for base64 data',
    ),
    # every type
    (sign("float64", '"inputs": [0.1, 1e308, -0.0]'), {"outputs": [0.1, 1e308, -0.0]}),
    (sign("int8", '"inputs": [-128, 200]'), {"outputs": [-128, -56]}),
    (sign("uint8", '"inputs": [255, -1]'), {"outputs": [255, 255]}),
    (sign("int16", '"inputs": [40000]'), {"outputs": [-25536]}),
    (sign("int32", '"inputs": [-2147483648]'), {"outputs": [-2147483648]}),
    (sign("int64", '"inputs": [-9223372036854775808]'), {"outputs": [-9223372036854775808]}),
    (sign("uint32", '"inputs": [4294967295]'), {"outputs": [4294967295]}),
    (sign("uint64", '"inputs": [18446744073709551615]'), {"outputs": [18446744073709551615]}),
    (sign("bool", '"inputs": [true, false]'), {"outputs": [True, False]}),
    (sign("string", '"inputs": ["é", {"b64": "aGk"}]'), {"outputs": ["é", "hi"]}),
    (sign("string", '"instances": [{"b64": "aGk"}, "é"]'), {"predictions": ["hi", "é"]}),
    (sign("half", '"inputs": [1]'), "Failed to write JSON value for tensor type: half"),
    (sign("two", '"instances": ["hi"]'), {"predictions": [{"length": 2, "x_bytes": {"b64": "aGk="}}]}),
    # the model's own words
    (sign("total", '"instances": [1]'), "Tensor name: total has no shape information "),
    (sign("total", '"inputs": [1, 2]'), {"outputs": {"total": 3.0, "y": [1.0, 2.0]}}),
    (sign("three", '"instances": [1]'), "Tensor name: y has inconsistent batch size: 1 expecting: 3"),
    ('{"instances": [1]} and more', {"predictions": [1.0]}),
]


@pytest.mark.parametrize(("body", "expected"), PREDICT, ids=[body[:60] or "empty" for body, _ in PREDICT])
def test_predict(models, body, expected):
    status, answer = models.post(f"{G}:predict", body.encode())
    document = json.loads(answer)
    if isinstance(expected, str):
        assert (status, document) == (400, {"error": expected})
    else:
        assert (status, document) == (200, expected)


def test_an_op_that_fails_says_so_in_its_own_words(models):
    status, answer = models.post(f"{G}:predict", sign("gather", '"instances": [7]').encode())
    assert status == 400
    assert json.loads(answer)["error"].startswith("indices[0] = 7 is not in [0, 2)\n\t [[{{")


@pytest.mark.parametrize("how", ["plain", "stoppable", "batching"])
def test_an_error_that_quotes_bytes_that_are_not_utf8(model_folder, model_configs, monkeypatch, how):
    """TensorFlow's binding for Python fails to decode it."""
    if how == "stoppable":
        monkeypatch.setattr(prepared_run.PreparedRun, "_was_short", False)
    runner = Batcher(BatchingOptions(num_batch_threads=1), Metrics()) if how == "batching" else None
    models = InProcess(model_folder, model_configs, runner=runner)
    status, answer = models.post(f"{G}:predict", sign("classify", '"inputs": [{"b64": "/w=="}]').encode())
    assert status == 400
    error = json.loads(answer)["error"]
    assert error.startswith("Could not parse example input, value: '\N{REPLACEMENT CHARACTER}'\n\t [[{{")


@pytest.mark.parametrize("name", ["float16", "uint16", "bfloat16", "complex64"])
def test_types_that_json_cannot_fill(models, name):
    status, answer = models.post(f"{G}:predict", sign(name, '"inputs": [1]').encode())
    shown = "half" if name == "float16" else name
    assert (status, json.loads(answer)["error"]) == (501, f"Conversion of JSON Value: 1 to type: {shown}")


def test_specials_are_bare_words_in_both_directions(models):
    status, answer = models.post(f"{G}:predict", b'{"instances": [NaN, -NaN, Infinity, -Inf, 1e39]}')
    assert (status, answer) == (
        200,
        b'{\n    "predictions": [NaN, NaN, Infinity, -Infinity, Infinity\n    ]\n}',
    )


LAYOUTS = [
    (
        '{"instances": [[0.1], [9000000]]}',
        """{
    "predictions": [[0.1], [9e+06]
    ]
}""",
    ),
    (
        '{"inputs": [[1], [2]]}',
        """{
    "outputs": [
        [
            1.0
        ],
        [
            2.0
        ]
    ]
}""",
    ),
    (
        sign("two", '"instances": ["é"]'),
        """{
    "predictions": [
        {
            "length": 2,
            "x_bytes": {
                "b64": "w6k="
            }
        }
    ]
}""",
    ),
]


@pytest.mark.parametrize(("body", "answer"), LAYOUTS)
def test_the_layout_is_the_real_servers(models, body, answer):
    assert models.post(f"{G}:predict", body.encode()) == (200, answer.encode())


def test_errors_show_256_bytes_of_a_value(models):
    _, answer = models.post(f"{G}:predict", b'{"other": [' + b"12345678, " * 100 + b"1]}")
    assert json.loads(answer) == {"error": "Missing 'inputs' or 'instances' key"}
    _, answer = models.post(f"{G}:predict", b"[" + b"12345678, " * 100 + b"1]")
    shown = json.loads(answer)["error"].removeprefix("JSON Value: ").removesuffix(" Is not object")
    assert shown == "[" + ", ".join(["12345678"] * 26)  # 257 bytes: the value that crosses the limit is whole
    _, answer = models.post(f"{G}:predict", b'{"inputs": "' + b"x" * 1000 + b'"}')
    assert "x" * 1000 in json.loads(answer)["error"]


PAIR = [["small", 1.5], ["large", 3.0]]
EXAMPLES = [
    ("classify", "classify", '[{"x": 1.5}, {"x": 2.0}]', [PAIR, [["small", 2.0], ["large", 4.0]]]),
    ("classify", "scores", '[{"x": 1.5}]', [[["", 1.5], ["", 3.0]]]),
    ("classify", "classes", '[{"x": 1.5}]', [[["small", 0.0], ["large", 0.0]]]),
    ("regress", "regress", '[{"x": 1.5, "other": [1, 2]}]', [0.75]),
    ("regress", "regress", '[{"x": [1.5]}]', [0.75]),
    ("regress", "regress", '[{"x": 1, "x": 1.5}]', [0.75]),
    ("regress", "regress", '[{"x": 1.5, "s": {"b64": "AA=="}}, {"x": NaN, "s": "a"}]', [0.75, None]),
]  # fmt: skip


@pytest.mark.parametrize(("method", "name", "examples", "results"), EXAMPLES)
def test_classify_and_regress(models, method, name, examples, results):
    status, answer = models.post(f"{G}:{method}", sign(name, f'"examples": {examples}').encode())
    assert status == 200, answer
    assert json.loads(answer.replace(b"NaN", b"null")) == {"results": results}


def test_the_context_is_part_of_every_example(models):
    body = sign("regress", '"context": {"x": 4.0}, "examples": [{}, {"x": 2.0}]')
    assert json.loads(models.post(f"{G}:regress", body.encode())[1]) == {"results": [2.0, 1.0]}


BAD_EXAMPLES = [
    ('"other": 1', "When method is classify, key 'examples' is expected and was not found"),
    ('"examples": {"x": 1.0}', "Expecting 'examples' value to be an list/array"),
    ('"examples": []', "'examples' value is an empty array"),
    ('"examples": [1]', "Example must be JSON object but got JSON Number"),
    ('"examples": [[1]]', "Example must be JSON object but got JSON Array"),
    ('"examples": [true]', "Example must be JSON object but got JSON True"),
    ('"context": 1, "examples": [{"x": 1.0}]', "Example must be JSON object but got JSON Number"),
    ('"examples": [{"x": null}]', "Feature: x has element with unexpected JSON type: Null"),
    ('"examples": [{"x": [[1]]}]', "Feature: x has element with unexpected JSON type: Array"),
    ('"examples": [{"x": {"y": 1}}]', "Feature: x has element with unexpected JSON type: Object"),
    ('"examples": [{"x": [1, 1.0]}]', "Unexpected element type in feature: x expecting type: int64"),
    ('"examples": [{"x": [1.0, true]}]', "Unexpected element type in feature: x expecting type: float"),
    ('"examples": [{"x": ["a", 1]}]', "Unexpected element type in feature: x expecting type: bytes"),
    (
        '"examples": [{"x": 9223372036854775808}]',
        "Feature: x has uint64_t element. Only int64_t is supported.",
    ),
    (
        '"examples": [{"x": [1, 9223372036854775808]}]',
        "Feature: x has uint64_t element. Only int64_t is supported.",
    ),
    ('"examples": [{"x": {"b64": "?"}}]', "Unable to base64 decode"),
    ('"examples": [{"x": 1}]', "Data types don't match. Data type: int64 but expected type: float"),
    ('"examples": [{"x": true}]', "Data types don't match. Data type: int64 but expected type: float"),
    ('"examples": [{"x": []}]', "Feature: x (data type: float) is required but could not be found."),
]


@pytest.mark.parametrize("method", ["classify", "regress"])
@pytest.mark.parametrize(("body", "error"), BAD_EXAMPLES)
def test_examples_that_do_not_fit(models, method, body, error):
    status, answer = models.post(f"{G}:{method}", sign(method, body).encode())
    assert status == 400
    assert error in json.loads(answer)["error"]


@pytest.mark.parametrize(
    ("method", "name", "error"),
    [
        ("classify", "none", "No signature was found with the name: none"),
        ("classify", "pair", "Expected one input Tensor."),
        ("classify", "float32", "No classification inputs found in SignatureDef: "),
        (
            "classify",
            "regress",
            'Expected classification signature outputs to contain at least one of "classes"',
        ),
        ("classify", "flat", "Expected Tensor shape: [batch_size num_classes] but got [1]"),
        ("regress", "none", "No signature was found with the name: none"),
        ("regress", "classify", "Expected one output Tensor."),
        ("regress", "scores", "No regression outputs found in SignatureDef: "),
        ("regress", "float32", "No regression inputs found in SignatureDef: "),
        ("regress", "labels", "Expected output Tensor of DT_FLOAT.  Got: DT_INT32"),
    ],
)
def test_signatures_of_another_method(models, method, name, error):
    status, answer = models.post(f"{G}:{method}", sign(name, '"examples": [{"x": 1.0}]').encode())
    assert status == 400
    assert json.loads(answer)["error"].startswith(error)


A = "/v1/models/affine"
OK = b'{"instances": [0]}'
PATHS = [
    ("POST", f"{A}:predict", 200, {"predictions": [2.0]}),
    ("POST", f"{A}/versions/1:predict", 200, {"predictions": [1.0]}),
    ("POST", f"{A}/versions/0002:predict", 200, {"predictions": [2.0]}),
    ("POST", f"{A}/labels/stable:predict", 200, {"predictions": [1.0]}),
    ("POST", f"{A}/labels/st%61ble:predict", 200, {"predictions": [1.0]}),
    ("POST", "/V1/Models/affine:predict", 200, {"predictions": [2.0]}),
    ("POST", f"{A}:PREDICT", 400, f"Malformed request: POST {A}:PREDICT"),
    ("POST", f"{A}:Classify", 400, f"Malformed request: POST {A}:Classify"),
    ("POST", f"{A}:predict\n", 400, f"Malformed request: POST {A}:predict\n"),
    ("POST", "/v1/models/%61ffine:predict", 200, {"predictions": [2.0]}),
    ("POST", "/v1/models/Affine:predict", 404, "Servable not found for request: Latest(Affine)"),
    ("POST", "/v1/models/..%2F..%2Fetc:predict", 404, "Servable not found for request: Latest(../../etc)"),
    ("POST", "/v1/models/%ff:predict", 404, "Servable not found for request: Latest(\udcff)"),
    ("POST", f"{A}/versions/3:predict", 404, "Servable not found for request: Specific(affine, 3)"),
    ("POST", f"{A}/labels/next:predict", 404, "Servable not found for request: Specific(affine, 9)"),
    ("POST", f"{A}/labels/none:predict", 400, "Unrecognized servable version label: none"),
    ("POST", f"{A}/versions/{2**63}:predict", 400, f"Failed to convert version: {2**63} to numeric."),
    ("POST", f"{A}/versions/{'0' * 5000}1:predict", 200, {"predictions": [1.0]}),
    ("POST", f"{A}/versions/-1:predict", 400, f"Malformed request: POST {A}/versions/-1:predict"),
    ("POST", f"{A}/versions/1/labels/a", 400, f"Malformed request: POST {A}/versions/1/labels/a"),
    ("POST", f"{A}:predict?x=1", 400, f"Malformed request: POST {A}:predict?x=1"),
    ("POST", f"{A}:explain", 400, f"Malformed request: POST {A}:explain"),
    ("POST", A, 400, f"Malformed request: POST {A}"),
    ("GET", f"{A}:predict", 400, f"Malformed request: GET {A}:predict"),
    ("PUT", f"{A}:predict", 400, f"Malformed request: PUT {A}:predict"),
    ("DELETE", A, 400, f"Malformed request: DELETE {A}"),
    ("HEAD", A, 400, f"Malformed request: HEAD {A}"),
    ("GET", "/v1/models", 400, "Missing model name in request."),
    ("GET", "/v1/models/", 400, "Malformed request: GET /v1/models/"),
    ("GET", "/v1/", 400, "Malformed request: GET /v1/"),
    ("GET", "/v1/models/none", 404, "Could not find any versions of model none"),
    ("GET", f"{A}/versions/3", 404, "Could not find version 3 of model affine"),
    ("GET", f"{A}/versions/3/metadata", 404, "Servable not found for request: Specific(affine, 3)"),
    ("GET", f"{A}/labels/none/metadata", 400, "Unrecognized servable version label: none"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "status", "expected"), PATHS)
def test_paths(models, method, path, status, expected):
    got, headers, answer = models.ask(method, path, OK)
    document = json.loads(answer.decode("utf-8", "surrogateescape"))
    assert (got, document) == (status, {"error": expected} if isinstance(expected, str) else expected)
    assert headers["content-type"] == "application/json"


def test_a_defect_of_the_server_is_no_fault_of_the_client(models, monkeypatch):
    monkeypatch.setitem(interface.METHODS, "predict", None)
    status, _, answer = models.ask("POST", f"{A}:predict", OK)
    assert (status, json.loads(answer)) == (500, {"error": "Internal error, see the server's log"})


def test_there_is_a_version_zero_in_the_grammar(models):
    status, _, answer = models.ask("GET", f"{A}/versions/00")
    assert (status, json.loads(answer)) == (404, {"error": "Could not find version 0 of model affine"})


def test_status(models):
    def state(version):
        return {"version": version, "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}

    for path, versions in {"": "21", "/versions/1": "1", "/labels/stable": "21", "/METADATA": "21"}.items():
        status, _, answer = models.ask("GET", A + path)
        assert (status, json.loads(answer)) == (200, {"model_version_status": [state(v) for v in versions]})


def test_metadata(models):
    for path, version in {
        "/metadata": "2",
        "/versions/1/metadata": "1",
        "/labels/stable/metadata": "1",
    }.items():
        status, _, answer = models.ask("GET", A + path)
        document = json.loads(answer)
        assert status == 200
        assert document["model_spec"] == {"name": "affine", "signature_name": "", "version": version}
        signature = document["metadata"]["signature_def"]["signature_def"]["serving_default"]
        assert signature["method_name"] == "tensorflow/serving/predict"
        assert signature["inputs"]["x"] == {
            "dtype": "DT_FLOAT",
            "name": "serving_default_x:0",
            "tensor_shape": {"dim": [{"name": "", "size": "-1"}], "unknown_rank": False},
        }


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v2/models/affine",
        "//v1/models/affine",
        "//host/v1/models/affine",
        "/favicon.ico",
        "*",
        "/monitoring/",
    ],
)
def test_other_paths_get_libevents_page(models, path):
    status, headers, answer = models.ask("GET", path)
    assert (status, headers["content-type"], headers["connection"]) == (404, "text/html", "close")
    assert answer.startswith(b"<HTML><HEAD>\n<TITLE>404 Not Found</TITLE>")


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "get", "BREW"])
def test_other_verbs_are_not_implemented(models, method):
    status, headers, answer = models.ask(method, A)
    assert (status, headers["content-type"]) == (501, "text/html")
    assert b"<TITLE>501 Not Implemented</TITLE>" in answer


def test_gzip(models):
    def post(body, encoding="gzip"):
        return models.post(f"{A}:predict", body, [("Content-Encoding", encoding)])

    assert post(gzip.compress(OK))[0] == 200
    assert post(gzip.compress(OK), "x-gzip")[0] == 200
    empty = {"error": "JSON Parse error: The document is empty"}
    for body in (OK, gzip.compress(OK)[:-4], b""):
        status, answer = post(body)
        assert (status, json.loads(answer)) == (400, empty)
    assert post(zlib.compress(OK), "deflate")[0] == 400


def test_cors(models, model_folder, model_configs):
    allowed = {
        "access-control-allow-origin": "*",
        "access-control-allow-methods": "POST, GET",
        "access-control-allow-headers": "Content-Type",
    }
    for origin, status in {"http://a.example": 200, "https://b.example": 200, "null": 400, "": 400}.items():
        got, headers, answer = models.ask("OPTIONS", f"{A}:predict", headers=[("Origin", origin)])
        assert (got, answer) == (status, b"")
        assert not allowed.keys() & headers.keys()
    with_cors = InProcess(model_folder, model_configs, cors=True)
    for method, path in (("POST", f"{A}:predict"), ("GET", A), ("OPTIONS", A), ("GET", "/v1/models/none")):
        _, headers, _ = with_cors.ask(method, path, OK)
        assert allowed.items() <= headers.items()
