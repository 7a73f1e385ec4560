"""Architectures by name: Kunlun and its siblings, all on the interface of `models.gem.backbone`."""

from typing import Any

from models.gem.backbone import Sizes
from models.gem.config import GemConfig
from models.gem.interformer import InterFormer
from models.gem.kunlun import Kunlun
from models.gem.plain import DLRM, DCNv2

BACKBONES: dict[str, Any] = {
    "kunlun": Kunlun,
    "interformer": InterFormer,
    "dlrm": DLRM,
    "dcnv2": DCNv2,
}


def backbone_of(config: GemConfig, sizes: Sizes) -> Any:
    """The backbone that a config names: a module that fits `models.gem.backbone.Backbone`."""
    return BACKBONES[config.architecture](config, sizes)
