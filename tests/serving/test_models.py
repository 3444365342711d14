"""Which versions are served: policies, labels, new and broken versions, on a loader without models."""

import itertools
import json
import os
import shutil
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from convnlp.serving.core import models, retries, version_directories
from convnlp.serving.core.errors import ServingError
from convnlp.serving.core.model_config import ModelConfig
from convnlp.serving.core.models import ModelManager
from convnlp.serving.rest.interface import status_json


class Fake:
    """A model that knows whether it has been closed."""

    def __init__(self, name, version, path):
        self.name, self.version, self.path = name, version, path
        self.closed = False

    def close(self):
        self.closed = True


def load(name, version, path):
    if (Path(path) / "broken").exists():
        raise ServingError("DATA_LOSS", "truncated\nand more")
    return Fake(name, version, path)


@pytest.fixture
def base(tmp_path):
    (tmp_path / "1").mkdir()
    return tmp_path


def manage(base, *, retries=5, any_labels=False, **policy):
    config = ModelConfig("m", str(base), **policy)
    manager = ModelManager([config], load, retries, retry_seconds=0, any_labels=any_labels)
    manager.load()
    return manager


def states(manager, name="m"):
    return {version: state.state for version, state in manager.status(name).items()}


def breaks(folder):
    folder.mkdir()
    (folder / "broken").touch()


def asked(manager, **which):
    """The version that answers."""
    servable = manager.acquire("m", **which)
    manager.release(servable)
    return servable.version


def test_policies_choose_among_the_versions_on_disk(tmp_path):
    for name in ("1", "2", "0010", "notes", "-3", "²"):
        (tmp_path / name).mkdir()
    path = str(tmp_path)
    assert ModelConfig("m", path).wanted() == {10: f"{path}/0010"}
    assert ModelConfig("m", path, num_latest=2).wanted() == {2: f"{path}/2", 10: f"{path}/0010"}
    assert ModelConfig("m", path, num_latest=None).wanted().keys() == {1, 2, 10}
    assert ModelConfig("m", path, versions=(1, 7)).wanted() == {1: f"{path}/1"}
    assert ModelConfig("m", f"{path}/none").wanted() == {}


def odd_entries(folder):
    """What may lie in a directory of versions and is none."""
    (folder / "77").symlink_to(folder / "77")
    (folder / "78").symlink_to(folder / "none")
    (folder / "79").write_text("a file")
    (folder / "9223372036854775808").mkdir()
    (folder / ("9" * 200)).mkdir()
    os.mkfifo(folder / "80")
    os.mkdir(os.fsencode(folder) + b"/\xff")


def test_odd_entries_stop_no_updates(base):
    odd_entries(base)
    manager = manage(base, num_latest=None)
    assert states(manager) == {1: "AVAILABLE"}
    (base / "2").mkdir()
    (base / "9223372036854775807").mkdir()
    manager.look()
    assert states(manager) == dict.fromkeys([2**63 - 1, 2, 1], "AVAILABLE")
    assert len(json.loads(status_json(manager.status("m")))["model_version_status"]) == 3


def test_of_two_names_of_a_version_the_shorter_one_counts(tmp_path):
    for name in ("01", "1", "001"):
        (tmp_path / name).mkdir()
    assert ModelConfig("m", str(tmp_path)).wanted() == {1: f"{tmp_path}/1"}


def test_a_directory_that_cannot_be_read_keeps_what_is_served(base, monkeypatch):
    manager = manage(base)

    def denied(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "listdir", denied)
    manager.look()
    assert states(manager) == {1: "AVAILABLE"}
    monkeypatch.undo()
    (base / "2").mkdir()
    manager.look()
    assert states(manager) == {2: "AVAILABLE", 1: "END"}


