"""Live packages: what the pointers of the verticals name, loaded, and followed when a pointer moves.

A request takes one `Snapshot` and uses nothing else, so its package and its generation always belong together.
Noticing a move costs one stat of `live.json`; loading happens beside the requests, which get the old package until
the new one is there. A package that cannot be loaded changes nothing but the fault that is shown.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from features.errors import GemlineError
from serving import releases

if TYPE_CHECKING:
    from serving.package import ServedModel

LOG = logging.getLogger(__name__)
RETRY_S = 10.0
"""After this long a package that could not be loaded is tried again."""

Load = Callable[[Path, str], "ServedModel"]
Stamp = tuple[int, int, int] | None
UNREADABLE: Stamp = (0, 0, 0)


class NotServed(GemlineError):
    """There is no such vertical, or nothing of it is live."""


@dataclass(frozen=True)
class Snapshot:
    """A live package and the generation that it reads; never changed, only replaced."""

    vertical: str
    release: releases.Release
    model: "ServedModel"

    @property
    def generation(self) -> str:
        """The only generation whose memories and vectors the package may be given."""
        return str(self.model.manifest["generation"])

    @property
    def digest(self) -> str:
        """Digest of the package."""
        return self.release.digest

    @property
    def model_digest(self) -> str:
        """Digest of the model that the package was made of."""
        return str(self.model.manifest["model_digest"])


@dataclass
class _Slot:
    """Where one vertical stands."""

    snapshot: Snapshot | None = None
    fault: str | None = None
    stamp: Stamp = None
    tried_at: float = float("-inf")
    loading: threading.Lock = field(default_factory=threading.Lock)


class LivePackages:
    """The live package of each vertical."""

    def __init__(self, world: str, root: Path, verticals: Sequence[str], load: Load) -> None:
        """Nothing is loaded yet.

        Args:
            world: name that the packages must carry.
            root: releases folder.
            verticals: names.
            load: reads a package folder and checks it against a digest.
        """
        self._world = world
        self._root = root
        self._load = load
        self._slots = {vertical: _Slot() for vertical in verticals}

    def snapshot(self, vertical: str) -> Snapshot:
        """The package that answers now.

        The first one is waited for; later ones are loaded aside.

        Raises:
            NotServed: there is no such vertical, or nothing of it is live.
        """
        slot = self._slots.get(vertical)
        if slot is None:
            raise NotServed(f"world {self._world} has no vertical {vertical!a}; known: {', '.join(self._slots)}")
        if slot.snapshot is None:
            self.refresh(vertical)
        elif self._due(vertical, slot) and not slot.loading.locked():
            threading.Thread(target=self.refresh, args=(vertical,), name=f"load {vertical}", daemon=True).start()
        if slot.snapshot is None:
            reason = f" ({slot.fault})" if slot.fault else ""
            raise NotServed(
                f"vertical {vertical} has no live release{reason}; materialize "
                f"{self._world}/{vertical}/package of a promoted day, or run `gemline demo --world {self._world}`"
            )
        return slot.snapshot

    def refresh(self, vertical: str) -> None:
        """Follow the pointer of a vertical now, if it moved."""
        slot = self._slots[vertical]
        with slot.loading:
            if not self._due(vertical, slot):
                return
            # before the pointer is read: a move in between is seen by the next look
            stamp = self._stamp(vertical)
            try:
                slot.snapshot, slot.fault = self._loaded(vertical, slot.snapshot), None
            except Exception as error:
                # whatever is wrong with a new package, the old one goes on serving
                slot.fault = str(error) or repr(error)
                LOG.warning("vertical %s keeps its package: %s", vertical, slot.fault)
            slot.stamp, slot.tried_at = stamp, time.monotonic()

    def states(self) -> dict[str, tuple[Snapshot | None, str | None]]:
        """Snapshot and fault of each vertical, after a look at its pointer."""
        for vertical in self._slots:
            try:
                self.snapshot(vertical)
            except NotServed:
                continue
        return {vertical: (slot.snapshot, slot.fault) for vertical, slot in self._slots.items()}

    def _due(self, vertical: str, slot: _Slot) -> bool:
        retry = slot.fault is not None and time.monotonic() - slot.tried_at > RETRY_S
        return retry or slot.tried_at < 0 or self._stamp(vertical) != slot.stamp

    def _stamp(self, vertical: str) -> Stamp:
        """Changes with every move: the pointer is replaced by a rename."""
        try:
            found = (self._root / vertical / "live.json").stat()
        except FileNotFoundError:
            return None
        except OSError:
            # reading it will say why it cannot be
            return UNREADABLE
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _loaded(self, vertical: str, before: Snapshot | None) -> Snapshot | None:
        release = releases.live(self._root, vertical)
        if release is None:
            if before is not None:
                raise releases.ReleaseError(f"the live pointer of {vertical} is gone; release again or restore it")
            return None
        if before is not None and before.release == release:
            return before
        model = self._load(releases.artefact_path(self._root, release), release.digest)
        named = model.manifest["world"], model.manifest["vertical"]
        if named != (self._world, vertical):
            raise releases.ReleaseError(
                f"the live package of {vertical} is one of {'/'.join(named)}; roll {vertical} back"
            )
        return Snapshot(vertical, release, model)
