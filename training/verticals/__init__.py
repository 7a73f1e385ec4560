"""Training a vertical: labels, a teacher's logits, memories and precomputed vectors of one generation.

Nothing here needs TorchRec: a vertical trains in one plain process.
"""
