"""Whose raw inputs a package carries: the rows by which it checks itself are of real requests."""

from pathlib import Path

from models import artefact
from serving.package import PARITY_ROWS

OWNERS = ("event.user", "memory.user")


def rows_of_user(package: Path, user_id: int) -> int:
    """Parity rows, history events and memories of a user in a package that is readable; 0 in one that is not."""
    try:
        held = artefact.read_tensors(package, PARITY_ROWS)
    except artefact.ArtefactError:
        return 0
    asked = (held["column.user_id"] == user_id) & ~held["missing.user_id"]
    return int(asked.sum()) + sum(int((held[name] == user_id).sum()) for name in OWNERS)
