"""Handlers of XLA's foreign function interface. headwise.jax has everything to use."""

def handlers() -> dict[str, object]:
    """From names to functions, as capsules."""

def set_threads(threads: int) -> None: ...
def threads() -> int: ...
