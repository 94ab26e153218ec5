"""Host memory, disks, directories and the Python environment."""

from __future__ import annotations

import re

from deployer.agent.log.causes.memory import place
from deployer.agent.log.known import Known
from deployer.agent.log.signs import HINT, RAISED, SAID, Cause, Seen, sign
from deployer.protocol import patterns

_SHM = patterns.compile(r"/dev/shm|shared memory|</torch_")
_PATH = patterns.compile(r"'(/[^']*)'|\"(/[^\"]*)\"|(?:: |at )(/\S+?)(?: when|\.?$)")
_OUR_PROCESS = patterns.compile(r"sglang|python|sgl_|:: *sched", re.IGNORECASE)


def _dying_alone(known: Known, match: "re.Match[str]") -> bool:
    """A process that died by SIGKILL before anybody had reason to kill it."""
    return not known.armed and not known.stopping


def _oom(known: Known, seen: Seen) -> str:
    parts = []
    if known.host_pool or known.arg("enable_hierarchical_cache").lower() == "true":
        ranks = known.number("tp_size")
        pool = known.host_pool
        figures = " ({:.0f} GB x {:.0f} ranks = {:.0f} GB pinned)".format(pool, ranks,
            pool * ranks) if pool and ranks else ""
        text = "take a smaller --hicache-size or --hicache-ratio{}: each rank checks for itself alone"
        parts.append(text.format(figures))
    else:
        parts.append("free host memory or load less at once (with a hierarchical cache: smaller --hicache-size, "
                     "--hicache-ratio)")
    parts.append("raise MemoryMax= of the unit if it has one")
    return (
        "The kernel ended a process for want of host memory: {}. `dmesg -T | grep -i oom` or `journalctl -k` names it."
    ).format(
        ", ".join(parts))


def _hicache(known: Known, seen: Seen) -> str:
    match = re.search(r"Requesting ([\d.]+) GB but only have ([\d.]+) GB", seen.text)
    figures = " (asked for {} GB, {} GB can be had)".format(match[1], match[2]) if match else ""
    ratio, size = known.arg("hicache_ratio"), known.arg("hicache_size", "0")
    now = " (now --hicache-size {})".format(size) if size not in ("0",
        "") else " (now --hicache-ratio {})".format(ratio) if ratio else ""
    return (
        "The host pool of the hierarchical cache does not fit into host memory{}: take a smaller --hicache-ratio or "
        "set --hicache-size in GB per rank{}. Each rank takes as much, and SGLang keeps 10 GiB free."
    ).format(figures, now)


def _pinned(known: Known, seen: Seen) -> str:
    size = " of {:.0f} GB".format(known.host_pool) if known.host_pool else ""
    return (
        "The host pool{} cannot be page-locked: set LimitMEMLOCK=infinity in the unit (an unprivileged container "
        "clamps it: compare /proc/MainPID/limits), or take a smaller --hicache-size, or from 0.5.19 on smaller pieces "
        "with SGLANG_HICACHE_HOST_REGISTER_CHUNK_GB."
    ).format(size)


def _path(seen: Seen) -> str:
    match = _PATH.search(seen.text)
    return next((part for part in match.groups() if part), "") if match else ""


def _permission(known: Known, seen: Seen) -> str:
    path = _path(seen)
    return (
        "{} cannot be written by the unit's user. Give the service a home and a cache: CacheDirectory=sglang with "
        "HOME, XDG_CACHE_HOME, HF_HOME, TRITON_CACHE_DIR and FLASHINFER_WORKSPACE_BASE pointing into it, and open the "
        "path in ProtectSystem=/ProtectHome= (ReadWritePaths=) where they are set."
    ).format(path or "A cache directory")


def _cache_path(known: Known, match: "re.Match[str]") -> bool:
    """Not the model: a model that cannot be read is another matter, and so is a port below 1024."""
    if "attempting to bind" in match.string or "error while attempting" in match.string:
        return False
    found = _PATH.search(match.string)
    path = next((part for part in found.groups() if part), "") if found else ""
    model = known.arg("model_path")
    return bool(path) and not (model.startswith("/") and path.startswith(model.rstrip("/"))) and not path.endswith(
        (".safetensors", "config.json", ".bin", ".gguf"))


