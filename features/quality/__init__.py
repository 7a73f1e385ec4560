"""Data quality: suites in code, run by Great Expectations on staged files before anything is published."""
