"""The command line: what argparse refuses. It ends with exit status 2 before anything is loaded."""

from __future__ import annotations

import re
from typing import Dict, List

from deployer.agent.log.known import Known
from deployer.agent.log.signs import SAID, Cause, Seen, sign

_ERROR = r"^[^:\n]{1,160}: error: "

SUCCESSORS: Dict[str, str] = {
    "--enable-ep-moe": "--ep-size", "--enable-deepep-moe": "--ep-size with --moe-a2a-backend deepep",
    "--enable-flashinfer-moe": "--moe-runner-backend",
        "--enable-flashinfer-cutlass-moe": "--moe-runner-backend flashinfer_cutlass",
    "--enable-flashinfer-trtllm-moe": "--moe-runner-backend flashinfer_trtllm",
    "--enable-triton-kernel-moe": "--moe-runner-backend triton_kernel",
    "--cuda-graph-max-bs": "--cuda-graph-max-bs-decode", "--cuda-graph-bs": "--cuda-graph-bs-decode",
    "--nsa-prefill-backend": "--dsa-prefill-backend", "--nsa-decode-backend": "--dsa-decode-backend",
    "--enable-prefill-context-parallel": "--enable-prefill-cp with --cp-strategy",
    "--mamba-scheduler-strategy": "--mamba-radix-cache-strategy",
    "--stream-output": "--incremental-streaming-output", "--grpc-mode": "--smg-grpc-mode",
    "--enable-piecewise-cuda-graph": "--cuda-graph-backend-prefill", "--model": "--model-path", "--ep": "--ep-size",
    "--disable-piecewise-cuda-graph": "--cuda-graph-backend-prefill disabled",
    "--enable-hicache": "--enable-hierarchical-cache", "--file-storage-pth": "--file-storage-path",
    "--disable-mla": "no argument (MLA is always on)",
}
"""Removed or not yet known argument -> what takes its place, from the parsers of the releases 0.4.0 to 0.5.23."""


def _names(text: str) -> List[str]:
    """The option names in ``text``; never a value, which may be a secret."""
    return list(dict.fromkeys(re.findall(r"(?<![\w-])(--[A-Za-z][\w-]*)", text)))


def _bad_flag(known: Known, seen: Seen) -> str:
    names = _names(seen.match["rest"]) if seen.match else []
    quoted = ", ".join("`{}`".format(name) for name in names)
    if seen.match and "are required" in seen.match[0]:
        return "Add what is missing: {}.".format(quoted or seen.match["rest"].strip())
    said = "; ".join("`{}` does not exist in this release{}".format(name, _instead(name)) for name in names)
    return (
        "{}. Drop or replace it; `deployer flags NAME` says which releases know an argument, `deployer check` finds "
        "it beforehand."
    ).format(said or "The server was given an argument that it does not know")


def _instead(name: str) -> str:
    if name in SUCCESSORS:
        return ": use {}".format(SUCCESSORS[name])
    if "_" in name:
        return ", write `{}` (in the --config file too: dashes, e.g. `api-key`)".format(name.replace("_", "-"))
    return ""


def _ambiguous(known: Known, seen: Seen) -> str:
    names = ["`{}`".format(name) for name in _names(seen.match["rest"])] if seen.match else []
    return "Write the full name: {} is only the beginning of several, {}.".format(
        names[0] if names else "the option", " or ".join(names[1:]) or "e.g. `--cuda-graph-max-bs-decode`"
    )


def _bad_choice(known: Known, seen: Seen) -> str:
    option = "`{}`".format(seen.match["option"]) if seen.match else "the argument"
    rest = seen.match["rest"] if seen.match else ""
    listed = re.search(r"choose from (.*?)\)?$", rest)
    if listed:
        allowed = listed[1].replace("'", "").strip(" {}")
        return "Give {} one of the values that this release allows: {}.".format(option, allowed)
    if "expected" in rest:
        return "Give {} its value ({}).".format(option, rest.strip())
    return (
        "Give {} a value of the kind that this release takes ({}); human-readable numbers such as 32k only from "
        "0.5.10 on."
    ).format(option, re.sub(r"value: .*", "value", rest).strip())


CAUSES = (
    Cause("bad-flag", 5, "an argument that this release does not know", _bad_flag, (
        sign("unrecognized arguments", _ERROR + r"unrecognized arguments: (?P<rest>.*)", SAID, 2),
        sign("are required", _ERROR + r"the following arguments are required: (?P<rest>.*)", SAID, 2),
    )),
    Cause("ambiguous-flag", 5, "an argument that is only the beginning of several", _ambiguous, (
        sign("ambiguous option", _ERROR + r"ambiguous option: (?P<rest>.*)", SAID, 2),
    )),
    Cause("bad-choice", 5, "a known argument with a value that this release does not allow", _bad_choice, (
        sign("error: argument ",
             _ERROR + r"argument (?P<option>(?:-[\w-]+|\w+)(?:/-[\w-]+)*): "
             r"(?P<rest>(?:invalid|expected|not allowed|ignored).*)",
             SAID, 2),
    )),
)
