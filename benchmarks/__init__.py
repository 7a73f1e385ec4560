"""One file a benchmark, results as JSON; imports any package of the project and is imported by none."""
