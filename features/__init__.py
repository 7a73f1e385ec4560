"""From logs to examples.

Worlds, sources, tables, quality, the feature store and the transform; imports no other package of the
project.
"""
