"""A process that loads one variant and answers the requests of `benchmarks.inferring.turns`, one per line.

    python -m benchmarks.inferring.worker VARIANT PATH THREADS ASKS

It imports nothing that belongs to another variant, because its memory and its start are measured too.
"""

import json
import os
import sys

from benchmarks import machine, processes, timing
from benchmarks.inferring import asks, runners
from benchmarks.inferring.variants import VARIANTS


def main(key, path, threads, asks_path):
    """Loads the variant, answers the first text, then the requests on standard input."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print goes to the log
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[-int(threads) :])  # additional threads of a tool share these cores
    machine.tune_allocator()
    asked = asks.read(asks_path)
    runner = runners.load(VARIANTS[key], path, int(threads))
    runner.answer(asked[asks.ONE_BY_ONE].batches[0])
    samplers = {}

    def reply(request):
        if request["do"] == "peak":
            return {"bytes": processes.resident("VmHWM")}
        ask = asked[request["ask"]]
        answer = runner.answer if ask.is_text else runner.run
        if request["do"] == "answer":
            return {"outputs": answer(ask.batches[0]).tolist()}
        if request["do"] == "warm_up":
            samplers[ask.name] = timing.Sampler(lambda: [answer(batch) for batch in ask.batches])
            return samplers[ask.name].warm_up()
        return vars(samplers[ask.name].sample())

    def say(message):
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    say({"bytes": processes.resident("VmHWM")})
    for line in sys.stdin:
        try:
            say(reply(json.loads(line)))
        except Exception as failure:  # whatever a tool raises, the other variants go on
            say({"error": f"{type(failure).__name__}: {failure}".splitlines()[0]})


if __name__ == "__main__":
    main(*sys.argv[1:])
