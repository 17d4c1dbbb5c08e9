"""Headwise beside PyTorch, Keras, JAX, ONNX Runtime and OpenVINO on the rows of the benchmark.

    python -m headwise.peers [--quick] [--rows REGEX] [--threads 1,2] [--frameworks torch,jax]

Every framework runs in a process of its own, on the same CPUs, one at a time; the others sleep. What it computes is
compared with what Headwise computes before its times count. `frameworks/` has one file for each, which
shows its settings; where there are several ways to compute a row, all are tried and the fastest one counts.
"""
