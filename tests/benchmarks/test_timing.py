import pytest

from benchmarks import timing


def test_candidates_take_turns():
    order = []
    candidates = {name: lambda name=name: order.append(name) for name in "abc"}
    timings = timing.interleaved(candidates, repeats=3, warmup=2, min_seconds=0, others=lambda: 0.0)
    assert "".join(order) == "aabbcc" + "abc" * 3
    assert [len(timings[name].samples) for name in "abc"] == [3, 3, 3]


def test_a_sample_is_as_many_calls_as_fill_the_time():
    calls = []
    timings = timing.interleaved(
        {"work": lambda: calls.append(sum(range(20000)))}, repeats=1, min_seconds=0.05, others=lambda: 0.0
    )
    assert timings["work"].calls > 1
    assert len(calls) == 2 + timings["work"].calls // 2 + timings["work"].calls


@pytest.mark.parametrize(("seconds", "uncounted"), [(0.02, 2), (0.06, 1), (0.3, 1), (0.6, 0)])
def test_what_the_one_before_left_behind_does_not_count(monkeypatch, seconds, uncounted):
    now, calls = [0.0], []
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])

    def work():
        slow = 2 <= len(calls) < 2 + uncounted  # after the warm-up, as after another candidate
        calls.append(slow)
        now[0] += seconds * (3 if slow else 1)

    result = timing.interleaved({"work": work}, repeats=1, min_seconds=0.1, others=lambda: 0.0)["work"]
    assert len(calls) == 2 + uncounted + result.calls
    assert result.samples == [pytest.approx(seconds)]


def test_disturbed_samples_are_dropped_and_taken_again():
    # Called before and after each sample: others are busy during the second and third of four.
    readings = iter([0, 0, 0, 1000, 1000, 2000, 2000, 2000])
    result = timing.interleaved(
        {"work": lambda: None}, repeats=2, min_seconds=0, others=lambda: next(readings)
    )["work"]
    assert (len(result.samples), result.disturbed) == (2, 2)


def test_where_no_sample_is_quiet_all_are_kept_and_counted():
    readings = iter(range(0, 100000, 1000))
    result = timing.interleaved(
        {"work": lambda: None}, repeats=2, max_rounds=3, min_seconds=0, others=lambda: next(readings)
    )["work"]
    assert (len(result.samples), result.disturbed) == (3, 3)


def test_median_and_spread():
    result = timing.Timing([3.0, 1.0, 2.0, 10.0], disturbed=0, calls=1, cpu_seconds=1.0)
    assert result.median == 2.5
    assert result.spread == 1.0  # deviations 0.5, 1.5, 0.5, 7.5
    assert result.summary(1000)["samples"] == [3000.0, 1000.0, 2000.0, 10000.0]


def test_other_cpu_seconds_do_not_count_our_own_work():
    if timing.other_cpu_seconds() == 0.0:
        pytest.skip("no /proc/stat on this system")
    before = timing.other_cpu_seconds()
    assert timing.other_cpu_seconds() - before < 1
