"""LoopFM: what a frozen foundation model saw in past impressions, compressed, as inputs of small models.

Source: arXiv 2605.29280 (abstract and summaries): hidden activations -> Matryoshka autoencoder -> memory of a
user -> vertical model. Nothing here needs TorchRec: a frozen model is one process's.
"""
