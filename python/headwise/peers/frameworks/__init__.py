"""One file for each framework; `load` imports the file, the class imports the framework."""

from __future__ import annotations

import importlib
import importlib.metadata

from headwise.peers.peer import Peer

FRAMEWORKS = {
    "headwise": ("headwise_peer", "HeadwisePeer"),
    "torch": ("torch_peer", "TorchPeer"),
    "keras-tensorflow": ("keras_peer", "KerasTensorFlow"),
    "keras-jax": ("keras_peer", "KerasJax"),
    "keras-torch": ("keras_peer", "KerasTorch"),
    "jax": ("jax_peer", "JaxPeer"),
    "onnxruntime": ("onnxruntime_peer", "OnnxRuntimePeer"),
    "openvino": ("openvino_peer", "OpenVinoPeer"),
}


def load(key: str) -> type[Peer]:
    """The class of one of FRAMEWORKS; imports nothing but its file.

    >>> from headwise.peers.frameworks import load
    >>> load("torch").name
    'PyTorch'
    """
    module, name = FRAMEWORKS[key]
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def versions(peer: type[Peer]) -> tuple[dict[str, str], list[str]]:
    """Of the packages it needs: the versions that are installed, and what is missing."""
    found: dict[str, str] = {}
    missing: list[str] = []
    for package in peer.packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            missing.append(package)
    return found, missing
