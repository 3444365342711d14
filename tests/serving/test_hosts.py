"""By which names the server may be asked."""

import json
import socket

import pytest

from convnlp.serving.rest.hosts import AllowedHosts, allowed_hosts, check_names
from tests.serving.in_process import InProcess


def refused(hosts, *values):
    return hosts.refused([(b"accept", b"evil.example")] + [(b"host", value.encode()) for value in values])


ALWAYS = """localhost LOCALHOST:8501 a.localhost localhost. 127.0.0.1 127.0.0.1:8501 [::1] [::1]:8501
    10.1.2.3:8501 [fe80::1] serving:8501 x :8501"""
OTHERS = """evil.example evil.example:8501 evil.example. 127.0.0.1.evil.example localhost.evil.example
    alocalhost.example 127.0.0.1@evil.example [evil.example] []evil.example [::1 [::1].evil.example 1.2.3.4.5
    a.b xn--a.example notgood.example evil.example:127.0.0.1 ::1"""


@pytest.mark.parametrize("host", [*ALWAYS.split(), ""])
def test_addresses_and_names_that_nobody_can_own_are_always_allowed(host):
    assert refused(AllowedHosts(), host) is None
    assert refused(AllowedHosts(["a.example"]), host) is None


@pytest.mark.parametrize("host", OTHERS.split())
def test_other_names_are_refused(host):
    assert refused(AllowedHosts(["good.example"]), host) == host
    assert refused(AllowedHosts(), "localhost", host) == host


def test_names_that_are_listed_are_allowed():
    hosts = AllowedHosts(["A.example", ".b.example"])
    for host in ("a.example", "a.EXAMPLE:80", "b.example", "x.b.example", "x.y.b.example:1"):
        assert refused(hosts, host) is None
    for host in ("x.a.example", "ab.example", "b.example.evil.example"):
        assert refused(hosts, host) == host


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"])
def test_a_server_for_this_machine_alone_allows_no_other_names(address):
    assert refused(allowed_hosts(None, address), "evil.example") == "evil.example"
    assert refused(allowed_hosts(["evil.example"], address), "evil.example") is None
    assert allowed_hosts(["a.example", "*"], address) is None


@pytest.mark.parametrize("host", ["127.1", "LOCALHOST"])
def test_what_counts_is_where_a_server_listens_not_what_that_is_called(host):
    with socket.create_server((host, 0)) as listener:
        hosts = allowed_hosts(None, listener.getsockname()[0])
    assert refused(hosts, "evil.example") == "evil.example"


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0"])
def test_a_server_for_others_allows_all_names_unless_some_are_listed(address):
    assert allowed_hosts(None, address) is None
    assert refused(allowed_hosts(["a.example"], address), "b.example") == "b.example"


@pytest.mark.parametrize(
    "name",
    ["", "http://a.example", "a.example:8501", "*.a.example", "a..example", "a.example.", "a/b", "a b"],
)
def test_names_that_no_request_can_have_are_refused(name):
    with pytest.raises(ValueError, match="--allowed_hosts must be names such as") as error:
        check_names(["b.example", name])
    assert str(error.value).endswith(f"Received: {name!r}")
    check_names(["localhost", ".a.example", "b\u00fccher.example", "::1", "10.0.0.1", "*"])


def test_nothing_is_answered_to_another_name(model_folder, model_configs):
    models = InProcess(model_folder, model_configs, hosts=AllowedHosts())
    for method, path in [
        ("POST", "/v1/models/affine:predict"),
        ("GET", "/v1/models/affine"),
        ("OPTIONS", "/v1/models/affine"),
        ("GET", "/monitoring/prometheus/metrics"),
        ("GET", "/"),
    ]:
        body = b'{"instances": [1]}'
        status, headers, answer = models.ask(method, path, body, [("Host", "evil.example:8501")])
        assert (status, headers["connection"]) == (403, "close")
        error = "The host evil.example:8501 is not allowed (--allowed_hosts)"
        assert json.loads(answer) == {"error": error}
        status, _, _ = models.ask(method, path, body, [("Host", "127.0.0.1:8501")])
        assert status in (200, 400, 404)
