"""What each scope does with each kind of holder: pure."""

import pytest

from deployer.agent.clean.plan import Wish, blockers, plan
from deployer.protocol.cleaned import Act
from deployer.protocol.holder import Holder, HolderClass, Parent

GPU, OTHER = "GPU-0", "GPU-1"
OWN, ORPHAN, FOREIGN = HolderClass.OWN, HolderClass.ORPHAN, HolderClass.FOREIGN


def holder(pid=9, kind=OWN, unit="a.service", live=False, memory=None, **more):
    memory = {GPU: 1000} if memory is None else memory
    more.setdefault("compute", bool(memory))
    return Holder(pid=pid, start=pid, pidns=1, user="u", argv=("x",), cgroup="/", unit=unit, live=live, memory=memory,
                  holder_class=kind, proof="the proof", **more)


def act(one, scope="own", unit="a.service", gpus=(GPU,), restarting=(), others=(), **more):
    return plan([one, *others], Wish(scope, unit, frozenset(gpus), **more), frozenset(restarting))[0].act


@pytest.mark.parametrize("scope, stale, live, others_stale, orphan, foreign", [
    ("own", Act.END, Act.SPARE, Act.SPARE, Act.SPARE, Act.SPARE),
    ("orphans", Act.END, Act.SPARE, Act.END, Act.END, Act.SPARE),
    ("all", Act.END, Act.STOP_UNIT, Act.END, Act.END, Act.END),
])
def test_scopes(scope, stale, live, others_stale, orphan, foreign):
    assert act(holder(), scope) is stale
    assert act(holder(live=True), scope) is live
    assert act(holder(unit="b.service"), scope) is others_stale
    assert act(holder(kind=ORPHAN, unit=None), scope) is orphan
    assert act(holder(kind=FOREIGN, unit=None, live=True, session="session-1.scope"), scope) is foreign


@pytest.mark.parametrize("scope", ["own", "orphans", "all"])
def test_never(scope):
    assert act(holder(kind=HolderClass.SYSTEM), scope) is Act.SPARE
    assert act(holder(kind=HolderClass.HIDDEN, pid=0), scope) is Act.SPARE
    assert act(holder(kind=FOREIGN, container="kubernetes 0123456789ab"), scope) is Act.SPARE


def test_all_stops_whatever_would_start_it_again():
    assert act(holder(kind=FOREIGN, unit="vllm.service", live=True), "all") is Act.STOP_UNIT
    assert act(holder(kind=FOREIGN, container="docker 0123456789ab", unit=None), "all") is Act.STOP_CONTAINER
    assert act(holder(kind=FOREIGN, container="lxc 129", unit=None), "all") is Act.END
    session = holder(kind=FOREIGN, unit="session-1.scope", live=True, session="session-1.scope")
    assert act(session, "all") is Act.END, "the process, not the admin's login"


def test_all_touches_what_computes_on_the_gpus_asked_for_and_was_shown():
    assert act(holder(kind=FOREIGN, memory={OTHER: 5}), "all") is Act.SPARE
    assert act(holder(kind=FOREIGN, compute=False), "all") is Act.SPARE
    shown = frozenset({(9, 9)})
    assert act(holder(kind=FOREIGN, unit=None), "all", approved=shown) is Act.END
    assert act(holder(kind=FOREIGN, unit=None, pid=10), "all", approved=shown) is Act.SPARE
    child = holder(kind=FOREIGN, unit=None, pid=10, parents=(Parent(9, 9, "x"),))
    assert act(child, "all", approved=shown) is Act.END
    assert act(holder(), "own", approved=frozenset()) is Act.END, "what is proven needs no consent"


def test_a_unit_s_leftovers_go_wherever_they_are_unless_it_is_narrowed():
    elsewhere = holder(memory={OTHER: 5})
    assert act(elsewhere) is Act.END
    assert act(elsewhere, narrow=True) is Act.SPARE
    helper = holder(memory={}, compute=False)
    assert act(helper) is Act.END and act(helper, narrow=True) is Act.END
    assert act(helper, unit=None, narrow=True) is Act.SPARE
    assert act(holder(unit="b.service", memory={OTHER: 5}), "orphans") is Act.SPARE


def test_a_live_unit_is_stopped_only_where_that_was_asked():
    assert act(holder(live=True), stop=True) is Act.STOP_UNIT
    assert act(holder(live=True, unit="b.service"), stop=True) is Act.SPARE
    assert act(holder(), restarting=("a.service",)) is Act.STOP_UNIT
    assert act(holder(live=True), unit=None, restarting=("a.service",)) is Act.SPARE


def test_an_orphan_s_family_goes_with_the_one_on_the_gpu():
    main = holder(pid=8, kind=ORPHAN, unit=None, memory={}, compute=False)
    rank = holder(pid=9, kind=ORPHAN, unit=None, parents=(Parent(8, 8, "x"),))
    helper = holder(pid=10, kind=ORPHAN, unit=None, memory={}, compute=False, parents=(Parent(8, 8, "x"),))
    alone = holder(pid=11, kind=ORPHAN, unit=None, memory={}, compute=False)
    acts = [one.act for one in plan([main, rank, helper, alone], Wish("orphans", None, frozenset({GPU})))]
    assert acts == [Act.END, Act.END, Act.END, Act.SPARE]


def test_blockers_are_those_that_stay_and_hold_memory_there():
    treatments = plan([
        holder(pid=1, kind=FOREIGN), holder(pid=2, kind=FOREIGN, memory={OTHER: 5}),
        holder(pid=3, kind=FOREIGN, compute=False), holder(pid=4, kind=HolderClass.SYSTEM),
        holder(pid=5), holder(pid=6, kind=ORPHAN), holder(pid=7, live=True),
        holder(pid=0, kind=HolderClass.HIDDEN),
    ], Wish("own", "a.service", frozenset({GPU})))
    assert [one.pid for one in blockers(treatments)] == [1, 6, 7, 0]
