"""A way back that is blocked: said loudly, kept open, gone to its end at the first contact that can."""

from __future__ import annotations

from tests.hosts.bed import Host, Operator
from tests.hosts.pushing import SERVICE, UNIT, Client, argv, declare, push


def test_the_old_files_cannot_be_put_back_for_a_while(host: Host, operator: Operator) -> None:
    declare(operator)
    push(operator, host)
    before = argv(host)
    host.run("mkdir -p /run/fault && echo rollback > /run/fault/plan")
    host.sglang.behave({"when": {"context_length": 1024}, "fail": {"at": "weights", "how": "cuda-oom"}})
    declare(operator, args="context-length = 1024")
    client = Client(operator, host)
    host.run("for i in $(seq 600); do test -e /run/fault/reached && exit 0; sleep 0.05; done; exit 1")
    with host.read_only("/etc"):
        host.run("touch /run/fault/go")
        code, said = client.end()
        assert code == 5 and "NOTHING SERVES" in said and f"deployer attach {host.name} -u {UNIT}" in said, said

        # Nothing new goes on top of what is half way back.
        declare(operator, args="context-length = 2048")
        code, said = Client(operator, host).end()
        assert code == 7 and "cannot be put right" in said and "Read-only file system" in said, said
        assert host.state(SERVICE)["ActiveState"] == "inactive"
    attached = operator.deployer("attach", host.name, "-u", UNIT)
    assert attached.code == 4 and "release 1 of qwen.service serves again" in attached.err, attached.err
    assert argv(host) == before
    push(operator, host)
    assert "2048" in argv(host)
