"""Unit, session and container of a control group's path."""

import pytest

from deployer.agent.facts.cgroup import Container, place, root_of, systemd_path

ID = "0123456789ab" * 5 + "0123"


@pytest.mark.parametrize("path, unit, session, container", [
    ("/", None, None, None), ("/init.scope", None, None, None), ("/system.slice", None, None, None),
    ("/system.slice/qwen.service", "qwen.service", None, None),
    ("/system.slice/system-qwen.slice/qwen@1.service/sub", "qwen@1.service", None, None),
    ("/user.slice/user-0.slice/session-c1.scope", "session-c1.scope", "session-c1.scope", None),
    ("/user.slice/user-1.slice/user@1.service/app.slice/x.service", "user@1.service", "user@1.service", None),
    ("/system.slice/run-r12.scope", "run-r12.scope", None, None),
    (f"/docker/{ID}", None, None, ("docker", ID)), (f"/system.slice/docker-{ID}.scope", None, None, ("docker", ID)),
    (f"/docker/{ID}/system.slice/inner.service", None, None, ("docker", ID)),
    (f"/machine.slice/libpod-{ID}.scope/container", None, None, ("podman", ID)),
    (f"/machine.slice/libpod-conmon-{ID}.scope", f"libpod-conmon-{ID}.scope", None, None),
    (f"/system.slice/pod.service/libpod-payload-{ID}", "pod.service", None, ("podman", ID)),
    (f"/kubepods/besteffort/pod1-2/{ID}", None, None, ("kubernetes", ID)),
    (f"/kubepods.slice/kubepods-pod1.slice/crio-{ID}.scope", None, None, ("kubernetes", ID)),
    ("/lxc/129/ns/system.slice/qwen.service", None, None, ("lxc", "129")), ("/lxc/129", None, None, ("lxc", "129")),
    ("/lxc.payload.c1/init.scope", None, None, ("lxc", "c1")), ("/lxc.payload/c1", None, None, ("lxc", "c1")),
    ("/lxc.monitor.c1", None, None, None), ("/mine/batch", None, None, None),
    ("/bed/h2/system.slice/qwen.service", None, None, ("group", "bed/h2/system.slice")),
    ("/machine.slice/machine-a\\x2db.scope/init.scope", None, None, ("machine", "a-b")),
    ("/machine.slice/systemd-nspawn@a.service/payload", None, None, ("machine", "a")),
    ("/system.slice/nerdctl-" + ID + ".scope", None, None, ("nerdctl", ID)),
    ("/garden/" + ID, None, None, ("container", ID)),
])
@pytest.mark.parametrize("form", [
    "0::{}\n", "12:cpu:/\n1:name=systemd:{}\n0::/\n", "12:cpu:/\n1:name=systemd:{} (deleted)\n0::/\n",
])
def test_paths(path, unit, session, container, form):
    found = place(form.format(path))
    assert (found.unit, found.session) == (unit, session)
    assert found.container == (Container(*container) if container else None)


def test_what_is_below_a_container_is_its_own():
    assert place("0::/lxc/129/ns/system.slice/qwen.service\n").below == "/system.slice/qwen.service"


def test_the_root_of_a_system_is_where_its_init_lies():
    init = "9:name=systemd:/bed/h1/init.scope\n0::/bed/h1/init.scope\n"
    assert root_of(init) == "/bed/h1"
    assert root_of("0::/init.scope\n") == "" == root_of("0::/\n")
    assert place("9:name=systemd:/bed/h1/system.slice/a.service\n", root_of(init)).path == "/system.slice/a.service"
    assert place("9:name=systemd:/bed/h10/system.slice/a.service\n", root_of(init)).path != "/system.slice/a.service"


def test_a_container_in_another_hierarchy_counts_where_systemd_s_says_nothing():
    assert place(f"4:memory:/docker/{ID}\n1:name=systemd:/\n0::/\n").container == Container("docker", ID)


def test_the_path_may_hold_colons():
    assert systemd_path("0::/system.slice/a:b.service\n") == "/system.slice/a:b.service"
