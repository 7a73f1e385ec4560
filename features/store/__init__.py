"""The feature store: Feast's declarations of a world, historical and online retrieval.

`definitions` declares, `repo` opens and applies, `historical` joins as of an instant, `online` writes
published days and reads them back by the training rules. Feast is imported inside functions: it takes
seconds.
"""