def _disk(known: Known, seen: Seen) -> str:
    path = _path(seen)
    return (
        "The disk{} is full: look with `df -h`, free space, or move the caches (HF_HOME, TRITON_CACHE_DIR, "
        "SGLANG_CACHE_DIR) to a larger one."
    ).format(" under {}".format(path) if path else "")


def _real_disk(known: Known, match: "re.Match[str]") -> bool:
    return not _SHM.search(match.string)


def _shm(known: Known, seen: Seen) -> str:
    return (
        "/dev/shm is too small for the ranks to talk to each other: start the container with --shm-size=32g or "
        "--ipc=host (systemd units see the host's own /dev/shm: look with `df -h /dev/shm`)."
    )


def _python(known: Known, seen: Seen) -> str:
    text = seen.text
    if "cannot open shared object" in text or "shared object file" in text:
        match = re.search(r"(lib[\w.+-]+?\.so[\w.]*)", text)
        name = match[1] if match else "the library"
        package = " (package libnuma1 or numactl)" if name.startswith("libnuma") else ""
        return (
            "Install the system library that is missing: {}{}; CUDA libraries come with a torch and sgl-kernel that "
            "match."
        ).format(
            name, package)
    if "No module named" in text or "not installed" in text:
        match = re.search(r"No module named '?([\w.]+)", text)
        return (
            "{} is missing in this Python environment: check that ExecStart= uses the right venv, and install the "
            "release anew into it (with its own torch and sgl-kernel)."
        ).format(match[1] if match else "A package")
    return (
        "The Python environment does not fit together: reinstall torch and sgl-kernel (sglang-kernel in newer "
        "releases) in the versions that this SGLang release pins, best into a fresh venv."
    )


def _importing(known: Known, match: "re.Match[str]") -> bool:
    """Not the ImportError of a module that a compiler has just made, and none of a request."""
    return not known.timeline.ready_seen


def _out_of_host(known: Known, match: "re.Match[str]") -> bool:
    """CUDA says "out of memory" of page-locked host memory too."""
    return place(known, match.string) == "pinned-memory-failure"


def _while_pinning(known: Known, match: "re.Match[str]") -> bool:
    return known.pinning and not known.timeline.listening


