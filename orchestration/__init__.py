"""What runs when.

Assets, partitions, schedules and the command line; imports `serving`, `training`, `features`, never
`models`, and no engine at top level.
"""
