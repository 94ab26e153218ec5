"""Asking a transaction that is under way to roll back."""

from __future__ import annotations

from deployer.rollout.contact import Contact


def abort_on(contact: Contact) -> str:
    """Asks over a connection of its own; what became of it, in words. Raises HostError."""
    with contact:
        transaction = contact.call("transaction", {}).get("transaction")
        if not transaction or not transaction.get("running"):
            return "no push is under way any more"
        contact.call("abort", {"unit": transaction["unit"], "number": transaction["number"]})
        return f"asked to roll back (it was in the step {transaction['step']})"
