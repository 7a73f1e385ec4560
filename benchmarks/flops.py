"""FLOPs by counter, so that arms of a comparison can be given equal compute; what counts is in `training.flops`."""

from training.flops import count

__all__ = ["count"]
