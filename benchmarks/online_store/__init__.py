"""What the benchmark `online` is made of: a Redis server of its own, random rows, and stores filled with them."""
