"""Runs a Session for one choice of inputs and outputs, prepared once: this halves the cost of a small run.

Being able to stop a run early (see `stop_switch`) costs as much as a few layers of a small model, and the
Session prepares a second graph for it and keeps that in memory. So the first run, and any run that follows a
short one, cannot be stopped, but gets only one second as a trial. If it takes longer, it is started again as
a run that can be stopped, like all later runs (if it was the first run, like those until a run is short).
"""

import functools
import time

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from convnlp.serving.core.stop_switch import POOL

# It is not worthwhile to stop a run that ends within this time anyway.
_SHORT_SECONDS = 0.1
_MAX_TRIAL_MS = 1000


class PreparedRun:
    """Runs a graph, always with the same tensors fed and fetched.

    Args:
        session: tf.compat.v1.Session.
        switches: `StopSwitches` of the Session.
        feeds: tuple of str. The names of the tensors to feed.
        fetches: tuple of str. The names of the tensors to return.
        timeout_ms: int. How long a run may take; 0 for no limit.
    """

    _is_new = True  # the first run creates kernels, so its time says little
    _was_short = True
    _was_too_long = False  # whether a trial other than the first has ever timed out

    def __init__(self, session, switches, feeds, fetches, timeout_ms):
        self._session = session
        self._switches = switches
        self._feeds = feeds
        self._fetches = fetches
        self._timeout_ms = timeout_ms
        self._trial_ms = min(timeout_ms or _MAX_TRIAL_MS, _MAX_TRIAL_MS)

    def __call__(self, values, cancellation=None):
        """Runs the graph.

        Args:
            values: sequence of array. The values to feed.
            cancellation: `Cancellation` or None. May stop the run early.

        Returns:
            list of array, one per fetch.

        Raises:
            tf.errors.OpError: the error of the op that failed, or DeadlineExceededError after the time-out.
            UnicodeDecodeError: the same, if its message, which is then `object`, is not UTF-8.
            ServingError: CANCELLED, if nobody waits for the run any more.
        """
        if self._was_short and not self._was_too_long:
            trial = self._trial
            is_new, self._is_new = self._is_new, False
            started = time.monotonic()
            try:
                outputs = trial(*values)
            except tf.errors.DeadlineExceededError:
                if self._trial_ms == self._timeout_ms:
                    raise
                self._was_short, self._was_too_long = False, not is_new
            else:
                self._was_short = is_new or time.monotonic() < started + _SHORT_SECONDS
                if not self._was_short:
                    _ = self._stoppable  # prepares it now, not during the next request
                return outputs
        stoppable = self._stoppable
        if cancellation:
            cancellation.check()
        started = time.monotonic()
        try:
            outputs = self._switches.run(stoppable, values, cancellation)
        except tf.errors.DeadlineExceededError:
            raise
        except (tf.errors.OpError, UnicodeDecodeError):  # see `Servable.run`
            if cancellation:
                cancellation.check()
            # An op of the model has failed. The run is repeated without our ops, for the real server's
            # message.
            return self._plain(*values)
        self._was_short = time.monotonic() < started + _SHORT_SECONDS
        return outputs

    @functools.cached_property
    def _stoppable(self):
        feeds, targets = (*self._feeds, self._switches.feed), self._switches.targets(self._fetches)
        return self._prepared(feeds, self._timeout_ms, targets, POOL)

    @functools.cached_property
    def _trial(self):
        return self._prepared(self._feeds, self._trial_ms)

    @functools.cached_property
    def _plain(self):
        return self._prepared(self._feeds, self._timeout_ms)

    def _prepared(self, feeds, timeout_ms, targets=(), pool=0):
        options = config_pb2.CallableOptions(
            feed=feeds,
            fetch=self._fetches,
            target=targets,
            run_options=config_pb2.RunOptions(timeout_in_ms=timeout_ms, inter_op_thread_pool=pool),
        )
        return self._session._make_callable_from_options(options)
