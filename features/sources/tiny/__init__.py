"""The generated log of the world `tiny`, and its generator; the adapter `files` reads it like any log."""
