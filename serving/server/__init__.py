"""The scoring service: answers from stored features, memories and vectors; the foundation model is never called.

Free of Spark, TorchRec and Dagster.
"""
