"""The files of serving/deploy: by their official schemas, where packages have them, and beside each other.

- compose.yaml: the schema of the Compose specification, in check-jsonschema.
- kubernetes.yaml: the schemas of the Kubernetes API with no other fields, in kubernetes-validate.
- Dockerfile: BuildKit's parser, in dockerfile. It takes any word for an instruction, so these are compared.
- grafana_dashboard.json: Grafana's own types, in grafana-foundation-sdk. They drop what they do not know.
- Queries: promql-parser, a port of Prometheus's parser.

No package has a schema for prometheus.yml, prometheus_kubernetes.yml and prometheus_adapter.yml: of these,
the queries are tested, and what must agree with the other files and with convnlp.serving.core.metrics.
Nothing here runs a container.
"""

import functools
import http.server
import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import dockerfile
import kubernetes_validate
import promql_parser
import pytest
import yaml
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from convnlp.serving.core.config_files import read_batching_options, read_metrics_path, read_model_configs
from convnlp.serving.core.metrics import Histogram, Metrics

SERVING = Path(__file__).resolve().parents[2] / "serving"
DEPLOY = SERVING / "deploy"
KUBERNETES = "1.34"
# A flag of tensorflow_model_server (main.cc) that serving.server, which leaves threads to TensorFlow, lacks.
ONLY_THERE = {"tensorflow_intra_op_parallelism"}
# What Prometheus adds to the labels of a pod's series, by prometheus_kubernetes.yml.
POD_LABELS = {"namespace", "pod"}


def read(name):
    return yaml.safe_load((DEPLOY / name).read_text())


@functools.cache
def manifests():
    return {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}


def container():
    (only,) = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    return only


def compose_service():
    return read("compose.yaml")["services"]["serving"]


def image():
    """The arguments of the Dockerfile's instructions, by name."""
    parsed = dockerfile.parse_file(str(DEPLOY / "Dockerfile"))
    assert [each.cmd for each in parsed] == ["FROM", "COPY", "USER", "EXPOSE", "ENTRYPOINT"]
    return {each.cmd: list(each.value) for each in parsed}


def flags(words):
    found = [re.fullmatch(r"--(\w+)=(.+)", word) for word in words]
    assert all(found), words
    return {match[1]: match[2] for match in found}


def server_flags():
    program, *words = image()["ENTRYPOINT"]
    assert program == "tensorflow_model_server"
    return flags(words)


def dashboard():
    return json.loads((DEPLOY / "grafana_dashboard.json").read_text())


def queries():
    """Every PromQL query, its variables replaced by what Grafana and prometheus-adapter may put there."""
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$__rate_interval", "5m").replace("$model", ".*")
    (rule,) = read("prometheus_adapter.yml")["rules"]
    yield rule["seriesQuery"]
    series = promql_parser.parse(rule["seriesQuery"]).name
    values = {"Series": series, "LabelMatchers": 'namespace="n",pod=~"a|b"', "GroupBy": "pod"}
    for template, value in values.items():
        assert f"<<.{template}>>" in rule["metricsQuery"]
        rule["metricsQuery"] = rule["metricsQuery"].replace(f"<<.{template}>>", value)
    yield rule["metricsQuery"]


def known_series():
    """The labels of every series on the server's page of metrics, by its name."""
    found = {}
    for metric in vars(Metrics()).values():
        labels = set(metric._labels)
        if isinstance(metric, Histogram):
            found |= {f"{metric._name}_{suffix}": labels for suffix in ("sum", "count")}
            found[f"{metric._name}_bucket"] = labels | {"le"}
        else:
            found[metric._name] = labels
    return found


