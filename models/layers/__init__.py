"""Building blocks, one concept a file, each with an oracle in its test."""
