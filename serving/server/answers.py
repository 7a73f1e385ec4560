"""What the service answers."""

from typing import Literal

from pydantic import BaseModel, Field

from serving.server.requests import Raw

Known = Literal["hit", "fallback_user", "fallback_ad", "fallback_both"]
KNOWN: dict[tuple[bool, bool], Known] = {
    (True, True): "hit",
    (False, True): "fallback_user",
    (True, False): "fallback_ad",
    (False, False): "fallback_both",
}
"""(user known, ad known) -> flag."""


class ScoredAd(BaseModel):
    """One candidate's probabilities.

    Each is of the impression itself: that of a post-click task is the product along its ancestors, so no task is
    likelier than its parent, and tasks can be weighed against each other. `predictions` hold the factors, as labels do.
    """

    ad_id: Raw = Field(description="as it was asked")
    scores: dict[str, float | None] = Field(description="task -> its own probability in the full log, always finite")
    known: Known = Field(description="which side has stored features; the other one is scored as missing, as trained")
    source: Literal["exact", "user", "none"] = Field(description="where the precomputed vector came from")
    replaced: list[str] = Field(description="tasks of which the model gave no finite number: null instead")


class Answer(BaseModel):
    """Scores of one request, in its order, all of one package and one generation."""

    world: str
    vertical: str
    surface: str
    digest: str = Field(description="of the package")
    model_digest: str = Field(description="of the model in it")
    generation: str = Field(description="of the foundation model whose memories and vectors were used")
    request_ts: str = Field(description="instant as of which features were read, UTC")
    scores: list[ScoredAd]
    missing: dict[str, dict[str, int]] = Field(description="view -> reason (absent, stale, early) -> number of ids")
