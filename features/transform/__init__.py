"""From rows to tensors, once: training, evaluation, precompute and serving share this code.

Numpy and torch only.
"""
