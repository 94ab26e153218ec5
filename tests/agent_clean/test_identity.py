"""Whose a process is: pure, over made-up worlds."""

import pytest

from deployer.agent.clean.identity import identify, looks_like_sglang
from deployer.agent.clean.world import World
from deployer.agent.facts.process import TICKS, Process
from deployer.agent.facts.systemd import UnitState
from deployer.protocol.codec import Unknown
from deployer.protocol.holder import HolderClass

UNIT = "qwen.service"
IN_UNIT = f"1:name=systemd:/system.slice/{UNIT}\n0::/\n"
ROOT = "1:name=systemd:/\n0::/\n"
SESSION = "1:name=systemd:/user.slice/user-1000.slice/session-7.scope\n"
TMUX = "1:name=systemd:/user.slice/user-1000.slice/user@1000.service/tmux-spawn-1.scope\n"
DOCKER = "1:name=systemd:/docker/" + "ab" * 32 + "\n"
INIT = Process(1, 1, 0, "S", "systemd", argv=("/sbin/init",), cgroup="1:name=systemd:/init.scope\n")
SERVER = ("/venv/bin/python", "-m", "sglang.launch_server", "--port", "30000")
RANK = ("sglang::scheduler_TP0",)
DEAD, LIVE = UnitState(), UnitState("active", "running", "loaded", invocation="now", main_pid=100, begun=1000.0)
LATE = int(2000 * TICKS)


def process(pid, ppid=1, cgroup=ROOT, argv=RANK, start=LATE, **more):
    return Process(pid, start, ppid, "S", argv[0][:15] if argv else "python3", argv=argv, cgroup=cgroup, **more)


def judge(*processes, state=DEAD, units=None, pidns=0, root=""):
    world = World({one.pid: one for one in (INIT, *processes)}, {UNIT: state, **(units or {})}, frozenset({UNIT}),
                  pidns=pidns, root=root)
    return identify(processes[-1], world)


def test_the_unit_s_control_group_is_proof_whether_it_lives_or_not():
    left = judge(process(9, cgroup=IN_UNIT, argv=("sleep", "9")))
    assert (left.holder_class, left.unit, left.live) == (HolderClass.OWN, UNIT, False)
    assert judge(process(9, cgroup=IN_UNIT), state=LIVE).live
    assert judge(process(9, cgroup=IN_UNIT.replace("\n", "/worker (deleted)\n", 1))).holder_class is HolderClass.OWN


def test_a_unit_of_the_same_name_somewhere_else_is_another():
    for cgroup in (
        f"1:name=systemd:/machine.slice/machine-x.scope/system.slice/{UNIT}\n",
        f"1:name=systemd:/machine.slice/systemd-nspawn@x.service/payload/system.slice/{UNIT}\n",
        f"0::/lxc.payload.c1/system.slice/{UNIT}\n", f"0::/lxc/129/ns/system.slice/{UNIT}\n",
        f"0::/user.slice/user-1000.slice/user@1000.service/app.slice/{UNIT}\n",
    ):
        found = judge(process(9, cgroup=cgroup, marker=UNIT))
        assert (found.holder_class, found.live) == (HolderClass.FOREIGN, True), cgroup


@pytest.mark.parametrize("cgroup", [
    SESSION, TMUX, DOCKER, "0::/system.slice/docker-" + "ab" * 32 + ".scope\n",
    "0::/kubepods.slice/kubepods-besteffort.slice/x.slice/cri-containerd-" + "cd" * 32 + ".scope\n",
    "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + "ef" * 32 + ".scope\n",
])
@pytest.mark.parametrize("marker", [None, UNIT])
def test_sessions_and_containers_are_foreign_whatever_it_looks_like(cgroup, marker):
    found = judge(process(9, cgroup=cgroup, marker=marker, argv=SERVER))
    assert (found.holder_class, found.live) == (HolderClass.FOREIGN, True)
    assert "session" in found.proof or "runs in" in found.proof


def test_a_live_unit_of_somebody_else_s_is_foreign_a_dead_one_s_sglang_an_orphan():
    other = "1:name=systemd:/system.slice/vllm.service\n"
    alive = judge(process(9, cgroup=other), units={"vllm.service": UnitState("active")})
    assert (alive.holder_class, alive.unit) == (HolderClass.FOREIGN, "vllm.service")
    dead = judge(process(9, cgroup=other))
    assert dead.holder_class is HolderClass.ORPHAN and "left by vllm.service" in dead.proof
    assert judge(process(9, cgroup=other, argv=("train",))).holder_class is HolderClass.FOREIGN


def test_units_that_cannot_be_asked_count_as_live():
    world = World({1: INIT, 9: process(9, cgroup=IN_UNIT)}, Unknown("no systemd"), frozenset({UNIT}))
    assert identify(world.processes[9], world).live
    other = process(8, cgroup="1:name=systemd:/system.slice/vllm.service\n")
    assert identify(other, World({1: INIT, 8: other}, Unknown("no systemd"))).holder_class is HolderClass.FOREIGN


def test_the_marker_proves_what_belongs_to_nothing_else():
    assert judge(process(9, marker=UNIT, argv=("sleep", "9"))).unit == UNIT
    assert judge(process(9, marker=UNIT, invocation="before"), state=LIVE).live is False
    assert judge(process(9, marker=UNIT, start=int(500 * TICKS)), state=LIVE).live is False
    assert judge(process(9, marker=UNIT, invocation="now"), state=LIVE).live is True
    assert judge(process(9, marker=UNIT), state=LIVE).live is True, "not told apart from the unit's own: spared"
    main = process(100, cgroup=IN_UNIT, argv=SERVER)
    moved = process(9, ppid=100, marker=UNIT, invocation="before")
    assert judge(main, moved, state=LIVE).live is True
    for nonsense in ("", "x", "../x.service", "a b.service", "-x"):
        assert judge(process(9, marker=nonsense, argv=("sleep", "9"))).holder_class is HolderClass.FOREIGN


