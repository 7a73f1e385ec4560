"""Worlds: one validated file says everything in which one log differs from another."""

from features.worlds.load import load_world, world_names
from features.worlds.schema import World

__all__ = ["World", "load_world", "world_names"]
