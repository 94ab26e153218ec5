"""Every key of ``units/NAME.toml``, with its description: validation, JSON Schema and model in one place.

``units/annotated.toml`` shows each of them; a test holds the two together.
"""

from __future__ import annotations

import functools

from deployer.settings.model import (
    GpuSettings,
    Hook,
    HookSettings,
    LoadSettings,
    PromptSettings,
    VerifySettings,
    WatchSettings,
)
from deployer.settings.scalars import Duration, Flag, Number, Size, Text
from deployer.settings.shape import Field, ListOf, MapOf, Table
from deployer.settings.together import one_runtime, together, waits
from deployer.settings.values import Absolute, Argument, Devices, Directives, Outside, Release, Secret, Variable


def _runtime_fields(program: str, release: str, python: str) -> dict[str, Field]:
    return {
        "version": Field(
            Release(),
            f"The release of {program}, or a specifier of releases. The arguments are checked against it, and a push "
            "checks it against what the host has.",
            required=True,
            example=release,
        ),
        "python": Field(
            Absolute(), f"The host's Python interpreter that has {program}, usually of a venv.", example=python
        ),
    }


def _program_fields(program: str) -> dict[str, Field]:
    return {
        "wrapper": Field(
            ListOf(Text(empty=True), "a list of words", 1),
            f"A command put in front of {program}, word by word.",
            example=["numactl", "--interleave=all"],
        ),
        "allow-secrets-in-argv": Field(
            Flag(),
            "Consents to secrets on the command line, where every user of the host can read them. Only releases that "
            "cannot read them from a file need it (SGLang before 0.5.3).",
        ),
    }


def _hook_fields(policies: tuple[str, ...], policy_doc: str, example: list[str]) -> dict[str, Field]:
    return {
        "command": Field(
            ListOf(Text(empty=True), "a list of words", 1),
            "The command, word by word, run without a shell in the workspace. It finds DEPLOYER_HOOK_UNIT, "
            "DEPLOYER_HOOK_HOST, DEPLOYER_HOOK_RELEASE and, afterwards, DEPLOYER_HOOK_OUTCOME in its environment.",
            required=True,
            example=example,
        ),
        "timeout": Field(Duration(above_zero=True), "How long it may take.", example="1min"),
        "on-failure": Field(Text(choices=policies), policy_doc),
    }


_PROMPT = Table(
    {
        "text": Field(Text(), "What the server is asked.", required=True, example="The capital of France is"),
        "expect": Field(Text(), "What the answer must contain.", example="Paris"),
        "max-tokens": Field(Number("a number of tokens", 1), "How long the answer may become, in tokens."),
    },
    PromptSettings,
)

_LOAD = Table(
    {
        "requests": Field(Number("a number of requests", 1), "How many requests are sent.", required=True, example=32),
        "concurrency": Field(Number("a number of requests", 1), "How many of them at a time."),
        "tokens": Field(Number("a number of tokens", 1), "How long each answer is, in tokens."),
        "max-fall": Field(
            Number("a share", 0, 1, whole=False),
            "How far tokens a second may fall below the release before; 0.1 is 10 %. Not given: the fall is only told.",
            example=0.1,
        ),
    },
    LoadSettings,
)

_VERIFY = Table(
    {
        "deadline": Field(
            Duration(above_zero=True), "For the whole start, from systemctl start to good.", example="20min"
        ),
        "stall": Field(
            Duration(above_zero=True),
            "No progress of any kind (log, GPU memory, disk reads, CPU) for so long: stuck, not slow.",
            example="5min",
        ),
        "settle": Field(Duration(), "How long everything must stay good before the push is.", example="10s"),
        "drain": Field(
            Duration(),
            "How long a stop may wait for requests under way before it ends them; TimeoutStopSec covers it.",
            example="2min",
        ),
        "min-total-tokens": Field(
            Number("a number of tokens", 1),
            "The least KV cache that is good enough: max_total_num_tokens as SGLang reports it.",
            example=1_200_000,
        ),
        "min-gpu-memory-free": Field(
            Size(),
            "What must be left free on each declared GPU when the server is ready.",
            attr="min_gpu_memory_free_mib",
            example="4GiB",
        ),
        "gpu-memory-used": Field(
            Size(),
            "What the server is expected to hold on each declared GPU when ready; told when it differs by far.",
            attr="gpu_memory_used_mib",
            example="88GiB",
        ),
        "prompt": Field(_PROMPT, "One real request, answered by the new server before the push is good."),
        "load": Field(_LOAD, "A short measured load: time to first token, tokens a second, errors."),
        "outside": Field(
            Outside(),
            "Whether health is also asked from the operator's machine straight over the network, which finds firewalls "
            "and wrong interfaces; or the URL to ask there.",
        ),
        "restart": Field(
            Flag(),
            "Whether a push without changes starts a unit anew that is not good; false: it only says so.",
        ),
    },
    VerifySettings,
    waits,
)