def test_a_model_whose_update_fails_stops_no_other(base, tmp_path_factory, monkeypatch, caplog):
    """Whatever it is that fails: the thread that watches goes on."""
    other = tmp_path_factory.mktemp("other")
    (other / "1").mkdir()
    configs = [ModelConfig("m", str(base)), ModelConfig("n", str(other))]
    manager = ModelManager(configs, load, retry_seconds=0)
    manager.load()
    wanted = ModelConfig.wanted
    rounds = itertools.count()

    def fails_for_m(config):
        if config.name == "m":
            raise RuntimeError("unforeseen")
        return wanted(config)

    def two_rounds(seconds):
        if next(rounds) == 2:
            raise SystemExit

    monkeypatch.setattr(ModelConfig, "wanted", fails_for_m)
    monkeypatch.setattr(time, "sleep", two_rounds)
    (other / "2").mkdir()
    with pytest.raises(SystemExit):
        models._repeat(manager.look, 1)
    assert states(manager, "n") == {2: "AVAILABLE", 1: "END"}
    assert "model m could not be updated" in caplog.text


def test_versions_and_labels_are_found(base):
    (base / "2").mkdir()
    manager = manage(base, any_labels=True, num_latest=None, labels={"stable": 1, "next": 3})
    assert (asked(manager), asked(manager, version=1), asked(manager, label="stable")) == (2, 1, 1)
    for which, error in {
        ("version", 3): r"Servable not found for request: Specific\(m, 3\)",
        ("label", "next"): r"Servable not found for request: Specific\(m, 3\)",
        ("label", "none"): "Unrecognized servable version label: none",
    }.items():
        with pytest.raises(ServingError, match=error):
            manager.acquire("m", **dict([which]))
    with pytest.raises(ServingError, match=r"Servable not found for request: Latest\(n\)"):
        manager.acquire("n")


def test_a_new_version_takes_over_and_the_old_one_ends_after_its_last_user(base):
    manager = manage(base)
    old = manager.acquire("m")
    (base / "2").mkdir()
    manager.look()
    assert states(manager) == {2: "AVAILABLE", 1: "UNLOADING"}
    assert asked(manager) == 2
    assert not old.closed
    manager.release(old)
    while states(manager)[1] != "END":
        time.sleep(0.01)
    assert old.closed
    assert manager._versions._users == {}


def test_a_broken_version_is_reported_and_the_old_one_keeps_serving(base):
    manager = manage(base, retries=2)
    breaks(base / "2")
    for state in ("LOADING", "LOADING", "END", "END"):
        manager.look()
        assert states(manager) == {2: state, 1: "AVAILABLE"}
        assert asked(manager) == 1
    status = manager.status("m", 2)[2]
    assert (status.error_code, status.error_message) == ("DATA_LOSS", "truncated")
    (base / "2" / "broken").unlink()  # given up, but the directory has changed
    manager.look()
    assert states(manager) == {2: "AVAILABLE", 1: "END"}


def test_a_broken_version_rests_before_it_is_retried_unless_its_directory_changes(base, monkeypatch):
    clock, attempts = SimpleNamespace(seconds=1000.0), []

    def failing(name, version, path):
        attempts.append(version)
        return load(name, version, path)

    monkeypatch.setattr(retries, "time", SimpleNamespace(monotonic=lambda: clock.seconds))
    manager = ModelManager([ModelConfig("m", str(base))], failing, max_retries=5, retry_seconds=60.0)
    manager.load()
    breaks(base / "2")
    for seconds, count in ((0, 1), (59, 1), (60, 2), (119, 2), (120, 3)):
        clock.seconds = 1000.0 + seconds
        manager.look()
        assert attempts.count(2) == count
    (base / "2" / "more").touch()
    manager.look()
    assert attempts.count(2) == 4
    assert attempts.count(1) == 1


def test_an_error_without_a_message_is_named_by_its_class(base):
    def out_of_memory(name, version, path):
        raise MemoryError

    with pytest.raises(ValueError, match="1 does not load: MemoryError"):
        ModelManager([ModelConfig("m", str(base))], out_of_memory).load()


def test_a_broken_version_that_is_gone_from_disk_is_not_tried_for_ever(base):
    manager = manage(base)
    breaks(base / "2")
    manager.look()
    assert states(manager) == {2: "LOADING", 1: "AVAILABLE"}
    shutil.rmtree(base / "2")
    manager.look()
    assert states(manager) == {2: "END", 1: "AVAILABLE"}
    assert list(manager.status("m")) == [2, 1]  # the newest first


def test_a_file_of_the_same_size_may_be_another(base):
    (base / "1" / "file").write_text("one")
    before = version_directories.fingerprint(base / "1")
    os.utime(base / "1" / "file", (0, 0))
    assert version_directories.fingerprint(base / "1") != before


