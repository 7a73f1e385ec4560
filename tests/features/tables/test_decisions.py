"""What stands of the ledger of decisions: the newest row of each digest, and nothing that was rolled back."""

from features.tables.decisions import Decisions, ModelDecision


class Hand(Decisions):
    """The real ledger's reading, of rows by hand."""

    def __init__(self, *rows: tuple[int, str, str]) -> None:
        self.hand = [ModelDecision("gem", f"2024-03-0{day}", digest, kind, "", "", "") for day, digest, kind in rows]

    def rows(self) -> list[ModelDecision]:
        return [*self.hand, ModelDecision("other", "2024-03-02", "o", "promoted", "", "", "")]


def chosen(ledger: Hand, day: int) -> tuple[str | None, str | None]:
    """Digests of parent and incumbent of a day."""
    ds = f"2024-03-0{day}"
    found = ledger.parent("gem", ds), ledger.incumbent("gem", ds)
    return found[0] and found[0].digest, found[1] and found[1].digest


def test_parent_and_incumbent() -> None:
    ledger = Hand((1, "a", "promoted"), (2, "b", "carried"), (3, "c", "rejected"), (4, "d", "promoted"))
    assert [chosen(ledger, day) for day in (1, 2, 3, 4, 5)] == [
        (None, None),
        ("a", "a"),
        ("b", "a"),
        ("b", "a"),
        ("d", "d"),
    ]
    assert [row.digest for row in ledger.newest("gem")] == ["d", "d"]
    assert ledger.newest("nothing") == []


def test_what_is_rolled_back_counts_no_more() -> None:
    ledger = Hand((1, "a", "promoted"), (2, "b", "promoted"), (3, "c", "carried"))
    assert chosen(ledger, 4) == ("c", "b")
    ledger.hand += Hand((2, "b", "rolled_back"), (3, "c", "rolled_back")).hand
    assert chosen(ledger, 4) == ("a", "a")
    assert ledger.of_kinds("gem", ("promoted",)).keys() == {"2024-03-01"}


def test_every_digest_of_a_day_has_a_decision_of_its_own() -> None:
    """A live day that is trained again: what is live stays the incumbent until it is rolled back."""
    ledger = Hand((1, "a", "promoted"), (1, "b", "carried"))
    assert chosen(ledger, 2) == ("b", "a")
    ledger.hand += Hand((1, "c", "rejected")).hand
    assert chosen(ledger, 2) == ("b", "a")
    assert ledger.of_day("gem", "2024-03-01") == ledger.hand[-1]
    assert ledger.of_digest("gem", "2024-03-01", "b") == ledger.hand[1]
    assert ledger.of_digest("gem", "2024-03-02", "b") is None
    # decided again, a digest is the newest of its day
    ledger.hand += Hand((1, "a", "promoted")).hand
    assert chosen(ledger, 2) == ("a", "a")
    ledger.hand += Hand((1, "a", "rolled_back")).hand
    assert chosen(ledger, 2) == ("b", None)
