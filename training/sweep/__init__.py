"""A sweep over data mixes: train a small grid on few days, pick the cheapest that loses next to nothing, check it.

`grid` names the mixes, `legs` the days, `arms` walks them by the run that the model asset uses, `trials` judges all on
identical rows and picks, `agreement` says how the pick generalises, `result` tells it to people and files, and `run`
does all of it.
"""
