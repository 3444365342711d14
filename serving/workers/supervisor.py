"""The process that starts the workers of a server, keeps them in step, and ends after the last of them."""

import collections
import dataclasses
import gc
import os
import selectors
import signal
import socket
import sys
import time

from convnlp.serving.core.drain import SIGNALS
from convnlp.serving.workers.channel import Channel
from convnlp.serving.workers.metrics_page import merged
from convnlp.serving.workers.passes import PUT_OFF, Pass
from convnlp.serving.workers.worker import Worker

_PAGE_SECONDS = 2.0  # how long to wait for a worker's metrics before its previous page is shown
_LONGEST_PAUSE_SECONDS = 60.0  # before restarting a worker that fails before it serves
_GRACE_SECONDS = 5.0  # for a worker to end by itself after its time to drain
_POLL_SECONDS = 0.01  # between two looks whether a worker has ended
_MAX_RELOAD_PASSES = 3  # directories that keep changing would put a version off again and again


@dataclasses.dataclass
class _Member:
    """A worker, from the supervisor's view."""

    number: int
    pid: int
    channel: Channel
    has_begun: bool = False  # whether it has been told to load
    is_ready: bool = False
    served: set = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class _Question:
    """A worker's request for the metrics of all workers, which are being collected."""

    asker: _Member
    number: int
    deadline: float
    missing: set


@dataclasses.dataclass
class _Reload:
    """A worker's request to serve a new configuration."""

    asker: _Member
    number: int
    configs: list
    passes: int = 0
    errors: list = dataclasses.field(default_factory=list)
    was_put_off: bool = False  # whether a version was, in the current pass

    def begin_pass(self):
        """Begins another pass of all workers, which finds its own errors."""
        self.passes += 1
        self.errors, self.was_put_off = [], False

    @property
    def needs_another_pass(self):
        """Whether a version is still to be loaded that not all workers had found."""
        return self.was_put_off and not self.errors and self.passes < _MAX_RELOAD_PASSES

    @property
    def error(self):
        """The first error, as (code, message), or None."""
        if self.errors:
            return self.errors[0]
        if self.was_put_off:
            return "UNAVAILABLE", "a version is not served yet, because not all workers have found it"
        return None


