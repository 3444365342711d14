"""Results of other threads on the event loop."""

import asyncio
import threading
from concurrent.futures import Future

import pytest

from convnlp.serving.rest.inbox import Inbox


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts how often other threads wake it."""

    wakeups = 0

    def call_soon_threadsafe(self, callback, *args, context=None):
        self.wakeups += 1
        return super().call_soon_threadsafe(callback, *args, context=context)


def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_a_batch_of_results_wakes_the_loop_once():
    async def wait():
        loop = asyncio.get_running_loop()
        inbox = Inbox(loop)
        futures = [Future() for _ in range(5)]
        waiting = [asyncio.ensure_future(inbox.result(future)) for future in futures]
        await asyncio.sleep(0)
        before = loop.wakeups
        in_thread(lambda: [future.set_result(index) for index, future in enumerate(futures)])
        return await asyncio.gather(*waiting), loop.wakeups - before

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        assert runner.run(wait()) == ([0, 1, 2, 3, 4], 1)


def test_results_that_come_later_wake_it_again():
    async def wait():
        inbox = Inbox(asyncio.get_running_loop())
        for index in range(3):
            future = Future()
            waiting = asyncio.ensure_future(inbox.result(future))
            await asyncio.sleep(0)
            in_thread(lambda future=future, index=index: future.set_result(index))
            assert await waiting == index

    asyncio.run(wait())


def test_no_result_is_lost_between_two_threads():
    async def wait():
        inbox = Inbox(asyncio.get_running_loop())
        futures = [Future() for _ in range(2000)]
        waiting = [asyncio.ensure_future(inbox.result(future)) for future in futures]
        await asyncio.sleep(0)
        for half in (futures[::2], futures[1::2]):
            threading.Thread(target=lambda half=half: [future.set_result(1) for future in half]).start()
        return sum(await asyncio.wait_for(asyncio.gather(*waiting), 60))

    assert asyncio.run(wait()) == 2000


def test_errors_and_finished_futures():
    async def wait():
        inbox = Inbox(asyncio.get_running_loop())
        done, failed = Future(), Future()
        done.set_result("there already")
        failed.set_exception(ValueError("wrong"))
        assert await inbox.result(done) == "there already"
        with pytest.raises(ValueError, match="wrong"):
            await inbox.result(failed)

    asyncio.run(wait())


def test_a_wait_that_is_cancelled_cancels_the_future():
    async def wait():
        inbox = Inbox(asyncio.get_running_loop())
        queued, running = Future(), Future()
        running.set_running_or_notify_cancel()
        for future in (queued, running):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(inbox.result(future), 0.01)
        assert queued.cancelled()
        running.set_result("too late")
        await asyncio.sleep(0)

    asyncio.run(wait())


def test_a_result_for_a_closed_loop_is_dropped(caplog):
    future = Future()

    async def leave():
        task = asyncio.ensure_future(Inbox(asyncio.get_running_loop()).result(future))
        await asyncio.sleep(0)
        task.cancel()

    future.set_running_or_notify_cancel()
    asyncio.run(leave())
    future.set_result("nobody waits")
    assert caplog.messages == []  # a future logs what its callbacks raise
