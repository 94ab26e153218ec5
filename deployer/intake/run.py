"""Follows a script through its structure: which commands would be reached, with what in their words.

Nothing is run. tree-sitter-bash gives the structure of the outline; words are read from the original text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from deployer.intake.arithmetic import Unreadable, evaluate
from deployer.intake.commands import redirected, simple_command
from deployer.intake.machine import ABSENT, FAILURE, MAYBE, SUCCESS, Leave, Machine, Return, Stop, Unknowable
from deployer.intake.outline import Outline, outline
from deployer.intake.patterns import regex
from deployer.intake.words import simple, split
from deployer.protocol import patterns

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_MATTERS = patterns.compile(r"(?:^|[\s;{(])(?:[A-Za-z_]\w*\+?=|export|source|\.\s|cd\s|set\s|exec\s|unset)|sglang")
"""What changes something for later commands."""
LONGEST = 4000
"""Turns and commands that are followed before an import gives up."""
_DEPTH = 24
_REDIRECTED = {"while_statement", "for_statement", "c_style_for_statement", "if_statement", "case_statement",
               "subshell", "compound_statement"}


@functools.lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def follow(machine: Machine, text: str) -> int:
    """Follows a whole text in this shell; returns its status. ``Stop`` where the shell would end."""
    if machine.depth > _DEPTH:
        machine.world.note("too many shells within shells: not followed further")
        return MAYBE
    source = outline(text.replace("\0", ""))
    tree = _parser().parse(source.masked.encode("ascii", "replace"))
    return _Walk(machine, source).block(tree.root_node)


def script(machine: Machine, text: str) -> None:
    """The same for a shell of its own: what ends it is no matter."""
    try:
        follow(machine, text)
    except (Stop, Return, Leave):
        pass


def substitute(machine: Machine, text: str) -> str:
    """What ``$(text)`` gives: the output where it follows from the text alone, else a mark."""
    inner = machine.copy()
    inner.depth += 1
    inner.out, inner.input = [], None
    shown = "$(" + machine.unknowns.shown(text).strip() + ")"
    launches = len(machine.world.launches)
    try:
        simple_read = re.fullmatch(r"\s*<\s*(\S+|\"[^\"]*\")\s*", text)
        if simple_read:
            content = machine.world.files.read(inner.words.text(simple_read[1]), inner.folder)
            if content is None:
                raise Unknowable
            return content.rstrip("\n")
        script(inner, text)
    except (Unknowable, RecursionError):
        del machine.world.launches[launches:]
        return machine.unknowns.mark(shown, (shown,))
    return "".join(inner.out).rstrip("\n")


class _Walk:
    def __init__(self, machine: Machine, source: Outline) -> None:
        self.machine = machine
        self.source = source
        self.base = 0

    def block(self, node: Node) -> int:
        return self.sequence(node.children)

    def sequence(self, nodes: list[Node]) -> int:
        status = SUCCESS
        for index, node in enumerate(nodes):
            if not node.is_named or node.type in ("comment", "heredoc_body"):
                continue
            behind = nodes[index + 1].type if index + 1 < len(nodes) else ""
            if behind == "&":
                self.aside(node)
                status = SUCCESS
            else:
                status = self.run(node)
        return status

    def aside(self, node: Node) -> int:
        """In a subshell: in the background, or as a part of a pipeline."""
        machine, self.machine = self.machine, self.machine.copy()
        try:
            return self.run(node)
        except (Stop, Return, Leave):
            return SUCCESS
        finally:
            self.machine = machine

    def run(self, node: Node) -> int:
        machine = self.machine
        machine.world.steps += 1
        if machine.world.steps > LONGEST:
            machine.world.note("the script goes on too long: not followed to its end")
            raise Stop
        machine.line = node.start_point[0] + 1 if machine.depth == 0 else machine.line
        method = getattr(self, "_" + node.type, None)
        if method or node.type == "compound_statement":
            return self._compound(node, method or (lambda node: self.sequence(node.children)))
        if node.type == "ERROR" or node.is_missing:
            if re.search(r"\b(?:then|do|else|fi|done|esac)\r\n", self.source.text):
                machine.world.note(f"line {node.start_point[0] + 1}: bash stops here: a word that ends in a carriage "
                                   "return is no keyword to it")
                raise Stop
            machine.world.note(f"line {node.start_point[0] + 1}: not read as shell")
            return self.sequence(node.children)
        if node.type in ("program", "compound_statement", "do_group", "else_clause"):
            return self.sequence(node.children)
        return simple_command(machine, simple(self.source, node.start_byte))

    def _compound(self, node: Node, method: Callable[[Node], int]) -> int:
        """A structure, with what is read or written by the redirections behind it."""
        if node.type not in _REDIRECTED:
            return int(method(node))
        behind = simple(self.source, node.end_byte).redirections
        return redirected(self.machine, behind, lambda: int(method(node))) if behind else int(method(node))

    def _redirected_statement(self, node: Node) -> int:
        return self.sequence(node.children)

    def _list(self, node: Node) -> int:
        left, operator, right = self._sides(node)
        status = self.run(left)
        if status == MAYBE:
            status = SUCCESS
        elif status == ABSENT:
            if _MATTERS.search(self._text(right)):
                test = " ".join(self._text(left).split())
                self.machine.world.note(f"line {left.start_point[0] + 1}: `{test}`: there is no such file here")
            status = SUCCESS if operator == "||" and _guards(self._text(right)) else FAILURE
        go_on = (status == SUCCESS) == (operator == "&&")
        return self.run(right) if go_on else status

    def _sides(self, node: Node) -> tuple[Node, str, Node]:
        named = [child for child in node.children if child.is_named]
        operator = next((child.type for child in node.children if child.type in ("&&", "||")), "&&")
        return named[0], operator, named[-1]

    def _pipeline(self, node: Node) -> int:
        parts = [child for child in node.children if child.is_named]
        machine = self.machine
        out, given = machine.out, machine.input
        status = SUCCESS
        try:
            for index, part in enumerate(parts):
                last = index == len(parts) - 1
                machine.out = out if last else []
                try:
                    status = self.aside(part)
                except Unknowable:
                    if out is not None:
                        raise
                    machine.out = None
                machine.input = "".join(machine.out) if machine.out is not None and not last else None
        finally:
            machine.out, machine.input = out, given
        return status

    def _negated_command(self, node: Node) -> int:
        status = self.sequence(node.children)
        return {SUCCESS: FAILURE, FAILURE: SUCCESS, MAYBE: MAYBE}.get(status, status)

    def _subshell(self, node: Node) -> int:
        machine, self.machine = self.machine, self.machine.copy()
        try:
            return self.sequence(node.children)
        except (Stop, Return):
            return SUCCESS
        finally:
            self.machine = machine

    def _function_definition(self, node: Node) -> int:
        name = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        if name and body:
            machine = self.machine
            source = self.source

            def call(caller: Machine) -> int:
                return _Walk(caller, source).run(body)

            machine.functions[self._text(name)] = call
        return SUCCESS

    def _if_statement(self, node: Node) -> int:
        condition: list[Node] = []
        body: list[Node] = []
        into = condition
        for child in node.children:
            if child.type == "then":
                into = body
            elif child.type in ("elif_clause", "else_clause", "fi"):
                if into is body:
                    if self._holds(condition, node):
                        return self.sequence(body)
                    into = []
                if child.type == "elif_clause" and self._elif(child):
                    return SUCCESS
                if child.type == "else_clause":
                    return self.sequence(child.children)
            elif child.type != "if":
                into.append(child)
        return SUCCESS

    def _elif(self, node: Node) -> bool:
        at = next((i for i, child in enumerate(node.children) if child.type == "then"), len(node.children))
        if not self._holds(node.children[:at], node):
            return False
        self.sequence(node.children[at + 1:])
        return True

    def _holds(self, condition: list[Node], whole: Node) -> bool:
        """Whether a condition holds; one that is not known, and that something rests on, is named."""
        status = self.sequence(condition)
        if status in (MAYBE, ABSENT):
            named = [child for child in condition if child.is_named]
            text = " ".join(self.source.text[named[0].start_byte : named[-1].end_byte].split()) if named else ""
            if _MATTERS.search(self._text(whole)) and text not in self.machine.decided:
                self.machine.decided.append(text)
            self.machine.world.note(f"not known: `{text}` was taken for "
                                    f"{'true' if status == MAYBE else 'false'}")
        return status in (SUCCESS, MAYBE)

    def _while_statement(self, node: Node) -> int:
        until = node.children[0].type == "until"
        group = next((child for child in node.children if child.type == "do_group"), None)
        condition = [child for child in node.children[1:] if child.type != "do_group"]
        text = "".join(self._text(child) for child in condition)
        for turn in range(LONGEST):
            endless = text.strip(" ;\n") in ("true", ":", "(( 1 ))", "((1))", "[ 1 ]", "[[ 1 ]]")
            status = SUCCESS if endless else self.sequence(condition)
            if (status in (MAYBE, ABSENT) or endless) and turn:
                break
            if status != MAYBE and not endless and (status == SUCCESS) == until:
                break
            before = len(self.machine.world.launches)
            try:
                self.sequence(group.children if group else [])
            except Leave as leave:
                if not leave.go_on:
                    break
            if endless and len(self.machine.world.launches) > before:
                break
        return SUCCESS

    def _for_statement(self, node: Node) -> int:
        group = next((child for child in node.children if child.type == "do_group"), None)
        name = node.child_by_field_name("variable")
        inside = next((child for child in node.children if child.type == "in"), None)
        if not group or not name:
            return SUCCESS
        words = (simple(self.source, inside.end_byte, group.start_byte).words if inside else ())
        for value in self.machine.words.fields(words) if inside else list(self.machine.positional):
            self.machine.put(self._text(name), value)
            try:
                self.sequence(group.children)
            except Leave as leave:
                if not leave.go_on:
                    break
        return SUCCESS

    def _c_style_for_statement(self, node: Node) -> int:
        group = node.children[-1]
        head = self.source.text[node.start_byte : group.start_byte]
        match = re.search(r"\(\((.*?);(.*?);(.*?)\)\)", head, re.DOTALL)
        if not match:
            return MAYBE
        begin, condition, step = match.groups()
        self._count(begin)
        for _ in range(LONGEST):
            if condition.strip() and not self._count(condition):
                break
            try:
                self.sequence(group.children)
            except Leave as leave:
                if not leave.go_on:
                    break
            self._count(step)
        return SUCCESS

    def _count(self, text: str) -> int:
        def get(name: str) -> str:
            value = self.machine.get(name)
            return value if isinstance(value, str) else ""

        try:
            return evaluate(self.machine.words.document(text), get, self.machine.put) if text.strip() else 1
        except Unreadable:
            self.machine.world.note(f"not known: `{text.strip()}`")
            return 0

    def _case_statement(self, node: Node) -> int:
        value = node.child_by_field_name("value")
        word = self.machine.words.text(self._text(value)) if value else ""
        self.machine.decided += self.machine.unknowns.names(word)
        falls = False
        for item in (child for child in node.children if child.type == "case_item"):
            close = next((child for child in item.children if child.type == ")"), None)
            if close is None:
                continue
            head = self.source.text[item.start_byte : close.start_byte].strip().removeprefix("(")
            if falls or any(self._fits(word, pattern) for pattern in _alternatives(head)):
                at = item.children.index(close)
                status = self.sequence(item.children[at + 1 :])
                last = item.children[-1].type
                if last == ";&":
                    falls = True
                elif last != ";;&":
                    return status
        return SUCCESS

    def _fits(self, word: str, pattern: str) -> bool:
        pieces = [("lit" if kind == "exp" else kind, text) for kind, text in self.machine.words.pieces(pattern)]
        return bool(re.fullmatch(regex(pieces), word))

    def _text(self, node: Node) -> str:
        return self.source.text[node.start_byte : node.end_byte]


def _alternatives(head: str) -> list[str]:
    """The patterns of a case item, parted at ``|`` outside quotes."""
    found, rest = [""], head.replace("|", " | ") if not re.search(r"['\"\\]", head) else head
    for word in split(rest):
        if word == "|":
            found.append("")
        else:
            found[-1] += word
    return found


def _guards(text: str) -> bool:
    """Whether a command only ends the script: what stands before ``||`` is then expected to succeed."""
    return bool(re.search(r"(?:^|[\s{;])(?:exit|return|die|fail|fatal|error|abort|usage)\b", text))


