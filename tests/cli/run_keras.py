"""Loads saved models with the real Keras on one backend and runs them.

Usage: run_keras.py JOBS.json, with KERAS_BACKEND set; a job is {model, inputs, output, sizes?}. With
sizes, `model` is a .weights.h5 that is loaded into a model of these sizes; else a .keras.
`inputs` is an npz of query, value and key for each layer: query0, value0, key0, query1, …
"""

from __future__ import annotations

import json
import sys

import framework_layers as fw
import keras
import numpy as np


def outputs_of(job: dict) -> list[np.ndarray]:
    if "sizes" in job:
        layers = [(fw.Sizes(**sizes), f"layer_{i}") for i, sizes in enumerate(job["sizes"])]
        model = fw.keras_model(*layers)
        model.load_weights(job["model"])
    else:
        model = keras.saving.load_model(job["model"])
    with np.load(job["inputs"]) as file:
        layers = len(file.files) // 3
        inputs = [file[f"{part}{i}"] for i in range(layers) for part in ("query", "value", "key")]
    outputs = model(inputs)
    outputs = outputs if isinstance(outputs, list | tuple) else [outputs]
    return [fw.keras_numpy(x) for x in outputs]


def main() -> None:
    for job in json.loads(open(sys.argv[1], encoding="utf-8").read()):
        np.savez(job["output"], *outputs_of(job))


if __name__ == "__main__":
    main()
