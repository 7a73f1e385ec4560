"""A random log, and its features recounted from raw events in the plainest way: what the product must agree with."""
