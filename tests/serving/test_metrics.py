"""The page of metrics, in the format that Prometheus reads and by TF Serving's names."""

from convnlp.serving.core.metrics import Counter, Histogram, Metrics
from tests.serving.in_process import InProcess


def test_counters_and_histograms_are_written_as_the_real_server_writes_them():
    counter = Counter("/tensorflow/serving/request_count", "model_name", "status")
    assert counter.lines() == []
    counter.add('a"\\', "OK")
    counter.add('a"\\', "OK", by=2)
    assert counter.lines() == [
        "# TYPE :tensorflow:serving:request_count counter",
        ':tensorflow:serving:request_count{model_name="a\\"\\\\",status="OK"} 3',
    ]
    histogram = Histogram("/x", "model", limits=[1.0, 2.0])
    for value in (0.5, 1.0, 5.0):
        histogram.observe(value, "m")
    assert histogram.lines() == [
        "# TYPE :x histogram",
        ':x_bucket{model="m",le="1"} 1',
        ':x_bucket{model="m",le="2"} 2',
        ':x_bucket{model="m",le="+Inf"} 3',
        ':x_sum{model="m"} 6.5',
        ':x_count{model="m"} 3',
    ]


def test_label_values_cannot_fill_the_memory():
    counter = Counter("/x", "name")
    for number in range(5000):
        counter.add(str(number))
    assert len(counter.lines()) == 1002
    assert counter.value("") == 4000


def test_the_latency_buckets_are_the_real_servers():
    lines = Metrics().request_latency
    lines.observe(1e12, "m", "predict", "REST")
    limits = [line.split('le="')[1].split('"')[0] for line in lines.lines() if "_bucket" in line]
    assert limits[:4] == ["10", "18", "32.4", "58.32"]
    assert (len(limits), limits[-1]) == (34, "+Inf")


def test_requests_are_counted(model_folder, model_configs):
    models = InProcess(model_folder, model_configs)
    models.post("/v1/models/affine:predict", b'{"instances": [1]}')
    models.post("/v1/models/affine:predict", b"{")
    models.post("/v1/models/none:predict", b'{"instances": [1]}')
    models.post(
        "/v1/models/g:regress", b'{"signature_name": "regress", "examples": [{"x": 1.0}, {"x": 2.0}]}'
    )
    status, headers, body = models.ask("GET", "/monitoring/prometheus/metrics")
    assert (status, headers["content-type"]) == (200, "text/plain")
    lines = body.decode().splitlines()
    loads = ":tensorflow:cc:saved_model:load_attempt_count"
    for line in (
        ':tensorflow:serving:request_count{model_name="affine",status="OK"} 1',
        ':tensorflow:serving:request_count{model_name="affine",status="INVALID_ARGUMENT"} 1',
        ':tensorflow:serving:request_count{model_name="",status="NOT_FOUND"} 1',
        ':tensorflow:serving:request_latency_count{model_name="affine",API="predict",entrypoint="REST"} 1',
        ':tensorflow:serving:runtime_latency_count{model_name="g",API="Regress",runtime="TF1"} 1',
        ':tensorflow:serving:request_example_count_total{model="g"} 2',
        f'{loads}{{model_path="{model_folder}/g/1",status="success"}} 1',
    ):
        assert line in lines


def test_a_query_is_part_of_the_path_of_the_metrics(models):
    path = "/monitoring/prometheus/metrics"
    for query in ("?x=1", "?"):
        status, headers, body = models.ask("GET", path + query)
        assert (status, headers["content-type"]) == (400, "text/plain")
        assert body == f"Unexpected path: {path}{query}. Should be {path}".encode()
