"""Set before JAX is imported."""

from __future__ import annotations

import os

# Most of the time would go into optimising code that runs once.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")
