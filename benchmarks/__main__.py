"""`python -m benchmarks NAME [--quick]`: run one benchmark, print its JSON as the last line, keep it in `results/`.

Without a name: every benchmark whose stored full result is not of the present code.
"""

import argparse
import hashlib
import importlib
import json
import time
from pathlib import Path

from benchmarks.result import line

HERE = Path(__file__).parent
RESULTS = HERE / "results"
CODE = ("features", "models", "training", "benchmarks")
NOT_A_BENCH = ("__init__", "__main__", "arms", "planted", "process_tree", "result", "timing")


def names() -> list[str]:
    """All benchmarks."""
    return sorted(path.stem for path in HERE.glob("*.py") if path.stem not in NOT_A_BENCH)


def code_hash() -> str:
    """Hash of the code that figures depend on."""
    files = sorted(path for folder in CODE for path in (HERE.parent / folder).rglob("*.py"))
    parts = (f"{path.relative_to(HERE.parent)}\0".encode() + path.read_bytes() for path in files)
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def is_stale(name: str) -> bool:
    """Whether there is no full result of the present code."""
    path = RESULTS / f"{name}.json"
    return not path.exists() or json.loads(path.read_text(encoding="utf-8"))["code"] != code_hash()


def run(name: str, quick: bool) -> str:
    """Run one benchmark; a full result is kept.

    Returns:
        Its JSON line.
    """
    started = time.time()
    mode = "quick" if quick else "full"
    text = line(name, mode, importlib.import_module(f"benchmarks.{name}").run(quick), started)
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        kept = json.loads(text) | {"code": code_hash()}
        (RESULTS / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return text


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="?", choices=names(), help="one benchmark; without it all stale ones")
    parser.add_argument("--quick", action="store_true", help="the same code on a small input")
    options = parser.parse_args()
    for name in [options.name] if options.name else [name for name in names() if is_stale(name)]:
        print(run(name, options.quick), flush=True)


if __name__ == "__main__":
    main()
