"""LightGBM in the peers' own environment: `boost.py IN.npz OUT.npy`.

IN: fit [N, C], label [N], judged [M, C], categorical (the first so many columns), settings (JSON), seed, stages.
OUT: probabilities in the sampled log after each stage, float64 [stages, M].
"""

import json
import os
import sys

import lightgbm
import numpy as np


def main(source: str, target: str) -> None:
    """Train once for the longest stage, predict at each."""
    with np.load(source) as data:
        given = {name: data[name] for name in data.files}
    seed = int(given["seed"])
    settings = {
        "objective": "binary",
        "verbose": -1,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": int(os.environ["OMP_NUM_THREADS"]),
        "seed": seed,
        **json.loads(str(given["settings"])),
    }
    codes = list(range(int(given["categorical"])))
    train = lightgbm.Dataset(given["fit"], given["label"], categorical_feature=codes, free_raw_data=True)
    stages = given["stages"].tolist()
    model = lightgbm.train(settings, train, num_boost_round=max(stages))
    np.save(target, np.stack([model.predict(given["judged"], num_iteration=rounds) for rounds in stages]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
