"""The files of convnlp/training/deploy: by their schemas, beside each other, and as the launcher's arguments.

Of a JobSet, `jobset.schema.json` has the fields of its own; the Jobs in it are checked as Jobs. Nothing here
runs a container.
"""

import functools
import json
import re
import runpy
from pathlib import Path

import dockerfile
import jsonschema
import kubernetes_validate
import pytest
import yaml

from convnlp import command
from convnlp.launching import cluster

DEPLOY = Path(__file__).resolve().parents[2] / "convnlp" / "training" / "deploy"
KUBERNETES = "1.34"
EXIT_CODE_OF_MISTAKES = 1


@functools.cache
def manifests(name):
    return {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8"))}


def job_of(name):
    """The Job of a file; of a JobSet the only one in it, as a Job."""
    found = manifests(name)
    if "JobSet" not in found:
        return found["Job"]
    (only,) = found["JobSet"]["spec"]["replicatedJobs"]
    metadata = {"name": f"{found['JobSet']['metadata']['name']}-{only['name']}-0"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, **only["template"]}


FILES = ("kubernetes_job.yaml", "kubernetes_jobset.yaml", "gke_tpu.yaml")
LAUNCHED = FILES[:2]


def pod(name):
    return job_of(name)["spec"]["template"]["spec"]


def container(name):
    (only,) = pod(name)["containers"]
    return only


def flags(name):
    """(flags of the launcher, program, its flags), the last two without a launcher."""
    arguments = container(name)["args"]
    own = []
    if arguments[0] == "launch":
        end = arguments.index("--")
        own, arguments = arguments[1:end], arguments[end + 1 :]
    split = [dict(each.removeprefix("--").split("=", 1) for each in part) for part in (own, arguments[1:])]
    return split[0], arguments[0], split[1]


def test_every_file_is_looked_at():
    assert {path.name for path in DEPLOY.iterdir()} == {*FILES, "Dockerfile"}


@pytest.mark.parametrize("name", FILES)
def test_manifests_follow_the_api_of_kubernetes(name):
    for manifest in [*(each for each in manifests(name).values() if each["kind"] != "JobSet"), job_of(name)]:
        assert kubernetes_validate.validate(manifest, KUBERNETES, strict=True) == KUBERNETES
    wrong = job_of(name) | {"spec": job_of(name)["spec"] | {"completionsMode": "Indexed"}}
    with pytest.raises(kubernetes_validate.ValidationError, match="completionsMode"):
        kubernetes_validate.validate(wrong, KUBERNETES, strict=True)


def test_the_jobset_follows_its_definition():
    schema = json.loads(Path(__file__).with_name("jobset.schema.json").read_text(encoding="utf-8"))
    jobset = manifests("kubernetes_jobset.yaml")["JobSet"]
    jsonschema.validate(jobset, schema)
    wrong = jobset | {"spec": jobset["spec"] | {"failurePolicy": {"maxRestart": 3}}}
    with pytest.raises(jsonschema.ValidationError, match="maxRestart"):
        jsonschema.validate(wrong, schema)


@pytest.mark.parametrize("name", LAUNCHED)
def test_as_many_pods_as_workers_with_the_names_that_they_get(name):
    launch, _, _ = flags(name)
    spec = job_of(name)["spec"]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"] == int(launch["num_workers"])
    if "JobSet" in manifests(name):
        jobset = manifests(name)["JobSet"]["spec"]
        domain = jobset["network"]["subdomain"]
        assert jobset["network"]["enableDNSHostnames"] is True
        assert jobset["network"]["publishNotReadyAddresses"] is True
    else:
        service = manifests(name)["Service"]
        domain = pod(name)["subdomain"]
        assert domain == service["metadata"]["name"]
        assert service["spec"]["clusterIP"] == "None"
        assert service["spec"]["publishNotReadyAddresses"] is True
        assert service["spec"]["selector"] == {
            "batch.kubernetes.io/job-name": job_of(name)["metadata"]["name"]
        }
    (port,) = container(name)["ports"]
    expected = [f"{job_of(name)['metadata']['name']}-{i}.{domain}:{port['containerPort']}" for i in range(4)]
    assert cluster.addresses(launch["address"], 4) == expected


@pytest.mark.parametrize("name", LAUNCHED)
def test_as_many_threads_as_cpus(name):
    resources = container(name)["resources"]
    assert flags(name)[0]["threads_per_worker"] == resources["limits"]["cpu"] == resources["requests"]["cpu"]


@pytest.mark.parametrize("name", FILES)
def test_a_mistake_ends_the_job_and_a_loss_does_not(name):
    rules = job_of(name)["spec"]["podFailurePolicy"]["rules"]
    (mistake,) = [rule for rule in rules if rule["action"] == "FailJob"]
    assert mistake["onExitCodes"]["operator"] == "In"
    assert mistake["onExitCodes"]["values"] == [EXIT_CODE_OF_MISTAKES]
    assert mistake["onExitCodes"]["containerName"] == container(name)["name"]
    assert pod(name)["restartPolicy"] == "Never"  # which a policy on failures asks for
    if "JobSet" in manifests(name):
        (rule,) = manifests(name)["JobSet"]["spec"]["failurePolicy"]["rules"]
        assert (rule["action"], rule["onJobFailureReasons"]) == ("FailJobSet", ["PodFailurePolicy"])
        assert [each["action"] for each in rules] == ["FailJob"]  # else another rule could be the reason


@pytest.mark.parametrize("name", FILES)
def test_the_commands_exist_and_have_these_flags(name):
    launch, program, own = flags(name)
    module = command.find(program)
    source = Path(DEPLOY.parents[1] / f"{module.rpartition('.')[2]}.py").read_text(encoding="utf-8")
    source += (DEPLOY.parents[1] / "runs" / "experiment.py").read_text(encoding="utf-8")
    defined = set(re.findall(r'DEFINE_\w+\(\s*"(\w+)"', source))
    assert {flag for flag in own if not flag.startswith("config.")} <= defined
    launcher = (DEPLOY.parents[1] / "launch.py").read_text(encoding="utf-8")
    assert set(launch) <= set(re.findall(r'DEFINE_\w+\(\s*"(\w+)"', launcher))
    file, _, argument = own["config"].partition(":")
    config = runpy.run_path(str(DEPLOY.parents[2] / "configs" / f"{file}.py"))["get_config"](argument)
    for flag in own:
        if flag.startswith("config."):
            section, _, field = flag.removeprefix("config.").partition(".")
            assert field in config[section] if field else section in config
    if launch:
        assert config.train.batch_size % int(launch["num_workers"]) == 0


@pytest.mark.parametrize("name", LAUNCHED)
def test_everything_is_on_the_volume(name):
    (volume,) = pod(name)["volumes"]
    claim = manifests("kubernetes_job.yaml")["PersistentVolumeClaim"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    (mount,) = container(name)["volumeMounts"]
    assert mount["name"] == volume["name"]
    own = flags(name)[2]
    paths = (own["workdir"], own["config.tokenizer"], own["config.data.source"].partition(":")[2])
    assert all(path.startswith(f"{mount['mountPath']}/") for path in paths)


@pytest.mark.parametrize("name", FILES)
def test_pods_have_time_to_save(name):
    default = re.search(r'"grace_seconds", ([\d.]+)', (DEPLOY.parents[1] / "launch.py").read_text())
    assert pod(name)["terminationGracePeriodSeconds"] > float(default[1])


def test_the_tpu_is_one_machine_of_eight_chips():
    selector, resources = pod("gke_tpu.yaml")["nodeSelector"], container("gke_tpu.yaml")["resources"]
    assert selector["cloud.google.com/gke-tpu-accelerator"] == "tpu-v5-lite-podslice"
    width, height = map(int, selector["cloud.google.com/gke-tpu-topology"].split("x"))
    assert resources["limits"] == resources["requests"] == {"google.com/tpu": width * height}
    assert flags("gke_tpu.yaml")[2]["strategy"] == "tpu"


def test_the_image_runs_our_command():
    parsed = dockerfile.parse_file(str(DEPLOY / "Dockerfile"))
    assert [each.cmd for each in parsed] == ["FROM", "COPY", "RUN", "USER", "ENTRYPOINT"]
    assert parsed[-1].value == ("convnlp",)
    assert {container(name)["image"] for name in LAUNCHED} == {"convnlp-training:1"}
    assert "--tag convnlp-training:1" in (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
