"""An operator of whom all answers are known beforehand."""

from __future__ import annotations

from deployer.remote.ask import Ask, Question


class Answers(Ask):
    """Gives these answers in turn, and notes what was asked."""

    def __init__(self, *answers: str) -> None:
        super().__init__()
        self.answers = list(answers)
        self.asked: list[Question] = []

    def prompt(self, question: Question) -> str | None:
        self.asked.append(question)
        return self.answers.pop(0) if self.answers else None
