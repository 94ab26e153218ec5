"""Run on a host as root: makes the processes of layouts (JSON on standard input) as they are described there.

    build.py <layouts.json        makes them all, prints {id: [pid, start]} once each is in its place, and stays
    build.py hold CONFIG          one process: holds its GPU, makes its child, waits
"""
import json
import os
import signal
import sys
import time

FOLDER = "/run/layouts"
HIERARCHIES = ("/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup")


def enter(path):
    """Joins the control group in every hierarchy that systemd looks into; made where it is not there."""
    for hierarchy in HIERARCHIES:
        if os.path.exists(hierarchy + "/cgroup.procs"):
            os.makedirs(hierarchy + path, exist_ok=True)
            with open(hierarchy + path + "/cgroup.procs", "w") as file:
                file.write(str(os.getpid()))


def become(config):
    """Replaces this process by the one that is described."""
    enter(config["path"])
    if config.get("setsid"):
        try:
            os.setsid()
        except OSError:
            pass
    env = {"PATH": "/usr/bin:/bin", **config.get("env", {})}
    words = [config["title"], "-IS", os.path.abspath(__file__), "hold", json.dumps(config)]
    if config["title"].startswith("python"):
        words[0] = "python3"
    os.execve("/usr/bin/python3", words, env)


def hold(config):
    if not config.get("leaves"):
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    if config.get("gpu") is not None:
        os.open("/dev/nvidia{}".format(config["gpu"]), os.O_RDWR)
        os.memfd_create("gpu{}={}MiB".format(config["gpu"], config["mib"]))
    child = config.get("child")
    if child and os.fork() == 0:
        become(child)
    told = "{}/{}".format(FOLDER, config["id"])
    with open(told + ".new", "w") as file:
        file.write(f"{os.getpid()} {start(os.getpid())}")
    os.rename(told + ".new", told)
    if config.get("leaves"):
        while not os.path.exists("{}/{}".format(FOLDER, child["id"])):
            time.sleep(0.005)
        os._exit(0)
    while True:
        signal.pause()


def start(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[19])


def everyone(config):
    yield config["id"]
    if config.get("child"):
        yield from everyone(config["child"])


def main():
    layouts = json.load(sys.stdin)
    os.makedirs(FOLDER, exist_ok=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for layout in layouts:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if not layout["kept"] and os.fork():
                os._exit(0)
            sys.stdin.close()
            quiet = os.open("/dev/null", os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(quiet, number)
            become(layout)
    wanted = [one for layout in layouts for one in everyone(layout)]
    until = time.monotonic() + 60
    found = {}
    while len(found) < len(wanted):
        for one in wanted:
            try:
                with open(f"{FOLDER}/{one}") as file:
                    found[one] = [int(word) for word in file.read().split()]
            except OSError:
                pass
        if time.monotonic() > until:
            print(json.dumps({"missing": [one for one in wanted if one not in found]}), flush=True)
            return
        time.sleep(0.01)
    print(json.dumps(found), flush=True)
    while True:
        signal.pause()


if sys.argv[1:2] == ["hold"]:
    hold(json.loads(sys.argv[2]))
else:
    main()
