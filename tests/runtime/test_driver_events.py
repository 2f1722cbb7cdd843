"""Events of the emulated driver: ages, auto-reset, waiting, and the event page, against KFD's rules."""

from __future__ import annotations

import ctypes
import errno
import mmap
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders.driver_library import FIRST_GPU_ID, GTT, HARDWARE, MEMORY, SIGNAL, Driver, Wait

if TYPE_CHECKING:
    from collections.abc import Sequence

COMPLETE, TIMEOUT, FAIL = 0, 1, 2
SET, RESET, DESTROY = 0xA, 0xB, 0x9
FOREVER = 0xFFFFFFFE


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    """Return a driver with two GPUs."""
    return Driver.load(tmp_path_factory.mktemp("driver"))


def waiting(driver: Driver, events: Sequence[tuple[int, int]], pool: ThreadPoolExecutor, *, wait_for_all: bool = False) -> object:
    """Start a wait for ever in another thread, and return its future after it had time to sleep."""
    future = pool.submit(driver.wait, list(events), timeout=FOREVER, wait_for_all=wait_for_all)
    time.sleep(0.05)
    assert not future.done()
    return future


class TestWait:
    """WAIT_EVENTS."""

    def test_auto_reset_event_is_consumed_by_one_wait(self, driver: Driver) -> None:
        event = driver.event()
        driver.change_event(SET, event)

        first, second = driver.wait([(event, 0)]), driver.wait([(event, 0)])

        assert (first.error, first.result) == (0, COMPLETE)
        assert (second.error, second.result) == (0, TIMEOUT)

    def test_manual_event_stays_set_until_reset(self, driver: Driver) -> None:
        event = driver.event(auto_reset=False)
        driver.change_event(SET, event)
        before = [driver.wait([(event, 0)]).result for _ in range(2)]
        driver.change_event(RESET, event)

        assert before == [COMPLETE, COMPLETE]
        assert driver.wait([(event, 0)]).result == TIMEOUT

    def test_an_older_age_does_not_wait_and_receives_the_newer(self, driver: Driver) -> None:
        event = driver.event()
        at_first = driver.wait([(event, 1)])
        driver.change_event(SET, event)
        driver.change_event(SET, event)

        activated = driver.wait([(event, 1)])
        same_age = driver.wait([(event, 3)])

        assert at_first.result == TIMEOUT
        assert at_first.payloads[0][0] == 1
        assert activated.result == COMPLETE
        assert activated.payloads[0][0] == 3
        assert same_age.result == TIMEOUT

    def test_a_thread_that_ignores_the_age_it_was_told_waits_for_the_next_setting(self, driver: Driver) -> None:
        event = driver.event()
        driver.change_event(SET, event)
        told = driver.wait([(event, 1)])
        repeated = driver.wait([(event, 1)])
        with ThreadPoolExecutor(1) as pool:
            in_another_thread = pool.submit(driver.wait, [(event, 1)]).result(timeout=10)
        driver.change_event(SET, event)
        after_setting = driver.wait([(event, 1)])

        assert (told.result, told.payloads[0][0]) == (COMPLETE, 2)
        assert repeated.result == TIMEOUT
        assert (in_another_thread.result, in_another_thread.payloads[0][0]) == (COMPLETE, 2)
        assert (after_setting.result, after_setting.payloads[0][0]) == (COMPLETE, 3)

    def test_a_new_event_with_the_id_of_a_destroyed_one_was_told_to_no_thread(self, driver: Driver) -> None:
        old = driver.event()
        driver.change_event(SET, old)
        driver.change_event(SET, old)
        driver.wait([(old, 0)])
        assert driver.wait([(old, 1)]).payloads[0][0] == 3
        driver.change_event(DESTROY, old)
        new = driver.event()
        driver.change_event(SET, new)
        driver.change_event(SET, new)
        driver.wait([(new, 0)])

        assert new == old
        assert driver.wait([(new, 1)]).payloads[0][0] == 3

    def test_age_0_is_not_compared_and_not_written(self, driver: Driver) -> None:
        event = driver.event()
        driver.change_event(SET, event)
        driver.wait([(event, 0)])
        assert driver.wait([(event, 0)]).result == TIMEOUT
        driver.change_event(SET, event)
        assert driver.wait([(event, 0)]).payloads[0][0] == 0

    def test_setting_activates_all_present_waiters_and_leaves_nothing(self, driver: Driver) -> None:
        event = driver.event()
        with ThreadPoolExecutor(3) as pool:
            waits = [waiting(driver, [(event, 0)], pool) for _ in range(3)]
            driver.change_event(SET, event)
            results = [wait.result(timeout=10) for wait in waits]  # type: ignore[attr-defined]

        assert [result.result for result in results] == [COMPLETE] * 3
        assert driver.wait([(event, 0)]).result == TIMEOUT

    def test_wait_for_all_needs_each_event_once(self, driver: Driver) -> None:
        first, second = driver.event(), driver.event()
        with ThreadPoolExecutor(1) as pool:
            wait = waiting(driver, [(first, 0), (second, 0)], pool, wait_for_all=True)
            driver.change_event(SET, first)
            time.sleep(0.05)
            assert not wait.done()  # type: ignore[attr-defined]
            driver.change_event(SET, second)
            assert wait.result(timeout=10).result == COMPLETE  # type: ignore[attr-defined]

    def test_timeout_is_in_milliseconds(self, driver: Driver) -> None:
        event = driver.event()
        start = time.monotonic()
        result = driver.wait([(event, 0)], timeout=80)
        elapsed = time.monotonic() - start
        assert result.result == TIMEOUT
        assert 0.079 < elapsed < 2

    def test_destroyed_event_ends_its_waits(self, driver: Driver) -> None:
        event = driver.event()
        with ThreadPoolExecutor(1) as pool:
            wait = waiting(driver, [(event, 0)], pool)
            driver.change_event(DESTROY, event)
            result: Wait = wait.result(timeout=10)  # type: ignore[attr-defined]
        assert (result.error, result.result) == (errno.EIO, FAIL)
        assert driver.wait([(event, 0)]).error == errno.EINVAL
        with pytest.raises(OSError, match="Invalid argument"):
            driver.change_event(SET, event)

    def test_exceptions_carry_their_data(self, driver: Driver) -> None:
        memory, hardware = driver.event(MEMORY), driver.event(HARDWARE)
        library = driver.library
        library.drv_event_memory_fault(FIRST_GPU_ID + 1, ctypes.c_uint64(0x7F1234567ABC), 1, 0)
        library.drv_event_hardware_exception(FIRST_GPU_ID, 0)

        of_memory, of_hardware = driver.wait([(memory, 0)]), driver.wait([(hardware, 0)])

        # failure: NotPresent, ReadOnly, NoExecute, imprecise; address of the page; GPU and error type.
        assert of_memory.result == COMPLETE
        assert of_memory.payloads[0] == (1, 0, 0x7F1234567000, FIRST_GPU_ID + 1)
        assert of_hardware.result == COMPLETE
        # reset type and cause; loss of memory and GPU
        assert of_hardware.payloads[0][:2] == (0, 1 | FIRST_GPU_ID << 32)
        for event in (memory, hardware):
            with pytest.raises(OSError, match="Invalid argument"):
                driver.change_event(SET, event)
            driver.change_event(DESTROY, event)

    def test_many_threads_lose_no_signal(self, driver: Driver) -> None:
        """Ping-pong over two auto-reset events between two threads, 2,000 times."""
        ping, pong = driver.event(), driver.event()

        def answer() -> int:
            for _ in range(2000):
                assert driver.wait([(ping, 0)], timeout=10_000).result == COMPLETE
                driver.change_event(SET, pong)
            return 0

        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(answer)
            for _ in range(2000):
                driver.change_event(SET, ping)
                assert driver.wait([(pong, 0)], timeout=10_000).result == COMPLETE
            assert other.result(timeout=10) == 0