def test_descent_proves_until_something_else_comes_between():
    parent = process(8, marker=UNIT, argv=("sh",))
    child = judge(parent, process(9, ppid=8, argv=("sleep", "9")))
    assert (child.holder_class, child.unit, child.live) == (HolderClass.OWN, UNIT, False)
    assert "pid 8" in child.proof
    between = process(7, ppid=8, cgroup=SESSION, argv=("bash",))
    assert judge(parent, between, process(9, ppid=7, argv=("sleep", "9"))).holder_class is HolderClass.FOREIGN
    alive = judge(process(8, cgroup=IN_UNIT, argv=SERVER), process(9, ppid=8, argv=("sleep", "9")), state=LIVE)
    assert (alive.holder_class, alive.live) == (HolderClass.OWN, True)


def test_an_orphan_has_only_sglang_above_it():
    assert judge(process(9)).holder_class is HolderClass.ORPHAN
    main = process(8, argv=SERVER)
    assert judge(main, process(9, ppid=8)).holder_class is HolderClass.ORPHAN
    assert judge(main, process(9, ppid=8, argv=("/venv/bin/python", "-c", "from multiprocessing.spawn"))).holder_class \
        is HolderClass.ORPHAN
    shell = process(8, argv=("bash", "run.sh"))
    assert judge(shell, process(9, ppid=8)).holder_class is HolderClass.ORPHAN
    at_work = process(8, argv=("bash",), tty=34816)
    assert judge(at_work, process(9, ppid=8)).holder_class is HolderClass.FOREIGN
    trainer = process(8, argv=("python3", "train.py"))
    assert judge(trainer, process(9, ppid=8)).holder_class is HolderClass.FOREIGN
    assert judge(process(8, cgroup=SESSION, argv=SERVER), process(9, ppid=8)).holder_class is HolderClass.FOREIGN
    assert judge(process(9, ppid=0)).holder_class is HolderClass.FOREIGN, "entered from outside: somebody may use it"
    assert judge(process(9, argv=("python3", "train.py"))).holder_class is HolderClass.FOREIGN
    assert judge(process(9, readable=False)).holder_class is HolderClass.FOREIGN


def test_a_pid_namespace_of_its_own_is_a_container_of_some_kind():
    assert judge(process(9, pidns=77), pidns=55).holder_class is HolderClass.FOREIGN
    assert judge(process(9, pidns=55), pidns=55).holder_class is HolderClass.ORPHAN
    assert judge(process(9, pidns=77, cgroup=IN_UNIT), pidns=55).holder_class is HolderClass.OWN


@pytest.mark.parametrize("more", [
    {"exe": "/usr/lib/xorg/Xorg"}, {"exe": "/usr/bin/nvidia-persistenced"}, {"exe": "/usr/bin/nv-hostengine"},
    {"cgroup": "0::/system.slice/nvidia-dcgm.service\n", "exe": "/opt/x"}, {"exe": "/usr/bin/nvtop", "cgroup": SESSION},
    {"exe": "/usr/bin/dcgm-exporter", "cgroup": DOCKER},
])
def test_the_machine_s_own_is_never_touched(more):
    assert judge(process(9, argv=("x",), **more)).holder_class is HolderClass.SYSTEM


def test_a_title_makes_nothing_a_system_process():
    assert judge(process(9, argv=("Xorg",), exe="/usr/bin/python3")).holder_class is HolderClass.FOREIGN
    assert judge(process(9, argv=("Xorg",), exe="/usr/bin/python3", marker=UNIT)).holder_class is HolderClass.OWN


def test_units_under_a_root_of_their_own():
    root = "/bed/h1"
    init = Process(1, 1, 0, "S", "systemd", argv=("/sbin/init",), cgroup=f"1:name=systemd:{root}/init.scope\n")
    one = process(9, cgroup=f"1:name=systemd:{root}/system.slice/{UNIT}\n")
    assert identify(one, World({1: init, 9: one}, {}, frozenset({UNIT}), root=root)).holder_class is HolderClass.OWN
    outside = process(9, cgroup="1:name=systemd:/bed/h2/system.slice/x.service\n")
    world = World({1: init, 9: outside}, {"x.service": LIVE}, frozenset({UNIT}), root=root)
    assert identify(outside, world).holder_class is HolderClass.FOREIGN


@pytest.mark.parametrize("argv, expected", [
    (("sglang::scheduler_DP1_TP0",), True), (("sgl_diffusion::scheduler",), True), (SERVER, True),
    (("python3", "-m", "sglang_router.launch_router"), True), (("/venv/bin/sglang", "serve", "x"), True),
    (("/venv/bin/python", "/venv/bin/sglang", "serve"), True), (("python3", "-m", "vllm", "sglang"), False),
    (("grep", "sglang::"), False), (("vim", "sglang.py"), False),
    (("python3", "train.py", "sglang.launch_server"), False),
    (("tail", "-f", "/var/log/sglang.log"), False), (("less", "/opt/sglang/README.md"), False), ((), False),
])
def test_what_looks_like_sglang(argv, expected):
    assert looks_like_sglang(Process(9, 1, 1, "S", "x", argv=argv)) is expected