class Supervisor:
    """Forks workers, and does what only one process can do for all of them.

    It has no threads and no models, so it can fork at any time. A worker that dies is replaced at once, or
    after a growing pause if it had not begun to serve. The supervisor begins the `Pass`es in which versions
    are loaded, passes a new configuration from one worker on to all, and merges the metrics of all. After
    SIGTERM or Ctrl-C it sends SIGTERM to all workers, and ends when they have ended; if it dies, they end.

    Args:
        num_workers: int >= 2.
        sockets: list of socket. The listener and reserved ports, which it holds for the workers until it
            ends.
        drain_seconds: float. The longest time from SIGTERM to the end of a worker.
        poll_seconds: float. Seconds between two looks for new versions; 0 for never.
        config_poll_seconds: float. The same for the file that names the models.
        on_ready: Callable. Called with a sorted list of (name, version) when all serve for the first time.
    """

    def __init__(
        self, num_workers, sockets, drain_seconds, poll_seconds, config_poll_seconds, on_ready=lambda _: None
    ):
        self._num_workers = num_workers
        self._sockets = sockets
        self._drain_seconds = drain_seconds
        self._polls = {"versions": poll_seconds, "configs": config_poll_seconds}
        self._looked = dict.fromkeys(self._polls, time.monotonic())
        self._on_ready = on_ready
        self._selector = selectors.DefaultSelector()
        self._members = {}
        self._was_ready = False
        self._starts = dict.fromkeys(range(1, num_workers + 1), 0.0)  # number of a worker -> when to fork it
        self._failures = collections.Counter()  # how often in a row a worker has failed before it served
        self._ends = {}  # number -> (pid, how it ended), for workers to be replaced
        self._pass = None
        self._reloads = collections.deque()
        self._reload = None  # the one whose pass is under way
        self._configs = None  # of the last reload
        self._questions = {}
        self._num_questions = 0
        self._pages = {}  # the last page of each worker
        self._kill_at = None  # set when the server is stopping
        self._exit_code = 0

    def run(self):
        """Starts the workers and looks after them.

        Returns:
            In each worker: its `Worker`, with SIGTERM and SIGINT blocked.

        Raises:
            SystemExit: in this process, once all workers have ended; its code is 0 if they all ended well.
        """
        gc.collect()
        gc.freeze()  # otherwise each worker would copy all the memory that it shares with the others
        receiver, sender = socket.socketpair()
        receiver.setblocking(False)
        sender.setblocking(False)
        signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, lambda *_: None)  # otherwise it would not arrive at the socket
        self._selector.register(receiver, selectors.EVENT_READ)
        while True:
            for number in [number for number, at in self._starts.items() if at <= time.monotonic()]:
                if worker := self._fork(number, (receiver, sender)):
                    return worker
            if self._kill_at is not None and not self._members:
                sys.exit(self._exit_code)
            self._begin_pass()
            self._watch()
            for key, _ in self._selector.select(self._seconds_to_next()):
                if key.fileobj is receiver:
                    if set(receiver.recv(64)) & set(SIGNALS):
                        self._stop()
                elif self._members.get(key.data.number) is key.data:
                    self._exchange(key.data)
            self._do_what_is_due()

    def _fork(self, number, own):
        """Starts a worker; returns `Worker` in the new process, and None in this one."""
        del self._starts[number]
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until the worker has its own handlers
        sys.stdout.flush()
        sys.stderr.flush()
        pair = ()
        try:
            pair = ours, its = socket.socketpair()
            pid = os.fork()
        except OSError as error:  # no memory, or too many processes or files, perhaps only for the moment
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            for each in pair:
                each.close()
            self._put_off_fork(number, f"worker {number} cannot be started: {error.strerror.lower()}")
            return None
        if not pid:
            os.setpgid(0, 0)  # Ctrl-C is for the supervisor
            signal.set_wakeup_fd(-1)
            self._selector.close()
            for each in (*own, ours, *(member.channel for member in self._members.values())):
                each.close()
            return Worker(number, its)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        its.close()
        member = self._members[number] = _Member(number, pid, Channel(ours))
        self._selector.register(member.channel, selectors.EVENT_READ, member)
        if number in self._ends:
            old, how = self._ends.pop(number)
            self._say(f"worker {number}, process {old}, {how}; process {pid} takes its place")
        return None

    def _put_off_fork(self, number, reason):
        """Tries again later to start a worker, unless the server has never been ready."""
        if not self._was_ready:
            self._fail(reason)
            return
        self._say(reason)
        self._starts[number] = time.monotonic() + self._next_pause(number)

    def _next_pause(self, number):
        """Returns how long to wait, in seconds, before a worker that has failed is started again."""
        pause = min(2.0 ** self._failures[number], _LONGEST_PAUSE_SECONDS)
        self._failures[number] += 1
        return pause

    def _exchange(self, member):
        """Sends pending messages and handles those that have arrived."""
        member.channel.flush()
        messages = member.channel.receive()
        if messages is None:
            self._bury(member)
        for message in messages or ():
            {
                "wait": self._has_met,
                "done": self._is_through,
                "failed": self._has_failed,
                "page": self._has_page,
                "ask_page": self._asks_page,
                "ask_reload": self._asks_reload,
            }[message["type"]](member, message)

    def _bury(self, member):
        """Handles the end of a worker."""
        self._selector.unregister(member.channel)
        member.channel.close()
        code = _exit_code(member.pid)
        del self._members[member.number]
        for question in list(self._questions.values()):
            self._answer_page(question, member.number)
        if self._pass:
            self._tell(self._pass.leave(member.number))
        if self._kill_at is not None:
            self._exit_code = self._exit_code or int(code != 0)
            return
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"has ended with {code}"
        if not self._was_ready:
            self._fail(f"worker {member.number} {how} before it served")
            return
        if member.is_ready:
            self._failures[member.number] = 0
        pause = 0.0 if member.is_ready else self._next_pause(member.number)
        self._ends[member.number] = member.pid, how
        self._starts[member.number] = time.monotonic() + pause

    def _has_failed(self, member, message):
        """A worker cannot serve, and is about to end."""
        text = message["message"]
        if self._was_ready:
            self._say(f"worker {member.number} does not serve: {text}")
        elif self._kill_at is None:
            self._fail(text)

    def _fail(self, text):
        """Stops everything because the server cannot start."""
        self._say(f"error: {text}")
        self._exit_code = 1
        self._stop()

    def _stop(self):
        """Closes the sockets, and tells all workers to end."""
        if self._kill_at is not None:
            return
        self._kill_at = time.monotonic() + self._drain_seconds + _GRACE_SECONDS
        self._starts.clear()
        for each in self._sockets:
            each.close()
        for member in self._members.values():
            os.kill(member.pid, signal.SIGTERM)

    def _begin_pass(self):
        """Begins a pass of all workers, if there is something to do and no pass is under way."""
        if self._pass or self._kill_at is not None:
            return
        begun = [member for member in self._members.values() if member.has_begun]
        new = [member for member in self._members.values() if not member.has_begun]
        due = {what: self._is_due(what) for what in self._polls}
        if not (new or (begun and (self._reloads or any(due.values())))):
            return
        order = {"do": "look", **due}
        if self._reloads and not new:
            self._reload = self._reloads[0]
            self._reload.begin_pass()
            order = {"do": "reload", "configs": self._reload.configs}
        elif new:
            order = {"do": "look", "versions": True, "configs": due["configs"]}
        kept = sorted(set().union(*(member.served for member in begun)))
        self._pass = Pass({member.number: member.served for member in self._members.values()})
        now = time.monotonic()
        self._looked.update({what: now for what in self._polls if order.get(what)})
        for member in begun:
            member.channel.send(order)
        for member in new:
            member.has_begun = True
            member.channel.send({"do": "begin", "configs": self._configs, "kept": kept})

    def _is_due(self, what):
        seconds = self._polls[what]
        return bool(seconds) and time.monotonic() >= self._looked[what] + seconds

    def _has_met(self, member, message):
        """Handles the message of a worker that waits for the decision on a version."""
        self._tell(self._pass.wait(member.number, tuple(message["key"]), message["error"]))

    def _is_through(self, member, message):
        """Handles the message of a worker that is through a pass."""
        member.served = {tuple(key) for key in message["served"]}
        if message.get("put_off"):  # it has nothing to serve yet, and will try again
            member.has_begun = False
        else:
            member.is_ready = True
        if self._reload:
            self._reload.errors += [message["error"]] if message["error"] else []
            if message["adopted"]:
                self._configs = self._reload.configs
        self._tell(self._pass.end(member.number))

    def _tell(self, verdicts):
        """Tells workers the verdicts, and ends the pass if all are through."""
        for number, verdict in verdicts:
            self._members[number].channel.send({"do": "decided", **verdict})
            if self._reload and verdict is PUT_OFF:
                self._reload.was_put_off = True
        if not self._pass.is_over:
            return
        self._pass = None
        if self._reload and not self._reload.needs_another_pass:
            self._reloads.popleft()
            self._answer(self._reload.asker, self._reload.number, error=self._reload.error)
        self._reload = None
        ready = [member.is_ready for member in self._members.values()]
        if not self._was_ready and all(ready) and len(ready) == self._num_workers:
            self._was_ready = True
            self._on_ready(sorted(set().union(*(member.served for member in self._members.values()))))

    def _asks_reload(self, member, message):
        """Handles the message of a worker that has received a new configuration."""
        self._reloads.append(_Reload(member, message["question"], message["configs"]))

    def _asks_page(self, member, message):
        """Handles the message of a worker that was asked for the metrics."""
        self._num_questions += 1
        ready = {other.number for other in self._members.values() if other.is_ready}
        deadline = time.monotonic() + _PAGE_SECONDS
        question = _Question(member, message["question"], deadline, ready)
        self._questions[self._num_questions] = question
        for number in sorted(ready):
            self._members[number].channel.send({"do": "page", "question": self._num_questions})

    def _has_page(self, member, message):
        """Handles a worker's own metrics."""
        self._pages[member.number] = message["page"]
        if question := self._questions.get(message["question"]):
            self._answer_page(question, member.number)

    def _answer_page(self, question, number):
        """Sends the merged page to whoever asked, if this worker was the last one missing."""
        question.missing.discard(number)
        if question.missing:
            return
        self._questions = {name: each for name, each in self._questions.items() if each is not question}
        self._answer(question.asker, question.number, page=merged(self._pages))

    def _answer(self, asker, question, **content):
        """Answers a worker, unless it has died: the one in its place has not asked."""
        if self._members.get(asker.number) is asker:
            asker.channel.send({"do": "answer", "question": question, **content})

    def _watch(self):
        """Has the selector report channels with more to send, too, when they accept it."""
        for member in self._members.values():
            events = selectors.EVENT_READ | selectors.EVENT_WRITE * member.channel.has_more_to_send
            self._selector.modify(member.channel, events, member)

    def _seconds_to_next(self):
        """Returns the time in seconds until something is due, or None."""
        moments = [*self._starts.values(), *(each.deadline for each in self._questions.values())]
        if self._kill_at is not None:
            moments.append(self._kill_at)
        elif not self._pass:
            moments += [self._looked[what] + seconds for what, seconds in self._polls.items() if seconds]
        return max(min(moments) - time.monotonic(), 0) if moments else None

    def _do_what_is_due(self):
        now = time.monotonic()
        for question in list(self._questions.values()):
            if question.deadline <= now:
                question.missing.clear()
                self._answer_page(question, None)
        if self._kill_at is not None and self._kill_at <= now:
            for member in self._members.values():
                os.kill(member.pid, signal.SIGKILL)
            self._kill_at = now + _GRACE_SECONDS

    @staticmethod
    def _say(text):
        print(text, file=sys.stderr, flush=True)


def _exit_code(pid):
    """Returns the exit code of a worker that is ending, and kills it if that takes too long."""
    deadline = time.monotonic() + _GRACE_SECONDS
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    return os.waitstatus_to_exitcode(ended[1])
