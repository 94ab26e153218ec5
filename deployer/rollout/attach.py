"""Looking on while a host finishes what somebody began."""

from __future__ import annotations

from collections.abc import Sequence

from deployer.protocol.codec import from_plain
from deployer.protocol.facts import TransactionFacts
from deployer.protocol.outcome import Outcome
from deployer.rollout.contact import Contact
from deployer.rollout.report import from_result
from deployer.rollout.view import Report


def attach(contact: Contact, units: Sequence[str]) -> Report:
    """Follows the running transaction to its result; an interrupted one is put right first."""
    host = contact.host.name
    plain = contact.call("transaction", {}).get("transaction")
    if plain is None:
        return Report(host, ", ".join(units), Outcome.NOTHING_TO_DO, "no push is under way",
                      next=f"deployer status {host}")
    transaction = from_plain(TransactionFacts, plain)
    if units and transaction.unit not in units:
        return Report(host, transaction.unit, Outcome.NOTHING_TO_DO,
                      f"the push that is under way is of {transaction.unit}", next=f"deployer attach {host}")
    who = f"{transaction.who} from {transaction.source}"
    contact.view.tell(host, "plan", {
        "unit": transaction.unit, "changes": f"release {transaction.number} by {who}, step {transaction.step}"})
    if transaction.running:
        result = contact.follow(transaction.unit, transaction.number)
    else:
        result = contact.settle_interrupted(transaction) or {}
    return from_result(host, transaction.unit, result)
