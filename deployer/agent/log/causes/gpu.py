"""The GPU driver, the GPUs that are visible, and the kernels that run on them."""

from __future__ import annotations

import re

from deployer.agent.log.known import Known
from deployer.agent.log.signs import HINT, RAISED, Cause, Seen, sign


def _driver(known: Known, seen: Seen) -> str:
    match = re.search(r"found version (\d+)", seen.text)
    has = ""
    if match:
        version = int(match[1])
        has = " (it serves CUDA {}.{})".format(version // 1000, version % 1000 // 10)
    if "803" in seen.text or "804" in seen.text:
        return (
            "The NVIDIA driver and the CUDA libraries do not fit each other: after a driver upgrade reboot (or reload "
            "the kernel module), take CUDA compat libraries out of LD_LIBRARY_PATH, or install a newer driver."
        )
    return (
        "The NVIDIA driver{} is older than the CUDA build of torch needs: install a newer driver and reboot, or a "
        "torch and sgl-kernel built for the CUDA version of this driver (nvidia-smi shows it at the top right)."
    ).format(has)


def _no_device(known: Known, seen: Seen) -> str:
    if "ordinal" in seen.text:
        tp = known.arg("tp_size")
        return (
            "There are fewer GPUs than ranks: compare --tp-size{} (times --dp-size and --pp-size, from --base-gpu-id "
            "on) with `nvidia-smi -L` and with CUDA_VISIBLE_DEVICES of the unit (PrivateDevices= and DeviceAllow= "
            "hide GPUs too)."
        ).format(" {}".format(tp) if tp else "")
    return (
        "The process sees no GPU. Look at CUDA_VISIBLE_DEVICES in the unit, and at its sandbox: PrivateDevices=yes "
        "and a DeviceAllow= without /dev/nvidia* hide them. Then `nvidia-smi -L` as the unit's user; without a device "
        "there either the driver is not loaded. --tp-size must not exceed what is there."
    )


def _fabric(known: Known, seen: Seen) -> str:
    return (
        "The NVSwitch fabric is not up: start nvidia-fabricmanager (`systemctl enable --now nvidia-fabricmanager`) in "
        "exactly the version of the driver, and let the unit start After= it."
    )


def _arch(known: Known, seen: Seen) -> str:
    return (
        "The kernels are not built for this GPU generation: install wheels of torch and sgl-kernel that are (their "
        "CUDA version decides: sm_120 needs CUDA 12.8 or newer), take another SGLang release, another attention or "
        "MoE backend, or another GPU."
    )


def _jit(known: Known, seen: Seen) -> str:
    missing = re.search(r"(?:fatal error|Fehler|fatale|fatal): ([\w./-]+\.(?:h|hpp|cuh)):", seen.text)
    if missing and missing[1] == "Python.h":
        return (
            "Install the C headers of the interpreter (python3-dev of the same version) beside gcc; nvcc and "
            "CUDA_HOME are not the matter here."
        )
    return (
        "A kernel has to be compiled at the start and cannot{}: install the CUDA toolkit in the version of torch's "
        "CUDA with nvcc and headers, a C++ compiler and ninja, and set CUDA_HOME (and PATH, so that nvcc is found) in "
        "the unit. The memory settings that SGLang suggests beside it do not help."
    ).format(": {} is missing".format(missing[1]) if missing else "")


_FATAL = ("fatal error: ", "schwerwiegender Fehler: ", "Schwerwiegender Fehler: ", "erreur fatale", "error fatal: ",
          "errore irreversibile: ", "致命的エラー", "致命错误")
"""What gcc writes before an error that ends it, by locale."""
_COMPILER = r"^(?:\S+:\d+:\d+|g\+\+|gcc|cc1plus|cc|c\+\+|x86_64-linux-gnu-g\S+): {}"

CAUSES = (
    Cause("nvidia-driver-too-old", 14, "the driver is older than the CUDA build of torch", _driver, (
        sign("driver on your system is too old", strength=3),
        sign("driver on your system is too old", kind=HINT, strength=3),
        sign("driver version is insufficient", r"CUDA driver version is insufficient for CUDA runtime version",
             strength=2),
        sign("Error 803", r"Error 803: system has unsupported", strength=2),
        sign("Error 803", r"Error 803: system has unsupported", HINT, 2),
        sign("forward compatibility was attempted", strength=2),
        sign("forward compatibility was attempted", kind=HINT, strength=2),
    ), ("no-cuda-device", "scheduler-exception", "unknown")),
    Cause("fabric-manager-not-ready", 15, "an NVSwitch machine without a working fabric manager", _fabric, (
        sign("system not yet initialized", r"Error 802: system not yet initialized", strength=3),
        sign("system not yet initialized", r"Error 802: system not yet initialized", HINT, 3),
        sign("system not yet initialized", strength=2),
    ), ("no-cuda-device", "scheduler-exception", "unknown", "nccl-error")),
    Cause("no-cuda-device", 16, "no GPU visible, or fewer than the ranks need", _no_device, (
        sign("No accelerator (", strength=4),
        sign("No CUDA GPUs are available", strength=4),
        sign("invalid device ordinal", strength=4),
        sign("no CUDA-capable device is detected", strength=4),
        sign("Found no NVIDIA driver on your system", strength=4),
        sign("you might not have a CUDA gpu", strength=3),
        sign("No GPU memory values found", strength=2),
        sign("nvidia-smi not found", strength=2),
        sign("Can't initialize NVML", kind=HINT, strength=1),
        sign("NVML_ERROR_DRIVER_NOT_LOADED", strength=2),
        sign("NVMLError_", r"NVMLError_(?:LibraryNotFound|DriverNotLoaded|NotFound|NoPermission): ", strength=2),
    ), ("unknown",)),
    Cause("jit-compile-failed", 33, "a kernel must be compiled at the start and cannot", _jit, (
        *(sign(words, _COMPILER.format(words), strength=9) for words in _FATAL),
        sign("Could not find nvcc", strength=8),
        sign("nvcc fatal", r"^nvcc fatal\s*:", strength=8),
        sign("ptxas", r"ptxas fatal\s*:|^ptxas .*: error", strength=8),
        sign("cannot find -l", r"^\S*ld: cannot find -l", strength=8),
        sign("Failed to find C compiler", strength=7),
        sign("CUDA_HOME environment variable is not set", strength=7),
        sign("Ninja is required to load C++ extensions", strength=7),
        sign("[Errno 2]", r"\[Errno 2\] [^:]*: '(?P<path>(?:[^']*/)?(?:ninja|nvcc|gcc|g\+\+|c\+\+|ptxas))'",
             strength=7),
        sign(" error: ", r"^\S+\.(?:cu|cuh|cpp|cc|h|hpp)(?:\(\d+\)|:\d+:\d+): error: ", strength=6),
        sign("not found", r"^(?:/bin/)?sh: (?:line )?\d+: .*\b(?:nvcc|ninja|gcc|g\+\+|c\+\+): not found", strength=6),
        sign("Error building extension", strength=4),
        sign("Triton PTX codegen error", strength=4),
        sign("NVCC compilation failed", strength=4),
        sign("inja build failed", strength=3),
        sign("build stopped: subcommand failed", r"^ninja: build stopped", strength=3),
        sign("ninja exited with status", strength=3),
        sign("returned non-zero exit status",
             r"Command '\[.*(?:ninja|nvcc|gcc|g\+\+|c\+\+|clang).* returned non-zero exit status", strength=2),
        sign("returned non-zero exit status",
             r"CalledProcessError: Command '.*(?:ninja|nvcc|gcc|g\+\+).*' returned non-zero exit status", strength=2),
    )),
    Cause("arch-kernel-missing", 36, "kernels are not built for this GPU generation", _arch, (
        sign("no kernel image is available for execution", strength=3),
        sign("kernel image", r"no kernel image is available", RAISED, 2),
        sign("is not compatible with the current PyTorch installation", kind=HINT, strength=1),
    ), ("unknown",)),
)
