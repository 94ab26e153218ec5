"""Ports, the other nodes, and the collective library between the ranks."""

from __future__ import annotations

import re

from deployer.agent.log.known import Known
from deployer.agent.log.signs import HINT, RAISED, SAID, Cause, Seen, sign

_TIMEOUT = r"(?:time[d]?[ -]?out|wait timeout|socket timeout)"


def _port(known: Known, seen: Seen) -> str:
    match = re.search(r"\('([^']*)', (\d+)", seen.text)
    port = match[2] if match else known.arg("port")
    text = "Give another --port{}, or stop the owner of {}: `ss -ltnp 'sport = :{}'` names it.".format(
        " than {}".format(port) if port else "", "port {}".format(port) if port else "this one", port or "PORT")
    return text + " Ready or warm-up lines after this are about the other program."


def _dist_port(known: Known, seen: Seen) -> str:
    match = re.search(
        r"dist_init_port=(\d+)|port: (\d+)|(?:\]|\d|\?):(\d+) \(errno|at (\d+) is not available|tcp://[^:]+:(\d+)",
        seen.text)
    port = next((group for group in match.groups() if group), "") if match else ""
    own = known.arg("port")
    return (
        "An internal port{} is taken: give another --dist-init-addr (with DP attention its port and the next few are "
        "used) or --nccl-port, or put --port{} at least 300 away from every other SGLang on this host (internal ports "
        "lie above it, the rendezvous at +233)."
    ).format(" ({})".format(port) if port else "", " (now {})".format(own) if own else "")


def _early(known: Known, match: "re.Match[str]") -> bool:
    return not known.timeline.capacity_seen


def _http(known: Known, match: "re.Match[str]") -> bool:
    return known.timeline.capacity_seen and not known.armed


def _peer(known: Known, seen: Seen) -> str:
    joined = re.search(r"(\d+/\d+) clients joined", seen.text)
    address = known.arg("dist_init_addr")
    return (
        "The other node does not join{}: start all nodes within the time limit (--dist-timeout), with the same "
        "--dist-init-addr{} and --nnodes and their own --node-rank; open the port in the firewall, and name the "
        "interface (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME) where a host has several."
    ).format(" ({})".format(joined[1]) if joined else "", " ({})".format(address) if address else "")


def _nodes(known: Known, match: "re.Match[str]") -> bool:
    """Where the log says that there is one node only, nobody else can be missing."""
    return known.nodes > 1 or "nnodes" not in known.args


def _nccl(known: Known, seen: Seen) -> str:
    text = "Start once with NCCL_DEBUG=INFO and read the NCCL WARN line before the error."
    lowered = seen.text.lower()
    if "duplicate gpu" in lowered:
        return text + " Two ranks were given the same GPU: compare CUDA_VISIBLE_DEVICES, --tp-size and --base-gpu-id."
    return text + (
        " GPUs without peer-to-peer access (consumer cards, an IOMMU in the way): NCCL_P2P_DISABLE=1 and "
        "--disable-custom-all-reduce. Over InfiniBand: NCCL_IB_HCA, NCCL_IB_GID_INDEX, NCCL_SOCKET_IFNAME, and "
        "LimitMEMLOCK=infinity."
    )


def _deepgemm(known: Known, seen: Seen) -> str:
    model = known.arg("model_path", "MODEL")
    tp = known.arg("tp_size", "N")
    return (
        "The kernels were still being compiled: compile them once beforehand with the server's own arguments (`python "
        "-m sglang.compile_deep_gemm --model {} --tp {}`), keep the cache (SGLANG_DG_CACHE_DIR on a disk that stays), "
        "and raise --dist-timeout."
    ).format(model, tp)


def timed_out(text: str) -> bool:
    """Whether a line tells of a wait that ended for its length."""
    return bool(re.search(_TIMEOUT, text, re.IGNORECASE))


CAUSES = (
    Cause("port-in-use", 10, "the HTTP port is taken", _port, (
        sign("error while attempting to bind on address", r"\[errno 98\] error while attempting to bind on address",
             SAID, 3),
        sign("[Errno 98]", r"^ERROR: +\[Errno 98\]", SAID, 2),
        sign("[Errno 98]", r"\[Errno 98\]", RAISED, 1, _http),
        sign("ddress already in use (os error 98)", kind=RAISED, strength=1, when=_http),
    )),
    Cause("dist-port-in-use", 44, "an internal port is taken", _dist_port, (
        sign("Port is already in use. dist_init_port=", r"^(?:\S+:\d+: )?Port is already in use\. dist_init_port=",
             SAID, 5),
        sign("EADDRINUSE", strength=4),
        sign("errno: 98", r"server socket has failed to .*\(errno: 98", RAISED, 4),
        sign(" is not available in ", r"\w+ at \d+ is not available in \d+ seconds", RAISED, 3),
        sign("ddress already in use", r"ZMQError: .*Address already in use", RAISED, 3),
        sign("[Errno 98]", r"\[Errno 98\]", RAISED, 2, _early),
        sign("EADDRINUSE", kind=HINT, strength=2),
    ), ("unknown", "scheduler-exception")),
    Cause("deepgemm-slow", 45, "a cold kernel cache: the start died of the compilation", _deepgemm, (
        sign("Entering DeepGEMM JIT Pre-Comp", kind=HINT, strength=3),
    ), ("nccl-error", "peer-node-missing", "watchdog-timeout", "scheduler-exception")),
    Cause("peer-node-missing", 46, "another node of the group never joins", _peer, (
        sign("clients joined", r"\d+/\d+ clients joined", RAISED, 5, _nodes),
        sign("client socket has", r"client socket has (?:timed out|failed to connect)", RAISED, 4, _nodes),
        sign("DistStoreError", r"DistStoreError: ", RAISED, 3, _nodes),
        sign("DistNetworkError", r"DistNetworkError: (?!.*(?:EADDRINUSE|errno: 98))", RAISED, 2, _nodes),
        sign("poll for socket", r"poll for socket .*(?:timeout|timed out)", RAISED, 3, _nodes),
        sign("TCP client failed to connect", r"TCP client failed to connect/validate to host", RAISED, 3, _nodes),
        sign("connectFullMesh failed", strength=2, when=_nodes),
        sign("Gloo", r"Gloo .*(?:timed out connecting|Connect timeout|Timed out waiting)", RAISED, 2, _nodes),
        sign("ncclUniqueId from [0]", r"store->get\(.*\) got error: " , RAISED, 2, _nodes),
        sign("poll for socket", r"poll for socket", HINT, 1, _nodes),
        sign("client socket has", r"client socket has (?:timed out|failed to connect)", HINT, 1, _nodes),
    ), ("unknown",)),
    Cause("nccl-error", 47, "the collective library fails", _nccl, (
        sign("NCCL error", r"NCCL error(?: in)?: ", RAISED, 5),
        sign("Duplicate GPU detected", strength=4),
        sign("nccl",
             r"\bnccl(?:UnhandledCudaError|SystemError|InternalError|InvalidUsage|InvalidArgument|RemoteError)\b",
                 RAISED, 3),
        sign("collective operation timeout", r"^(?:\[[^\]]{1,80}\] )*Watchdog caught collective operation timeout",
             RAISED, 2),
        sign("collective operation timeout", r"what\(\): .*Watchdog caught collective operation timeout", RAISED, 2),
        sign("failed or timed out", r"^(?:\[[^\]]{1,80}\] )*Some NCCL operations have failed or timed out",
             RAISED, 1),
        sign("wait timeout after", r"wait timeout after \d+ ?ms", RAISED, 1),
    )),
)