CAUSES = (
    Cause("host-oom-kill", 12, "the kernel or the cgroup limit killed a process for host memory", _oom, (
        sign("killed by the OOM killer", kind=SAID, strength=4),
        sign("Killed process", r"(?:out of memory|cgroup out of memory).*Killed process \d+ \((?P<name>[^)]*)\)",
             HINT, 3,
             lambda known, match: bool(_OUR_PROCESS.search(match["name"]))),
        sign("exit code: -9", r"scheduler died during initialization \(exit code: -9\)", SAID, 2, _dying_alone),
        sign("xit code", r"^Exit code: -9\b|Subprocess \S+ \(pid=\d+\) crashed with exit code -9\b", SAID, 2,
             _dying_alone),
        sign("result 'oom-kill'", kind=SAID, strength=1),
        sign("due to memory", r"Killed \S+\.service due to memory (?:used|pressure)", HINT, 3),
    ), ("unknown", "start-limit-hit")),
    Cause("nccl-shm-too-small", 20, "/dev/shm is too small", _shm, (
        sign("shared memory segment", r"^(?:\S*Error: )?Error while (?:creating|attaching to) shared memory segment",
             RAISED, 3),
        sign("shared memory segment", r"NCCL WARN Error while (?:creating|attaching to) shared memory segment", HINT,
             3),
        sign("posix_fallocate", r"NCCL WARN Call to posix_fallocate failed", HINT, 2),
        sign("No space left on device",
             r"/dev/shm.*No space left|No space left.*/dev/shm|unable to (?:write|open|resize|mmap).*</torch_.*No "
             r"space left",
             RAISED, 2),
        sign("[Errno 28]", r"\[Errno 28\].*/dev/shm", RAISED, 2),
        sign("insufficient shared memory", strength=1),
    ), ("nccl-error", "scheduler-exception", "unknown", "peer-node-missing")),
    Cause("disk-full", 21, "a disk is full", _disk, (
        sign("[Errno 28]", r"\[Errno 28\]", RAISED, 3, _real_disk),
        sign("No space left on device", strength=2, when=_real_disk),
        sign("No space left on device", r"^\S+: .*No space left on device", RAISED, 2, _real_disk),
        sign("Not enough free disk space", strength=2),
    )),
    Cause("permission-denied-cache", 22, "a cache directory cannot be written", _permission, (
        sign("[Errno 13]", r"\[Errno 13\] [^:]*: (?P<path>'[^']*')", RAISED, 3, _cache_path),
        sign("[Errno 30]", r"\[Errno 30\] [^:]*: (?P<path>'[^']*')", RAISED, 3, _cache_path),
        sign("PermissionError at ", r"PermissionError at (?P<path>\S+) when downloading", RAISED, 2),
        sign("Could not determine home directory", strength=2),
        sign("No usable temporary directory found", strength=2),
        sign("[Errno 2]", r"\[Errno 2\] [^:]*: '(?:/nonexistent|/\.(?:cache|triton|config))\b", RAISED, 1),
        sign("ermission denied",
             r"(?:Permission denied|os error 13).*?(?P<path>/\S*cache\S*)|filesystem error: .*Permission denied",
             RAISED, 1, _cache_path),
    )),
    Cause("hicache-not-enough-host-memory", 31, "the host pool check of the hierarchical cache refuses", _hicache, (
        sign("Not enough host memory available. Requesting", strength=3),
        sign("Not enough host memory for", strength=2),
        sign("allocate memory", r"(?:DefaultCPUAllocator: can't|Cannot) allocate memory", RAISED, 1, _while_pinning),
    )),
    Cause("pinned-memory-failure", 31, "host memory cannot be page-locked", _pinned, (
        sign("cudaHostRegister", r"cudaHostRegister(?:\([^)]*\))? failed", RAISED, 3),
        sign("hipHostRegister failed", strength=3),
        sign("CUDA error: ", r"CUDA error: (?!device-side|an illegal|unspecified launch)", RAISED, 2, _while_pinning),
        sign("out of memory", r"out of memory", RAISED, 1, _out_of_host),
    )),
    Cause("python-env-broken", 40, "the Python environment is broken", _python, (
        sign("undefined symbol", strength=5),
        sign("symbol lookup error", r"^\S+: symbol lookup error: ", RAISED, 5),
        sign("shared object file", r"cannot open shared object file", RAISED, 4),
        sign("Error: lib", r"^(?:\S*(?:ImportError|OSError): )lib[\w.+-]+\.so[\w.]*: ", RAISED, 4),
        sign("version `GLIBC", strength=4),
        sign("version `GLIBC", r"^\S+: \S+: version `GLIBC", RAISED, 4),
        sign("error while loading shared libraries", r"^\S+: error while loading shared libraries: ", RAISED, 4),
        sign("No module named", r"^\S*python[\d.]*: .*No module named", RAISED, 3),
        sign("No module named", r"(?:ModuleNotFoundError: |python\S*: |\()?No module named", RAISED, 3, _importing),
        sign("cannot import name", strength=3, when=_importing),
        sign("Could not load any common_ops library", strength=2),
        sign("minimum required version", strength=3),
        sign("Torch not compiled with CUDA enabled", strength=3),
        sign("PackageNotFoundError", r"PackageNotFoundError: ", RAISED, 2),
        sign("following packages that were not found in your environment", strength=3),
        sign("torchvision::nms does not exist", strength=2),
        sign("ImportError", r"^(?:- )?ImportError: \S", RAISED, 1, _importing),
    )),
)