_HOOKS = Table(
    {
        "before": Field(
            ListOf(
                Table(
                    _hook_fields(
                        ("stop", "warn"), "What its failure does: stop the push, or only warn.", ["./drain.sh", "gpu1"]
                    ),
                    Hook,
                ),
                "an array of tables, [[hooks.before]]",
            ),
            "Commands on the operator's machine before anything changes on the host, in order.",
        ),
        "after": Field(
            ListOf(
                Table(
                    _hook_fields(
                        ("warn",), "What its failure does: warn, since the push has ended by then.", ["./announce.sh"]
                    ),
                    functools.partial(Hook, on_failure="warn"),
                ),
                "an array of tables, [[hooks.after]]",
            ),
            "Commands on the operator's machine after the push, however it ended, in order.",
        ),
    },
    HookSettings,
)


UNIT = Table(
    {
        "description": Field(
            Text(), "What the unit serves; systemd shows it.", example="Qwen3.5-397B for coding agents"
        ),
        "template": Field(
            Text("the name of a template, without .j2", pattern=r"[A-Za-z0-9@_.:-]*[A-Za-z0-9@_:-]+\.(service)"),
            "The template of the unit file. The workspace's own templates/NAME.j2 comes before the packaged one.",
            example="sglang.service",
        ),
        "sglang": Field(
            Table(
                {
                    **_runtime_fields("SGLang", "0.5.9", "/opt/sglang/.venv/bin/python"),
                    "image": Field(
                        Text("an image"),
                        "A container image in place of python. Not supported yet: refused in words.",
                        example="lmsysorg/sglang:v0.5.9",
                    ),
                    **_program_fields("Python"),
                },
                check=one_runtime,
            ),
            "Which SGLang serves, and how it is started.",
            example={"version": "0.5.9"},
        ),
        "router": Field(
            Table(
                {
                    **_runtime_fields("sglang-router", "0.3.2", "/opt/router/.venv/bin/python"),
                    **_program_fields("Python"),
                },
                check=one_runtime,
            ),
            "In place of [sglang]: the unit runs sglang-router, and [args] are the router's.",
            example={"version": "0.3.2"},
        ),
        "args": Field(
            MapOf(Argument(), r"[A-Za-z][A-Za-z0-9_-]*", "the long name of an argument", alike=True),
            "The server's arguments by their long names. true: the flag; false: left out; a list: several values; "
            "a table: compact JSON.",
            example={"model-path": "/models/Qwen3.5-397B-A17B-NVFP4", "port": 30000, "tp-size": 8},
        ),
        "env": Field(
            MapOf(Variable(), r"[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable"),
            "Environment variables. Every user of the host can read them: secrets stand under [secrets].",
            example={"NCCL_P2P_LEVEL": "SYS"},
        ),
        "secrets": Field(
            MapOf(Secret(), r"[A-Za-z_][A-Za-z0-9_-]*", "the name of an argument or variable", alike=True),
            "Where secrets are: of the server's arguments (api-key) and of its environment (HF_TOKEN). They are "
            "resolved at push time, and stand neither in the unit nor on the command line, nor in what is printed.",
            example={"api-key": {"file": "secrets/qwen.key"}},
        ),
        "unit": Field(
            Directives(),
            "Directives of the unit file's [Unit], over the template's own.",
            example={"After": "mnt.mount"},
        ),
        "service": Field(
            Directives(),
            "Directives of the unit file's [Service], over the template's own; a list repeats the directive.",
            example={"User": "sglang"},
        ),
        "install": Field(
            Directives(),
            "Directives of the unit file's [Install], over the template's own.",
            example={"WantedBy": "multi-user.target"},
        ),
        "gpu": Field(
            Table(
                {
                    "devices": Field(
                        Devices(), 'The GPUs of this unit: "all", "none" (CPU), or indices or UUIDs.', example=[0, 1]
                    ),
                    "clean": Field(
                        Text(choices=("none", "own", "orphans", "all")),
                        "How far a push may end processes that hold these GPUs: none; own (provably of this unit); "
                        "orphans (also SGLang that belongs to no live unit, session or container); all.",
                    ),
                },
                GpuSettings,
            ),
            "The GPUs, and how far a push may free them.",
        ),
        "verify": Field(_VERIFY, "When a push is good. It is put back by itself when it is not."),
        "watch": Field(
            Table(
                {
                    "interval": Field(
                        Duration(above_zero=True), "How often the host asks the server for its health.", example="30s"
                    ),
                    "misses": Field(Number("a number of misses", 1), "How many misses in a row restart the unit."),
                    "timeout": Field(
                        Duration(above_zero=True),
                        "How long an answer may take. SGLang itself answers a hung scheduler with 503 after 20 s.",
                        example="25s",
                    ),
                },
                WatchSettings,
            ),
            "Renders a timer unit that goes on asking for health after the push, and restarts a server that hangs.",
        ),
        "hooks": Field(_HOOKS, "Commands on the operator's machine around a push."),
    },
    check=together,
)