def test_what_is_put_off_is_tried_at_the_next_look(base):
    def put_off(name, version, path):
        raise retries.PutOffError("later")

    tried = retries.Retries(put_off, max_retries=0, retry_seconds=60.0)
    state = tried.load("m", 1, base / "1")
    assert (state.state, state.error_message) == ("LOADING", "later")
    assert tried.is_due(tried.load("m", 1, base / "1", state), base / "1")


def test_a_model_that_is_named_twice_is_another_configuration(base):
    config = ModelConfig("m", str(base))
    manager = ModelManager([config], load)
    assert manager.has([config])
    assert not manager.has([config, config])


def test_a_version_that_is_gone_from_disk_is_dropped_but_not_the_last_one(base):
    (base / "2").mkdir()
    manager = manage(base, num_latest=None)
    (base / "2").rmdir()
    manager.look()
    assert states(manager) == {2: "END", 1: "AVAILABLE"}
    (base / "1").rmdir()
    manager.look()
    assert states(manager) == {2: "END", 1: "AVAILABLE"}
    (base / "2").mkdir()
    manager.look()
    assert states(manager) == {2: "AVAILABLE", 1: "END"}


def test_another_configuration_is_taken_over(base, tmp_path_factory):
    manager = manage(base)
    other = tmp_path_factory.mktemp("other")
    (other / "5").mkdir()
    manager.reload([ModelConfig("m", str(base)), ModelConfig("n", str(other))])
    assert manager.available() == [("m", 1), ("n", 5)]
    manager.reload([ModelConfig("n", str(other), labels={"stable": 5})])
    assert manager.available() == [("n", 5)]
    assert manager.acquire("n", label="stable").version == 5
    with pytest.raises(ServingError, match="assign label to version 7 of model n, which is not currently"):
        manager.reload([ModelConfig("n", str(other), labels={"next": 7})])
    assert manager.available() == [("n", 5)]
    with pytest.raises(ValueError, match="models must have different names"):
        manager.reload([ModelConfig("n", str(other)), ModelConfig("n", str(base))])


def test_a_label_that_is_in_use_moves_only_to_a_version_that_serves(base):
    """Even if labels may name versions that are not loaded, as in TF Serving."""
    manager = manage(base, any_labels=True, labels={"stable": 1})
    with pytest.raises(ServingError, match="assign label to version 7 of model m, which is not currently"):
        manager.reload([ModelConfig("m", str(base), labels={"stable": 7})])
    assert manager.acquire("m", label="stable").version == 1
    for _ in range(2):  # a new label, and one that stays
        manager.reload([ModelConfig("m", str(base), labels={"stable": 1, "next": 7})])
    (base / "7").mkdir()
    manager.look()
    manager.reload([ModelConfig("m", str(base), labels={"stable": 7})])
    assert manager.acquire("m", label="stable").version == 7


def test_a_version_that_failed_before_is_no_error_of_a_reload_that_does_not_want_it(base):
    manager = manage(base, retries=0)
    breaks(base / "2")
    manager.look()
    with pytest.raises(ServingError, match="model m version 2: truncated"):
        manager.reload([ModelConfig("m", str(base), None)])
    manager.reload([ModelConfig("m", str(base), versions=(1,))])
    assert states(manager) == {2: "END", 1: "AVAILABLE"}
    (base / "2" / "broken").unlink()
    (base / "2").rmdir()
    manager.reload([ModelConfig("m", str(base))])
    assert manager.available() == [("m", 1)]


def test_whatever_is_wrong_with_a_configuration_the_next_look_follows(base, caplog):
    manager = manage(base)
    found = iter([RuntimeError("odd"), [ModelConfig("m", str(base), labels={"stable": 1})]])

    def read():
        if isinstance(configs := next(found), Exception):
            raise configs
        return configs

    manager.look_at_configs(read)
    assert "the new configuration is not served" in caplog.text
    manager.look_at_configs(read)
    assert manager.acquire("m", label="stable").version == 1


