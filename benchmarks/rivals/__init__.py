"""The models that GEM is compared with on a year of the real log, on identical rows and information."""