def lost(given, kept, path=""):
    """Yields the paths of what is in `given` and not, or not the same, in `kept`."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for key, value in given.items():
            yield from lost(value, kept.get(key), f"{path}.{key}")
    elif isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        for index, pair in enumerate(zip(given, kept, strict=True)):
            yield from lost(*pair, f"{path}[{index}]")
    elif given != kept:
        yield path


def lost_by_grafana(content):
    plugins.register_default_plugins()
    return list(lost(content, json.loads(json.dumps(Dashboard.from_json(content), cls=JSONEncoder))))


def test_compose_follows_its_specification(tmp_path):
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((DEPLOY / "compose.yaml").read_text().replace("    mem_limit:", "    memory_limit:"))
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema=vendor.compose-spec"]
    for path, status in {DEPLOY / "compose.yaml": 0, wrong: 1}.items():
        done = subprocess.run([*check, path], capture_output=True, text=True)
        assert done.returncode == status, done.stdout + done.stderr


def test_manifests_follow_the_api_of_kubernetes():
    assert list(manifests()) == ["PersistentVolumeClaim", "Deployment", "Service", "HorizontalPodAutoscaler"]
    for manifest in manifests().values():
        assert kubernetes_validate.validate(manifest, KUBERNETES, strict=True) == KUBERNETES
    wrong = manifests()["Service"] | {"spec": manifests()["Service"]["spec"] | {"sessionAfinity": "None"}}
    with pytest.raises(kubernetes_validate.ValidationError, match="sessionAfinity"):
        kubernetes_validate.validate(wrong, KUBERNETES, strict=True)


def test_grafana_knows_every_field_of_the_dashboard():
    content = dashboard()
    assert lost_by_grafana(content) == []
    content["panels"][0]["fieldConfig"]["defaults"]["units"] = "ms"
    content["panels"][1]["targets"][0]["expression"] = "1"
    assert lost_by_grafana(content) == [
        ".panels[0].fieldConfig.defaults.units",
        ".panels[1].targets[0].expression",
    ]


def test_queries_ask_for_series_that_the_server_has():
    known = known_series()
    asked = set()

    def visit(expression):
        if isinstance(expression, promql_parser.VectorSelector):
            assert expression.name in known, expression
            labels = {matcher.name for matcher in expression.matchers.matchers}
            assert labels <= known[expression.name] | POD_LABELS, expression
            asked.add(expression.name)
        elif isinstance(expression, promql_parser.AggregateExpr) and expression.modifier:
            series = re.search(r":tensorflow:\w+(?::\w+)*", str(expression.expr.prettify()))[0]
            assert set(expression.modifier.labels) <= known[series] | POD_LABELS, expression.prettify()

    for query in queries():
        promql_parser.walk(promql_parser.parse(query), visit)
    assert len(asked) >= 8
    variables = {each["name"]: each["query"] for each in dashboard()["templating"]["list"]}
    series, label = re.fullmatch(r"label_values\((\S+), (\w+)\)", variables["model"]).groups()
    assert label in known[series]


def test_flags_exist():
    defined = set(re.findall(r'DEFINE_\w+\(\s*"(\w+)"', (SERVING / "server_flags.py").read_text()))
    assert set(server_flags()) <= defined
    for words in (compose_service()["command"], container()["args"]):
        assert set(flags(words)) == ONLY_THERE


def test_the_image_holds_the_configuration_that_its_flags_name():
    *sources, folder = image()["COPY"]
    assert all((SERVING / source).is_file() for source in sources)
    named = {value for name, value in server_flags().items() if name.endswith("_file")}
    assert {folder + source for source in sources} == named
    assert server_flags()["enable_batching"] == "true"
    build = compose_service()["build"]
    assert (DEPLOY / build["context"]).resolve() == SERVING
    assert (SERVING / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
    assert container()["image"] == compose_service()["image"]


def test_there_are_threads_for_the_clients_expected():
    """A request keeps a thread of the REST interface until it is answered: fewer make smaller batches."""
    threads = int(server_flags()["rest_api_num_threads"])
    options = read_batching_options(str(SERVING / "batching.config"))
    running = options.num_batch_threads * options.batch_limit
    (metric,) = manifests()["HorizontalPodAutoscaler"]["spec"]["metrics"]
    goal = int(metric["pods"]["target"]["averageValue"])  # requests in a pod at a time
    # While as many run, the next batches gather; and a pod has room until the autoscaler has another one.
    assert threads >= 2 * max(running, goal)


def test_ports_agree():
    grpc, rest = server_flags()["port"], server_flags()["rest_api_port"]
    assert image()["EXPOSE"] == [grpc, rest]
    assert compose_service()["ports"] == [f"127.0.0.1:{port}:{port}" for port in (grpc, rest)]
    ports = {"grpc": int(grpc), "rest": int(rest)}
    assert {each["name"]: each["containerPort"] for each in container()["ports"]} == ports
    listed = manifests()["Service"]["spec"]["ports"]
    assert {each["targetPort"]: each["port"] for each in listed} == ports
    (job,) = read("prometheus.yml")["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"serving:{rest}"]}]
    assert {container()[f"{probe}Probe"]["httpGet"]["port"] for probe in ("startup", "readiness")} == {"rest"}
    assert container()["livenessProbe"]["tcpSocket"]["port"] == "rest"


def test_models_are_where_the_configuration_says():
    configs = read_model_configs(str(SERVING / "models.config"))
    assert {str(Path(config.base_path).parent) for config in configs} == {"/models"}
    (volume,) = compose_service()["volumes"]
    assert volume.endswith("}:/models:ro")
    (mount,) = container()["volumeMounts"]
    assert mount["mountPath"] == "/models"
    paths = {f"/v1/models/{config.name}" for config in configs}
    for probe in ("startup", "readiness"):
        assert container()[f"{probe}Probe"]["httpGet"]["path"] in paths
    check = compose_service()["healthcheck"]["test"][-1]
    assert re.search(r"GET (\S+)", check)[1] in paths


def test_as_many_threads_as_cpus():
    threads = flags(compose_service()["command"])["tensorflow_intra_op_parallelism"]
    assert threads == str(compose_service()["cpus"])
    resources = container()["resources"]
    threads = flags(container()["args"])["tensorflow_intra_op_parallelism"]
    assert threads == resources["limits"]["cpu"] == resources["requests"]["cpu"]


def test_prometheus_reads_the_page_of_metrics_of_these_pods():
    path = read_metrics_path(str(SERVING / "monitoring.config"))
    pod = manifests()["Deployment"]["spec"]["template"]["metadata"]
    for name in ("prometheus.yml", "prometheus_kubernetes.yml"):
        (job,) = read(name)["scrape_configs"]
        assert job["metrics_path"] == path
    rules = job["relabel_configs"]
    kept = {rule["source_labels"][0]: rule["regex"] for rule in rules if rule.get("action") == "keep"}
    assert kept == {
        "__meta_kubernetes_pod_label_app": pod["labels"]["app"],
        "__meta_kubernetes_pod_container_port_name": "rest",
    }
    assert {rule["target_label"] for rule in rules if "target_label" in rule} == POD_LABELS


def test_the_autoscaler_asks_for_the_metric_of_the_adapter():
    autoscaler = manifests()["HorizontalPodAutoscaler"]["spec"]
    (metric,) = autoscaler["metrics"]
    (rule,) = read("prometheus_adapter.yml")["rules"]
    assert metric["pods"]["metric"]["name"] == rule["name"]["as"]
    assert set(rule["resources"]["overrides"]) == POD_LABELS
    assert autoscaler["scaleTargetRef"]["name"] == manifests()["Deployment"]["metadata"]["name"]
    labels = manifests()["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert manifests()["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert manifests()["Service"]["spec"]["selector"] == labels


def test_the_health_check_tells_a_model_from_none():
    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/v1/models/classifier" else 404)
            self.end_headers()

        def log_message(self, *_):
            pass

    word, *command = compose_service()["healthcheck"]["test"]
    assert word == "CMD"
    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command[-1] = command[-1].replace("/8501", f"/{server.server_port}")
        there = subprocess.run(command, timeout=10)
        command[-1] = command[-1].replace("classifier", "other")
        absent = subprocess.run(command, timeout=10)
        server.shutdown()
    assert (there.returncode, absent.returncode) == (0, 1)
