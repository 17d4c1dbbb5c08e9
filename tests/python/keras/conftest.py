"""Run once for each backend: KERAS_BACKEND=jax|torch|tensorflow pytest tests/python/keras"""

from __future__ import annotations

import os

import pytest

# Most of the time would go into optimising code that runs once.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "requires_trainable_backend: Keras's own mark; all backends here are")


def pytest_report_header() -> str:
    import keras

    return f"Keras {keras.__version__} on {keras.backend.backend()}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What did not run, and why, without being asked."""
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        terminalreporter.write_line(f"not applicable: {report.nodeid.split('::', 1)[1]}: {reason}")
