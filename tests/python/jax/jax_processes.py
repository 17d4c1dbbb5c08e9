"""Run by a test, in a process of its own: JAX may begin after a fork, but cannot survive one."""

import multiprocessing

import headwise
import headwise.jax
import jax
import numpy

X = numpy.random.default_rng(0).standard_normal((4, 64, 8, 32), numpy.float32)


def child(connection):
    run = jax.jit(jax.value_and_grad(lambda x: headwise.jax.attention(x, x, x).sum()))
    connection.send(numpy.asarray(headwise.jax.attention(X, X, X)).tobytes())
    connection.send(bool(numpy.isfinite(run(X)[1]).all()))


if __name__ == "__main__":
    expected = headwise.attention(X, X, X).output.tobytes()  # with threads, which a fork leaves behind
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        here, there = context.Pipe()
        process = context.Process(target=child, args=(there,))
        process.start()
        there.close()
        assert here.recv() == expected
        assert here.recv()
        process.join()
        assert process.exitcode == 0
    print("done")
