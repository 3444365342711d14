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
    assert found[0] == "step 10 of 200, loss 3.45, tok/s 22,290, 3 min 10 s left"
    assert [line.split(",")[0] for line in found] == [
        f"step {step} of 200" for step in (10, 40, 70, 100, 130, 160, 190, 200)
    ]
    assert found[-1] == "step 200 of 200, loss 3.45, tok/s 22,290"


def test_a_resumed_run_knows_its_own_speed(capsys):
    found = lines(capsys, 1, 2.0, 1_020, start=1_000)
    assert found == ["step 1,010 of 1,020, loss 3.45, tok/s 22,290, 20 s left"]


def test_nothing_is_said_without_a_step(capsys):
    shown = progress.Lines(100, 50)
    shown.update(0)
    assert capsys.readouterr().err == ""
