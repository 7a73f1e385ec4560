"""Adapters: raw logs to canonical frames, one module an adapter, named in a world's `source.adapter`."""
