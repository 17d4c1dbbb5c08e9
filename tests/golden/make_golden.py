#!/usr/bin/env python3
"""Makes the golden files of the parity tests from the frameworks that are installed.

    make_golden.py           writes <framework>.safetensors and versions.json beside this script
    make_golden.py --check   recomputes everything and compares; exit status 1 on drift

One module per framework says what its cases are. About a minute and a half.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib import import_module, metadata
from pathlib import Path

# The cases are tiny and each is compiled once: compiling is the time, not running.
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

from golden_file import TOLERANCE, GoldenFile, drift  # noqa: E402

HERE = Path(__file__).resolve().parent
KERAS_BACKENDS = ("tensorflow", "jax", "torch")
PACKAGES = ("flax", "jax", "keras", "numpy", "onnx", "onnxruntime", "tensorflow-cpu", "torch")


def keras_file():
    """A process per backend: Keras picks its backend once, when it is imported."""
    golden = GoldenFile()
    with tempfile.TemporaryDirectory() as folder:
        for backend in KERAS_BACKENDS:
            path = Path(folder) / "keras.safetensors"
            subprocess.run([sys.executable, str(HERE / "keras_cases.py"), str(path)], check=True,
                           env={**os.environ, "KERAS_BACKEND": backend})
            golden.merge(GoldenFile.load(path))
    return golden


def module_file(name):
    return lambda: import_module(name).make()


FILES = {
    "keras": keras_file,
    "torch": module_file("torch_cases"),
    "sdpa": module_file("sdpa_cases"),
    "jax": module_file("jax_cases"),
    "flax": module_file("flax_cases"),
    "d2l": module_file("d2l_cases"),
    "onnx": module_file("onnx_cases"),
}


def versions():
    found = {package: metadata.version(package) for package in PACKAGES}
    return {"python": platform.python_version(), **found}


def write():
    counts = {}
    for framework, make in FILES.items():
        golden = make()
        path = HERE / f"{framework}.safetensors"
        golden.save(path)
        counts[framework] = len(golden.cases)
        print(f"{framework}: {len(golden.cases)} cases, {len(golden.tensors)} tensors, "
              f"{path.stat().st_size / 1024:.0f} KiB", flush=True)
    text = json.dumps({"made_with": versions(), "cases": counts}, indent=2)
    (HERE / "versions.json").write_text(text + "\n")


def check():
    """Prints a line per framework; true if nothing drifted."""
    stated = json.loads((HERE / "versions.json").read_text())
    for package, version in versions().items():
        if stated["made_with"].get(package) != version:
            print(f"note: files made with {package} {stated['made_with'].get(package)}, "
                  f"installed is {version}")
    clean = True
    for framework, make in FILES.items():
        stored = GoldenFile.load(HERE / f"{framework}.safetensors")
        lines, largest = drift(stored, make())
        if stated["cases"].get(framework) != len(stored.cases):
            lines.append(f"versions.json states {stated['cases'].get(framework)} cases")
        verdict = f"DRIFT in {len(lines)} places" if lines else "ok"
        print(f"{framework}: {len(stored.cases)} cases, largest difference {largest:.1e} "
              f"(allowed {TOLERANCE:.0e}): {verdict}", flush=True)
        for line in lines:
            print(f"  {line}")
        clean = clean and not lines
    return clean


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="compare with the stored files")
    if parser.parse_args().check:
        sys.exit(0 if check() else 1)
    write()


if __name__ == "__main__":
    main()
