"""nvidia-smi's answers: the recorded cases, and the same faults at other places."""

import json
from pathlib import Path

import pytest

from deployer.agent.door import Ran
from deployer.agent.facts.gpu import parse

CASES = sorted((Path(__file__).parent / "cases" / "nvidia-smi").iterdir())


def answer(out, code=0, err=""):
    return Ran(("nvidia-smi",), code, out, err, 0.0)


def case(folder):
    codes = [int(code) for code in (folder / "exit").read_text().split()]
    err = (folder / "stderr").read_text() if (folder / "stderr").exists() else ""

    def one(name, code):
        file = folder / f"{name}.out"
        return answer(file.read_bytes().decode("utf-8", "replace") if file.exists() else "", code, err)

    return one("gpus", codes[0]), one("apps", codes[1])


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_recorded(folder):
    expected = json.loads((folder / "expected.json").read_text())
    reading = parse(*case(folder))
    gpus = [{key: getattr(gpu, key) for key in ("index", "uuid", "name", "memory_total_mib", "memory_used_mib",
                                                "memory_free_mib", "mig")} for gpu in reading.gpus]
    assert gpus == expected["gpus"]
    keys = ("pid", "gpu_uuid", "name", "used_mib")
    processes = [{key: getattr(app, key) for key in keys} for app in reading.processes]
    assert processes == expected["processes"]
    assert {error.code for error in reading.errors} == {error["code"] for error in expected["errors"]}
    assert {error.bus_id for error in reading.errors if error.bus_id} == {
        error["bus_id"] for error in expected["errors"] if "bus_id" in error}


GPU = ("{0}, GPU-0000000{0}-5477-6172-272b-6631b4d0fdb5, 00000000:1{0}:00.0, NVIDIA L4, 23034, 900, 21670, 1, [N/A], "
       "580.95.05\n")
APP = "GPU-00000000-5477-6172-272b-6631b4d0fdb5, {}, {}, {}\n"
TWO = GPU.format(0) + GPU.format(1)


def codes(reading):
    return {error.code for error in reading.errors}


@pytest.mark.parametrize("cut", range(1, len(GPU.format(1)) - 1))
def test_a_row_cut_anywhere_loses_no_good_row(cut):
    reading = parse(answer(GPU.format(0) + GPU.format(1)[:cut], 255), answer(APP.format(7, "python3", 880)))
    assert reading.gpus[0].memory_used_mib == 900
    assert codes(reading) == {"partial"}
    assert all(gpu.memory_free_mib == 21670 for gpu in reading.gpus)


@pytest.mark.parametrize("cut", range(1, len(APP.format(8, "b, 1", 990)) - 1))
def test_a_cut_process_row_is_never_a_smaller_figure(cut):
    reading = parse(answer(TWO), answer(APP.format(7, "a", 880) + APP.format(8, "b, 1", 990)[:cut], 255))
    assert [(app.pid, app.used_mib) for app in reading.processes] == [(7, 880)]
    assert codes(reading) == {"partial"}


def test_no_last_line_end_of_a_good_exit_is_no_cut():
    reading = parse(answer(TWO.rstrip("\n")), answer(APP.format(7, "a", 880).rstrip("\n")))
    assert len(reading.gpus) == 2 and reading.processes[0].used_mib == 880 and not reading.errors


@pytest.mark.parametrize("field, code", [
    ("ERR!", {"err-field", "partial"}), ("[Unknown Error]", {"unknown-error", "partial"}),
    ("[GPU is lost]", {"gpu-lost", "partial"}), ("[Insufficient Permissions]", {"insufficient-permissions"}),
    ("[Not Supported]", set()), ("[N/A]", set()), ("N/A", set()),
    ("[GPU requires reset]", {"unknown-error", "partial"}),
])
@pytest.mark.parametrize("column", [3, 4, 5, 6, 7, 8, 9])
def test_a_missing_value_in_any_column(field, code, column):
    fields = GPU.format(1).strip().split(", ")
    fields[column] = field
    reading = parse(answer(GPU.format(0) + ", ".join(fields) + "\n"), answer(""))
    broken = reading.gpus[1]
    values = [None, None, None, broken.name, broken.memory_total_mib, broken.memory_used_mib, broken.memory_free_mib,
              broken.utilization, broken.mig, broken.driver]
    assert values[column] is None
    assert broken.uuid.startswith("GPU-00000001") and reading.gpus[0].memory_used_mib == 900
    assert codes(reading) == code


