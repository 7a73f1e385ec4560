"""What answers requests.

Packages, releases and the server; imports `models` and `features.transform`, and only `serving.export` may
import `training`.
"""
