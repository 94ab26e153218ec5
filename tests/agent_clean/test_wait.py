"""The wait for free memory: by memory, with one deadline, on a clock of the test's own."""

from deployer.agent.clean.wait import PAUSE, until_free
from deployer.protocol.facts import ComputeApp, Gpu, GpuError, GpuReading

A, B = "GPU-a", "GPU-b"


def reading(*used, apps=(), errors=()):
    gpus = (Gpu(index, (A, B)[index], memory_total_mib=100_000, memory_used_mib=mib) for index, mib in enumerate(used))
    return GpuReading(tuple(gpus), tuple(apps), tuple(errors))


def wait(readings, staying=(), silent=(), limit=60.0, patience=5.0, gpus=(A, B)):
    now = [0.0]
    told = []
    left = list(readings)

    def read(timeout):
        assert timeout > 0
        now[0] += 0.05
        return left.pop(0) if len(left) > 1 else left[0]

    def sleep(seconds):
        now[0] += seconds

    waited = until_free(frozenset(gpus), frozenset(staying), frozenset(silent), lambda event, data: told.append(data),
                        limit=limit, patience=patience, read=read, clock=lambda: now[0], sleep=sleep)
    return waited, told


def test_it_ends_with_the_question_that_finds_the_memory_free():
    waited, _ = wait([reading(5000, 0)] * 10 + [reading(3, 0)])
    assert not waited.left and waited.fell is False
    assert waited.seconds <= 11 * (PAUSE + 0.05) + 0.001


def test_one_question_is_enough_where_it_is_free():
    waited, told = wait([reading(17, 0)])
    assert (waited.left, round(waited.seconds, 2), told) == ((), 0.05, [])


def test_memory_that_falls_is_waited_for_up_to_the_deadline():
    waited, told = wait([reading(90_000 - step * 100, 0) for step in range(2000)], limit=60.0)
    assert waited.fell and waited.left[0][0].index == 0 and 60 <= waited.seconds < 61
    assert told and "GPU 0" in told[0]["text"]


def test_memory_that_does_not_fall_is_no_teardown():
    waited, _ = wait([reading(83_501, 0)])
    assert waited.left[0][1] == 83_501 and not waited.fell and 5 <= waited.seconds < 5.5


def test_those_who_stay_explain_what_they_hold():
    apps = [ComputeApp(7, A, "x", 40_000)]
    assert not wait([reading(40_100, 0, apps=apps)], staying={7})[0].left
    assert wait([reading(40_100, 0, apps=apps)])[0].left
    assert wait([reading(50_100, 0, apps=apps)], staying={7})[0].left[0][1] == 10_100
    assert not wait([reading(40_100, 0)], silent={A})[0].left, "its amount is not known: nothing can be said"


def test_only_the_gpus_asked_for():
    assert not wait([reading(0, 50_000)], gpus=(A,))[0].left


def test_gpus_without_figures_are_free_when_no_row_is_left():
    rows = [ComputeApp(7, A, "x", 40_000)]
    waited, _ = wait([reading(None, None, apps=rows)] * 3 + [reading(None, None)])
    assert not waited.left and waited.seconds > 0.3


def test_a_hanging_nvidia_smi_is_no_free_memory():
    waited, _ = wait([GpuReading(errors=(GpuError("hang"),))])
    assert not waited.answered and waited.seconds < 1
