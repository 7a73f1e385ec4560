"""How a model learns and is judged.

Reader, parallel plan, loop, checkpoint, evaluation; imports `models` and `features` only.
"""
