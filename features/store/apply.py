"""`python -m features.store.apply WORLD`: apply a world's declarations without any other tool."""

import sys

from features.home import Home
from features.store.repo import apply
from features.worlds import load_world


def main(name: str) -> str:
    """Apply the declarations of the world `name` below `GEMLINE_HOME`; returns their hash."""
    return apply(load_world(name), Home.of(name))


if __name__ == "__main__":
    main(sys.argv[1])
