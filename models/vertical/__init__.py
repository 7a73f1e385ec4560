"""Vertical models: small, for one surface and its tasks, served; what GEM knows reaches them from outside."""
