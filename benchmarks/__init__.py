"""One file a benchmark, results as JSON.

Imports any package of the project and is imported by none.
"""