class Model:
    """KFD's rules for calls of one thread that do not sleep, and the rule for ages that the thread ignores."""

    def __init__(self, *, auto_reset: bool) -> None:
        self.auto_reset, self.is_set, self.age, self.told = auto_reset, False, 1, 0

    def set(self) -> None:
        """Set the event; nobody waits."""
        self.is_set, self.age = True, self.age + 1

    def poll(self, age: int) -> tuple[int, int]:
        """Return the result of a wait that does not sleep, and the age that it gives."""
        activated = self.is_set or (age not in (0, self.age) and self.told != self.age)
        if activated and age:
            self.told = self.age
        self.is_set = self.is_set and not self.auto_reset
        return (COMPLETE, self.age if age else 0) if activated else (TIMEOUT, age)


STEPS = st.lists(st.one_of(st.just("set"), st.just("reset"), st.integers(0, 6)), max_size=30)


@given(auto_reset=st.booleans(), steps=STEPS)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_sequences_equal_the_rules(driver: Driver, auto_reset: bool, steps: list[str | int]) -> None:
    event, model = driver.event(auto_reset=auto_reset), Model(auto_reset=auto_reset)
    for step in steps:
        if step == "set":
            driver.change_event(SET, event)
            model.set()
        elif step == "reset":
            driver.change_event(RESET, event)
            model.is_set = False
        else:
            result = driver.wait([(event, int(step))])
            assert (result.result, result.payloads[0][0]) == model.poll(int(step))
    driver.change_event(DESTROY, event)


def test_event_page(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The first event brings the page; a store to a slot by a kernel sets the event at the next scan."""
    driver = Driver.load(tmp_path_factory.mktemp("driver"))
    block = driver.allocate(4096 * 8, flags=GTT)
    first = driver.event(SIGNAL, page=block.handle)
    second = driver.event()
    with mmap.mmap(driver.file, 4096 * 8, offset=block.mmap_offset) as page:
        slots = memoryview(page).cast("Q")
        unsignaled = slots[first], slots[second]
        slots[second] = 1
        driver.library.drv_events_scan()
        after = slots[second]
        slots.release()

    assert first == 1
    assert unsignaled == (2**64 - 1, 2**64 - 1)
    assert after == 2**64 - 1
    assert driver.wait([(second, 0)]).result == COMPLETE
    assert driver.wait([(first, 0)]).result == TIMEOUT
    with pytest.raises(OSError, match="not permitted"):
        driver.free(block.handle)
    with pytest.raises(OSError, match="Invalid argument"):
        driver.event(page=block.handle)
    # 4096 slots, of which 0 is reserved and 2 are in use.
    for _ in range(4096 - 3):
        driver.event()
    with pytest.raises(OSError, match="No space"):
        driver.event()