def test_a_new_configuration_with_a_version_that_does_not_load_is_served(base, caplog):
    manager = manage(base, retries=0)
    breaks(base / "2")
    configs = [ModelConfig("m", str(base), None, labels={"stable": 1})]
    manager.look_at_configs(lambda: configs)
    wrong = "DATA_LOSS: model m version 2: truncated"
    assert caplog.messages[-1].startswith(f"the new configuration is served, but not all of it: {wrong}")
    assert manager.acquire("m", label="stable").version == 1


def test_a_look_that_began_before_a_reload_brings_no_dropped_model_back(base, tmp_path_factory):
    manager = manage(base)
    other = tmp_path_factory.mktemp("other")
    (other / "5").mkdir()
    listed = list(manager._configs.values())  # as `look` does first
    manager.reload([ModelConfig("n", str(other))])
    for config in listed:
        manager._update(config)
    assert manager.available() == [("n", 5)]


def test_a_reload_says_which_versions_of_another_directory_are_not_loaded(base, tmp_path_factory, caplog):
    other = tmp_path_factory.mktemp("other")
    for version in "12":
        (other / version).mkdir()
    manager = manage(base)
    manager.reload([ModelConfig("m", str(base), None)])
    assert caplog.messages == []
    manager.reload([ModelConfig("m", str(other), None)])
    assert caplog.messages == [
        f"model m: versions [1] stay those of {base}; give those in {other} new numbers to serve them"
    ]
    served = {version: state.servable.path for version, state in manager.status("m").items()}
    assert served == {1: str(base / "1"), 2: str(other / "2")}


def test_reloads_at_the_same_time_come_one_after_the_other(base, tmp_path_factory):
    """The second one is told while the first one loads; each serves all of its models in turn."""
    paths = {name: tmp_path_factory.mktemp(name) for name in "ab"}
    for path in paths.values():
        (path / "1").mkdir()
    others, seen = [], []

    def load(name, version, path):
        if name == "a":
            others.append(threading.Thread(target=reload, args="b"))
            others[0].start()
            others[0].join(0.5)  # it waits
            seen.append(manager.names())
        return Fake(name, version, path)

    def reload(name):
        manager.reload([ModelConfig(name, str(paths[name]))])

    manager = ModelManager([ModelConfig("m", str(base))], load)
    manager.load()
    reload("a")
    others[0].join(60)
    assert seen == [["a"]]
    assert (manager.names(), manager.available()) == (["b"], [("b", 1)])


def test_the_last_user_of_a_dropped_model_takes_nothing_from_the_one_in_its_place(base, tmp_path_factory):
    manager = manage(base)
    other = tmp_path_factory.mktemp("other")
    (other / "5").mkdir()
    configs = [ModelConfig("m", str(base)), ModelConfig("n", str(other))]
    old = manager.acquire("m")
    for served in (configs[1:], configs, configs[1:], configs):
        manager.reload(served)
    before = {*threading.enumerate()}
    manager.release(old)
    for unloading in {*threading.enumerate()} - before:
        unloading.join()
    assert old.closed
    assert not manager.acquire("m").closed
    assert states(manager) == {1: "AVAILABLE"}


def test_a_model_that_is_taken_up_again_serves_though_a_request_uses_the_old_one(base, tmp_path_factory):
    manager = manage(base)
    other = tmp_path_factory.mktemp("other")
    (other / "5").mkdir()
    configs = [ModelConfig("m", str(base)), ModelConfig("n", str(other))]
    old = manager.acquire("m")
    manager.reload(configs[1:])
    assert states(manager) == {1: "UNLOADING"}
    manager.reload(configs)
    assert manager.available() == [("m", 1), ("n", 5)]
    assert manager.acquire("m") is not old
    assert not old.closed


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"labels": {"next": 2}}, "label next names version 2, which is not loaded"),
        ({"versions": (3,)}, r"there is none of the versions \[3\] in"),
    ],
)
def test_what_cannot_be_served_at_the_start_is_named(base, policy, message):
    with pytest.raises(ValueError, match=message):
        ModelManager([ModelConfig("m", str(base), **policy)], load).load()
    breaks(base / "2")
    with pytest.raises(ValueError, match="2 does not load: truncated"):
        ModelManager([ModelConfig("m", str(base))], load).load()


