"""GEM, the central foundation model: config, embeddings, model and loss.

Import the module you need: only `embeddings` needs torchrec.
"""
