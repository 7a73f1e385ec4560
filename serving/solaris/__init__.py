"""Solaris: vectors that were computed before they are asked for.

What is computed ahead is chosen in `features.solaris`; where it is kept, for how long it holds and what stands in
for it when it is absent is `serving.solaris.cache`. A request never waits for the foundation model.
"""