@pytest.mark.parametrize(
    ("files", "given", "reason"),
    [
        ([], "none", "there is no directory {base}/none"),
        (["a.txt"], "a.txt", "{base}/a.txt is a file, not a directory with versions"),
        (["a.txt"], "", "there is no version directory (1, 2, ...) in {base}"),
        (["m/1/saved_model.pb"], "m/1", "{none} in {base}/m/1; it is a version itself: give {base}/m"),
        (["m/saved_model.pb"], "m", "{none} in {base}/m; it is a SavedModel itself: move it to {base}/m/1"),
        (["m/config.json", "m/model.weights.h5"], "m", "{none} in {base}/m; it is a preset: export it"),
        (["b/1/saved_model.pb", "a/x", "c"], "", "{none} in {base}; there is one in {base}/b"),
    ],
)
def test_why_a_directory_has_no_version(tmp_path, files, given, reason):
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(ValueError) as caught:
        ModelManager([ModelConfig("m", str(tmp_path / given))], load).load()
    none = "there is no version directory (1, 2, ...)"
    assert str(caught.value) == f"model m: {reason.format(base=tmp_path, none=none)}"


def test_what_a_new_configuration_does_not_find_is_said(base, caplog):
    manager = manage(base, versions=(1, 7))
    assert caplog.messages == [f"model m: there is none of the versions [7] in {base}"]
    caplog.clear()
    manager.reload([ModelConfig("m", str(base)), ModelConfig("n", str(base / "none"))])
    assert caplog.messages == [f"model n: there is no directory {base}/none"]
    assert manager.available() == [("m", 1)]


def test_a_version_that_cannot_be_freed_stops_no_reload(base, tmp_path_factory, caplog):
    """Otherwise the other models would be dropped and loaded only in part, and never again looked at."""
    other = tmp_path_factory.mktemp("other")
    (other / "5").mkdir()
    configs = [ModelConfig(name, str(base)) for name in ("a", "b", "c")]

    class Stubborn(Fake):
        def close(self):
            super().close()
            raise RuntimeError("will not go")

    manager = ModelManager(configs, Stubborn)
    manager.load()
    manager.reload([ModelConfig("n", str(other))])
    assert manager.available() == [("n", 5)]
    assert [states(manager, name) for name in "abc"] == [{1: "END"}] * 3
    said = sorted(message for message in caplog.messages if "freed" in message)
    assert said == [f"model {name} version 1 could not be freed" for name in "abc"]


def test_a_dropped_model_says_that_a_request_still_uses_its_old_version(base, tmp_path_factory, caplog):
    caplog.set_level("INFO")
    other = tmp_path_factory.mktemp("other")
    (other / "5").mkdir()
    manager = manage(base)
    old = manager.acquire("m")
    (base / "2").mkdir()
    manager.look()
    assert states(manager) == {2: "AVAILABLE", 1: "UNLOADING"}
    manager.reload([ModelConfig("n", str(other))])
    assert states(manager) == {2: "END", 1: "UNLOADING"}
    manager.release(old)
    while states(manager)[1] != "END":
        time.sleep(0.01)
    assert old.closed
    ended = [message for message in caplog.messages if "no longer served" in message]
    assert ended == [f"model m version {version} is no longer served" for version in (1, 2)]


def test_what_is_served_can_be_listed_while_a_reload_brings_another_model(base, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "5").mkdir()
    configs = [ModelConfig("m", str(base)), ModelConfig("n", str(other))]
    reload = threading.Thread(target=lambda: manager.reload(configs))
    begin = []

    class Listed(Fake):
        def __bool__(self):
            if begin:
                begin.pop().start()
                reload.join(0.5)  # it waits until the list is complete
            return True

    manager = ModelManager(configs[:1], Listed)
    manager.load()
    begin.append(reload)
    assert manager.available() == [("m", 1)]
    reload.join(60)
    assert manager.available() == [("m", 1), ("n", 5)]


def test_a_version_that_comes_while_the_server_begins_is_served(base, monkeypatch):
    """It came after the look for versions, and before that for the reason why there is none."""
    wanted, looks = ModelConfig.wanted, itertools.count()
    monkeypatch.setattr(ModelConfig, "wanted", lambda config: wanted(config) if next(looks) else {})
    assert states(manage(base)) == {1: "AVAILABLE"}
