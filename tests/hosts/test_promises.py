"""What a push promises beside its steps: one acts, a reboot is survived, secrets stay put, writes are durable."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from tests.hosts.bed import Host, Operator, Pool
from tests.hosts.pushing import SERVICE, UNIT, Client, argv, declare, push, serves

TIMES = 10 if os.environ.get("DEPLOYER_FAULTS") == "all" else 3
"""Pushes of two operators at once, in each order."""

LEAD = 1.0
"""Seconds that the first of the two is ahead at most."""

CANARY = "canary-7f3a9c51-do-not-show"
SECRETS = '[secrets]\napi-key = { env = "QWEN_KEY" }\nHF_TOKEN = { env = "QWEN_TOKEN" }'


def hold(host: Host, point: str) -> None:
    host.run(f"rm -rf /run/fault && mkdir -p /run/fault && echo {point} > /run/fault/plan")


def reached(host: Host) -> None:
    host.run("for i in $(seq 600); do test -e /run/fault/reached && exit 0; sleep 0.05; done; exit 1")


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_operators_exactly_one_acts(host: Host, pool: Pool, tmp_path: Path, first: int) -> None:
    """Both orders, with a lead that grows from none to about where the transaction begins; the same change and two."""
    operators = [Operator(pool.keys, tmp_path / name) for name in ("one", "two")]
    declare(operators[0])
    push(operators[0], host)
    for number in range(TIMES):
        before = len(starts(host))
        for index, operator in enumerate(operators):
            declare(operator, args=f"context-length = {1024 + number * 16 + number % 2 * index * 8}")
        begun = []
        for index in (first, 1 - first):
            begun.append(Client(operators[index], host))
            time.sleep(LEAD * number / TIMES)
        said = [client.end() for client in begun]
        codes = sorted(code for code, _ in said)
        # The other one is locked out, or finds the base changed, or comes when all is done and there is nothing to do.
        assert codes[0] == 0 and codes[1] in (0, 6, 7), said
        acted = [text for _, text in said if "pushed: release" in text]
        assert len(acted) == 1 or (number % 2 and one_after_the_other(host)), said
        assert len(starts(host)) - before == len(acted), said
        assert "--context-length" in argv(host)


def starts(host: Host) -> list[str]:
    return [line for line in host.journal(SERVICE).splitlines() if line.startswith("Started ")]


def one_after_the_other(host: Host) -> bool:
    """Whether the last release was planned when the one before it served already: not at once, by bad luck."""
    paths = host.run(f"ls -v /var/lib/deployer/{SERVICE}/releases/*/manifest.json").out.split()[-2:]
    former, latter = (json.loads(host.read(path)) for path in paths)
    return bool(latter["base"] == former["digest"] and latter["created"] >= former["ended"])


def test_a_second_push_is_told_who_holds_the_lock(host: Host, operator: Operator) -> None:
    declare(operator)
    hold(host, "verify")
    first = Client(operator, host)
    reached(host)
    said = operator.deployer("push", host.name, "-u", UNIT)
    assert said.code == 6, said.err
    words = r"another push is under way: qwen by \w+ from \S+ since [0-9:]{8}, step verify"
    assert re.search(words, said.err), said.err
    assert f"deployer attach {host.name} -u qwen" in said.err
    status = operator.deployer("status", host.name)
    assert "a push by" in status.err and "is in the step verify" in status.err
    host.run("touch /run/fault/go")
    code, text = first.end()
    assert code == 0, text


def test_the_connection_cut_in_the_middle(host: Host, operator: Operator) -> None:
    declare(operator)
    hold(host, "install")
    client = Client(operator, host)
    reached(host)
    client.process.kill()
    host.run("touch /run/fault/go")
    host.sglang.at(30000).wait("ready")
    attached = operator.deployer("attach", host.name)
    assert attached.code == 0, attached.err
    status = json.loads(operator.deployer("status", host.name, "--json").out)["hosts"][0]["units"][0]
    assert (status["active"], status["release"]["number"], status["last"]["outcome"]) == ("active", 1, "done")


def test_a_reboot_in_the_middle(host: Host, operator: Operator) -> None:
    declare(operator)
    push(operator, host)
    declare(operator, args="context-length = 1024")
    for point in ("stop", "start"):
        hold(host, point)
        client = Client(operator, host)
        reached(host)
        client.process.kill()
        host.reboot()
        host.sglang.at(30000).wait("ready")
        assert operator.deployer("attach", host.name).code in (0, 4)
        assert serves(host)["model_path"] == "/models/tiny"
        said = operator.deployer("status", host.name)
        assert "INTERRUPTED" not in said.err


def test_secrets_are_only_where_they_belong(host: Host, operator: Operator) -> None:
    operator.env.update(QWEN_KEY=CANARY, QWEN_TOKEN="hf_" + CANARY)
    declare(operator, more=SECRETS)
    said = push(operator, host)
    said += push(operator, host)
    declare(operator, more=SECRETS, args="context-length = 512")
    host.sglang.behave({"when": {"context_length": 512}, "fail": {"at": "weights", "how": "exception"}})
    said += push(operator, host, code=4)
    here = ["-u", UNIT]
    for words in (["logs", *here], ["status", "--json"], ["history", *here, "--json"], ["diff", *here],
                  ["gpus", "--json"], ["verify", *here, "--json"], ["push", *here, "--json", "--dry-run"]):
        ran = operator.deployer(words[0], host.name, *words[1:])
        said += ran.out + ran.err
    for words in (["render", UNIT, "--json"], ["check", UNIT]):
        ran = operator.deployer(*words)
        said += ran.out + ran.err
    assert CANARY not in said
    found = host.run(f"grep -rlsa {CANARY} /etc /var/lib/deployer /run /tmp /root /home 2>/dev/null", check=False).out
    allowed = re.compile(r"/etc/deployer/qwen/|/var/lib/deployer/qwen\.service/releases/1/(files/|secrets\.json)"
                         r"|/run/credentials/|/run/log/journal/")
    assert [path for path in found.splitlines() if not allowed.match(path)] == []
    world = host.run(f"su -s /bin/sh nobody -c 'systemctl show {SERVICE}; cat /proc/*/cmdline /proc/*/environ; "
                     f"cat /etc/systemd/system/{SERVICE}' 2>/dev/null", check=False).out
    assert CANARY not in world
    answer = host.run("curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:30000/v1/models").out
    assert answer == "401"
    loose = host.run("find /etc/deployer /var/lib/deployer ! -type l -perm /077", check=False).out
    assert loose == ""


def test_a_changed_secret_is_pushed(host: Host, operator: Operator) -> None:
    operator.env.update(QWEN_KEY="first-key-of-all", QWEN_TOKEN="hf_first_token_1")
    declare(operator, more=SECRETS)
    push(operator, host)
    operator.env["QWEN_KEY"] = "second-key-of-all"
    assert "secrets" in push(operator, host)
    code = host.run("curl -s -o /dev/null -w '%{http_code}' -H 'Authorization: Bearer second-key-of-all' "
                    "http://127.0.0.1:30000/v1/models").out
    assert code == "200"


def test_what_is_written_survives_a_power_cut(host: Host, operator: Operator) -> None:
    """Order of the system calls: a file is fsynced before its rename, and its folder after it."""
    declare(operator)
    hold(host, "preflight")
    client = Client(operator, host)
    reached(host)
    pid = host.read("/run/fault/reached").strip()
    trace = host.popen(f"strace -f -y -p {pid} -e trace=rename,renameat,renameat2,fsync,fdatasync -o /run/trace")
    host.run("for i in $(seq 200); do test -s /run/trace && break; touch /run/fault/go; sleep 0.05; done")
    code, said = client.end()
    assert code == 0, said
    trace.wait(30)
    synced: set[str] = set()
    waiting: dict[str, str] = {}
    renames = 0
    for line in host.read("/run/trace").splitlines():
        match = re.search(r"(fsync|fdatasync)\(\d+<([^>]+)>\)", line)
        if match:
            synced.add(match[2])
            for path in [path for path, folder in waiting.items() if folder == match[2]]:
                del waiting[path]
        match = re.search(r'rename\w*\((?:AT_FDCWD\S*, )?"([^"]+)", (?:AT_FDCWD\S*, )?"([^"]+)"', line)
        if match and match[2].startswith(("/etc/", "/var/lib/deployer/")):
            renames += 1
            # A file that was prepared before the trace began is synced already.
            assert match[1] in synced or match[1].endswith("deployer-new"), line
            waiting[match[2]] = match[2].rpartition("/")[0]
    assert renames >= 4
    assert waiting == {}


def test_start_limit_is_never_used_up_by_the_tool(host: Host, operator: Operator) -> None:
    for number in range(8):
        declare(operator, args=f"context-length = {1024 + number * 8}")
        push(operator, host)
    assert host.state(SERVICE)["Result"] == "success"


def test_what_files_cannot_bring_back_is_said(host: Host, operator: Operator) -> None:
    declare(operator)
    push(operator, host)
    host.run("mv /models/tiny/config.json /models/tiny/old.json && "
             "sed 's/}$/ }/' /models/tiny/old.json > /models/tiny/config.json")
    declare(operator, args="context-length = 1024")
    assert "rollback-not-the-same" in push(operator, host)


def test_hooks(host: Host, operator: Operator) -> None:
    declare(operator, more="""
[hooks]
before = [{ command = ["sh", "-c", "echo before $DEPLOYER_HOOK_UNIT $DEPLOYER_HOOK_HOST >> hooks.log"] }]
after = [{ command = ["sh", "-c", "echo after $DEPLOYER_HOOK_OUTCOME >> hooks.log"] }]
""")
    push(operator, host)
    assert (operator.workspace / "hooks.log").read_text() == f"before {SERVICE} {host.name}\nafter done\n"
    declare(operator, args="context-length = 512", more="""
[hooks]
before = [{ command = ["sh", "-c", "echo not today; exit 3"], on-failure = "stop" }]
""")
    said = push(operator, host, code=7)
    assert "not today" in said and "nothing was changed" in said
