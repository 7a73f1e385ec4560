"""DIN and DCNv2 of FuxiCTR in the peers' own environment: `ctr.py IN.npz OUT.npy`.

IN: for `fit` and `judged` rows codes [N, F] of all fields, item fields last, and `row` [N] of their history; per
history `events` [R, L, items], newest last, and `known` [R, L]; label [N], sizes [F]; settings (JSON), seed.
Rows are trained on once, in the given order. OUT: probabilities in the sampled log, float64 [1, M].
"""

import json
import os
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import torch
from fuxictr.features import FeatureMap
from fuxictr.pytorch.torch_utils import seed_everything
from model_zoo.LongCTR.DCNv2 import DCNv2
from model_zoo.LongCTR.DIN import DIN
from torch import Tensor

LABEL = "label"
Batch = tuple[dict[str, Tensor], dict[str, Tensor], Tensor]


def feature_map(sizes: list[int], items: int, width: int) -> FeatureMap:
    """All fields as categorical ones, the last `items` of them as the library's item fields."""
    fields = FeatureMap("peers", tempfile.gettempdir())
    fields.labels = [LABEL]
    fields.default_emb_dim = width
    for place, size in enumerate(sizes):
        field = {"type": "categorical", "source": "context", "vocab_size": size}
        if place >= len(sizes) - items:
            # row 0 pads histories, and the library's mean over them wants zeros there
            field |= {"source": "item", "padding_idx": 0}
        fields.features[f"f{place}"] = field
    fields.num_fields = fields.get_num_fields()
    return fields


def batches(given: dict[str, np.ndarray], part: str, size: int, items: int) -> Iterator[Batch]:
    """As the library's own loader gives them: fields, item fields of history and target, mask of the history."""
    codes, rows = given[f"{part}_codes"], given[f"{part}_row"]
    plain = codes.shape[1] - items
    for first in range(0, len(codes), size):
        some = slice(first, first + size)
        chunk, row = codes[some], rows[some]
        longest = max(1, int(given[f"{part}_known"][row].sum(axis=1).max()))
        events = given[f"{part}_events"][row][:, -longest:]
        known = torch.from_numpy(given[f"{part}_known"][row][:, -longest:]).float()
        line = np.concatenate([events, chunk[:, None, plain:]], axis=1)
        fields = OrderedDict((f"f{i}", torch.from_numpy(chunk[:, i]).long()) for i in range(plain))
        item = OrderedDict(
            (f"f{plain + i}", torch.from_numpy(np.ascontiguousarray(line[:, :, i]).reshape(-1)).long())
            for i in range(items)
        )
        if part == "fit":
            fields[LABEL] = torch.from_numpy(given["label"][some]).float()
        yield fields, item, known


def main(source: str, target: str) -> None:
    """One pass over the fitted rows, then predictions."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    with np.load(source) as data:
        given = {name: data[name] for name in data.files}
    settings = json.loads(str(given["settings"]))
    seed_everything(int(given["seed"]))
    kind = {"din": DIN, "dcnv2": DCNv2}[settings.pop("model")]
    size, items = settings.pop("batch_size"), given["fit_events"].shape[2]
    fixed = {"optimizer": "adam", "loss": "binary_crossentropy", "verbose": 0, "metrics": [], "gpu": -1}
    with tempfile.TemporaryDirectory() as folder:
        model = kind(
            feature_map(given["sizes"].tolist(), items, settings["embedding_dim"]),
            model_root=folder,
            **fixed,
            **settings,
        )
    model._max_gradient_norm = 10.0
    model.train()
    for number, batch in enumerate(batches(given, "fit", size, items)):
        model._batch_index = number
        model.train_step(batch)
    model.eval()
    with torch.no_grad():
        parts = [model(batch)["y_pred"].double().view(-1) for batch in batches(given, "judged", 4096, items)]
    np.save(target, torch.cat(parts).numpy()[None])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
