"""``make demo``: the main job on a throwaway local host, a real systemd with four simulated GPUs.

A unit is declared, checked, pushed, changed, and then changed badly: the old release comes back by itself. Everything
that is made (the host, its network, the workspace) is gone at the end. Where this machine cannot host a systemd, the
examples are checked and rendered instead, and what is missing is said.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.hosts.bed import Host, Operator, Pool, Unable

CHECKOUT = Path(__file__).resolve().parents[1]
DEPLOYER = Path(sys.executable).with_name("deployer")
PORT = 30000
SETTINGS = """\
description = "A language model for the demo"

[sglang]
version = "0.5.9"
python = "/opt/sglang/.venv/bin/python"

[args]
model-path = "/models/demo-120b"
port = {port}
tp-size = 4
kv-cache-dtype = "bf16"
mem-fraction-static = {fraction}
context-length = {context}

[secrets]
api-key = {{ file = "secrets/demo.key" }}

[verify]
deadline = "2min"
settle = "2s"
min-total-tokens = 100_000
prompt = {{ text = "The capital of France is", expect = "Paris" }}
"""
BAD_CONTEXT = 24576
SLOWLY = {"distributed": 0.5, "weights": 2.0, "kv-cache": 0.5, "graphs": 1.5}
"""Seconds that the pretended server spends in its phases, so that there is something to watch; none with --quick."""


class Stage:
    """Says what comes, runs real commands, shows their real output."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.operator.env.pop("TERM")
        self.operator.env.pop("COLUMNS")

    def say(self, text: str) -> None:
        bold, plain = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("", "")
        print(f"\n{bold}# {text}{plain}", flush=True)

    def deployer(self, *words: str, expect: int = 0) -> None:
        """Runs ``deployer WORDS``; an exit code that does not belong here ends the demo."""
        print(f"$ deployer {' '.join(words)}", flush=True)
        code = subprocess.run([DEPLOYER, *words], cwd=self.operator.workspace, env=self.operator.env).returncode
        if code:
            print(f"(exit code {code})", flush=True)
        if code != expect:
            sys.exit(f"demo: expected exit code {expect} of deployer {words[0]}, got {code}")

    def change(self, fraction: float, context: int) -> None:
        self.operator.write("units/demo.toml", SETTINGS.format(port=PORT, fraction=fraction, context=context))


def prepare(host: Host, operator: Operator) -> None:
    """A host called gpu1 as an admin would find it: SGLang and a model are there, a key gives access."""
    host.gpu.configure(4)
    host.sglang.model("/models/demo-120b", weights_gib=200, num_hidden_layers=60)
    host.sglang.behave(
        {"delay": {} if "--quick" in sys.argv else SLOWLY},
        {"when": {"context_length": BAD_CONTEXT}, "fail": {"at": "graphs", "how": "graph-oom"}},
    )
    alias = f"Host gpu1\n  HostName {host.address}\n  HostKeyAlias {host.name}\n"
    operator.config.write_text(alias + operator.config.read_text())
    operator.write("secrets/demo.key", "demo-key-4711\n").chmod(0o600)


def play(host: Host, stage: Stage) -> None:
    stage.say("A unit is declared in one TOML file:")
    stage.change(0.80, 32768)
    print((stage.operator.workspace / "units" / "demo.toml").read_text(), flush=True)
    stage.say("It is checked against SGLang 0.5.9 before any host is touched, and rendered to a unit file:")
    stage.deployer("check")
    stage.deployer("render", "demo")
    stage.say("The host gpu1 has four GPUs and serves nothing. First push:")
    stage.deployer("push", "gpu1", "-u", "demo")
    stage.say("A change: more memory for the KV cache.")
    stage.change(0.88, 32768)
    stage.deployer("diff", "gpu1", "-u", "demo")
    stage.deployer("push", "gpu1", "-u", "demo")
    stage.say("A change that no check can see through: this server runs out of GPU memory when it captures its graphs.")
    stage.change(0.88, BAD_CONTEXT)
    stage.deployer("push", "gpu1", "-u", "demo", expect=4)
    stage.say("The previous release serves again:")
    stage.deployer("status", "gpu1")
    stage.deployer("history", "gpu1", "-u", "demo")
    healthy = host.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"http://127.0.0.1:{PORT}/health"]).out
    print(f"$ curl http://gpu1:{PORT}/health\n{healthy}", flush=True)
    if healthy != "200":
        sys.exit("demo: the previous release does not serve")


def without_hosts(reason: str) -> None:
    """What can be shown without a host: the examples, checked and rendered."""
    missing = f"This machine cannot host the demo's systemd: {reason}.\nThe whole demo takes root on Debian or Ubuntu."
    print(f"{missing}\nMeanwhile, the examples of this checkout, checked and rendered:\n", flush=True)
    for words in (["check"], ["render"]):
        print(f"$ deployer {' '.join(words)}", flush=True)
        code = subprocess.run([DEPLOYER, *words], cwd=CHECKOUT).returncode
        if code:
            sys.exit(code)
    print(f"\n{missing}")


def main() -> None:
    begun = time.monotonic()
    print("Setting up a host for the demo (the first time about a minute) ...", flush=True)
    try:
        pool = Pool()
    except Unable as reason:
        without_hosts(str(reason))
        return
    try:
        [host] = pool.take()
        ready = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="deployer-demo-") as folder:
            operator = Operator(pool.keys, Path(folder) / "home")
            prepare(host, operator)
            play(host, Stage(operator))
    finally:
        pool.close()
    print(f"\nDone in {time.monotonic() - ready:.0f} s, after {ready - begun:.0f} s of setting up. "
          "The host, its network and the workspace are gone.")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