@pytest.mark.parametrize("field, code", [
    ("[Not Supported]", set()), ("[N/A]", set()), ("[Insufficient Permissions]", {"insufficient-permissions"}),
    ("[Unknown Error]", {"unknown-error", "partial"}), ("ERR!", {"err-field", "partial"}),
])
def test_memory_of_a_process_unknown(field, code):
    reading = parse(answer(TWO), answer(APP.format(7, "a", field) + APP.format(8, "b", 5)))
    assert [(app.pid, app.used_mib) for app in reading.processes] == [(7, None), (8, 5)]
    assert codes(reading) == code


LOST = ("Unable to determine the device handle for GPU2: 0000:4B:00.0: GPU is lost.  Reboot the system to recover this "
        "GPU\n")
UNKNOWN = "Unable to determine the device handle for GPU 0000:4B:00.0: Unknown Error\n"


@pytest.mark.parametrize("line, code", [(LOST, "gpu-lost"), (UNKNOWN, "unknown-error")])
@pytest.mark.parametrize("where", ["first", "between", "last", "stderr"])
def test_an_error_line_anywhere(line, code, where):
    between = GPU.format(0) + line + GPU.format(1)
    text = {"first": line + TWO, "between": between, "last": TWO + line, "stderr": TWO}[where]
    err = line if where == "stderr" else ""
    reading = parse(answer(text, 15 if code == "gpu-lost" else 255, err), answer(APP.format(7, "a", 1)))
    assert len(reading.gpus) == 2 and len(reading.processes) == 1
    assert codes(reading) == {code, "partial"}
    assert [error.bus_id for error in reading.errors if error.code == code] == ["0000:4B:00.0"]


@pytest.mark.parametrize("out, err, code, expected", [
    ("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95\n", "", 18,
     "driver-mismatch"),
    ("", "Failed to initialize NVML: Driver/library version mismatch\n", 18, "driver-mismatch"),
    ("", "", 18, "driver-mismatch"), ("", "", 9, "no-driver"), ("", "", 6, "no-devices"),
    ("No devices found\n", "", 0, "no-devices"),
    ("No devices were found\r\n", "", 0, "no-devices"), ("", "nvidia-smi: No such file or directory", 127, "no-driver"),
    ("Failed to initialize NVML: Driver Not Loaded\n", "", 9, "no-driver"),
    ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n", "", 12, "no-driver"),
    ("Failed to initialize NVML: GPU access blocked by the operating system\n", "", 17, "no-driver"),
    ("Failed to initialize NVML: Insufficient Permissions\n", "", 4, "insufficient-permissions"),
    ("Failed to initialize NVML: Unknown Error\n", "", 255, "unknown-error"), ("", "", 124, "hang"),
    ("", "", 255, "unknown-error"),
])
def test_the_whole_query_failed(out, err, code, expected):
    reading = parse(answer(out, code, err), answer(out, code, err))
    assert (reading.gpus, reading.processes, codes(reading)) == ((), (), {expected})


@pytest.mark.parametrize("hung", ["gpus", "apps"])
def test_one_query_hangs(hung):
    gpus, apps = answer(TWO), answer(APP.format(7, "a", 1))
    reading = parse(*((answer("", 124), apps) if hung == "gpus" else (gpus, answer("", 124))))
    assert codes(reading) == {"hang", "partial"}
    assert (len(reading.gpus), len(reading.processes)) == ((0, 1) if hung == "gpus" else (2, 0))


def test_names_keep_their_commas_and_blanks():
    gpus = GPU.format(0).replace("NVIDIA L4", "NVIDIA L4,rev 2").replace("\n", "\r\n")
    reading = parse(answer(gpus), answer(APP.format(7, "a,b , c, 12, [N/A]", 1) + APP.format(9, "", 3)))
    assert reading.gpus[0].name == "NVIDIA L4,rev 2" and reading.gpus[0].memory_total_mib == 23034
    assert [(app.name, app.used_mib) for app in reading.processes] == [("a,b , c, 12, [N/A]", 1), (None, 3)]


def test_a_warning_is_no_error_and_a_broken_piece_is_partial():
    warning = "WARNING: infoROM is corrupted at gpu 0000:2E:00.0\n"
    warned = parse(answer(warning + TWO, 14), answer("No running processes found\n"))
    assert len(warned.gpus) == 2 and not warned.errors
    broken = parse(answer(GPU.format(0) + "1, GPU-1, 0000\n0000:11:00.0, NVIDIA L4, 23034, 9\n"), answer(""))
    assert len(broken.gpus) == 1 and codes(broken) == {"partial"}


def test_an_unsupported_process_query_is_no_error():
    reading = parse(answer(TWO), answer("Not Supported\n", 3))
    assert len(reading.gpus) == 2 and not reading.errors
