"""`convnlp.training.progress`: what a log file gets."""

from convnlp.training import progress


def lines(capsys, steps, seconds_per_step, num_steps, start=0):
    now = [100.0]
    shown = progress.Lines(num_steps, start, clock=lambda: now[0])
    for _ in range(steps):
        now[0] += 10 * seconds_per_step
        shown.set_postfix({"loss": "3.45", "tok/s": "22,290"}, refresh=False)
        shown.update(10)
    shown.close()
    return capsys.readouterr().err.splitlines()


def test_a_line_every_half_minute_and_at_the_end(capsys):
    found = lines(capsys, 20, 1.0, 200)
    assert found[0] == "step 10 of 200, loss 3.45, tok/s 22,290"  # compiling counts there
    assert found[1] == "step 40 of 200, loss 3.45, tok/s 22,290, 2 min 40 s left"
    assert [line.split(",")[0] for line in found] == [
        f"step {step} of 200" for step in (10, 40, 70, 100, 130, 160, 190, 200)
    ]
    assert found[-1] == "step 200 of 200, loss 3.45, tok/s 22,290"


def test_a_resumed_run_knows_its_own_speed(capsys):
    found = lines(capsys, 3, 2.0, 1_040, start=1_000)
    assert found[1] == "step 1,030 of 1,040, loss 3.45, tok/s 22,290, 20 s left"


def test_what_is_left_follows_the_pace_of_now(capsys):
    """Not the mean since the start, in which the compiling of the first steps would stay."""
    now = [0.0]
    shown = progress.Lines(1_000, 0, clock=lambda: now[0])
    for seconds, steps in ((60, 10), (30, 30), (30, 60)):
        now[0] += seconds
        shown.update(steps)
    assert [line.partition(", ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "",
        "16 min 0 s left",
        "7 min 30 s left",
    ]


def test_nothing_is_said_without_a_step(capsys):
    shown = progress.Lines(100, 50)
    shown.update(0)
    assert capsys.readouterr().err == ""
