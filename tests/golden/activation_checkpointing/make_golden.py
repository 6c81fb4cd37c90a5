"""Writes golden.json beside this file: what torch.utils.checkpoint(use_reentrant=False) calls, and when. Functions leave a letter at
each point that they pass, "|" stands where backward begins. C++ follows in tests/parallel/activations/checkpointed_test.cpp.

Run it with the peers' Python: .venv/bin/python tests/golden/activation_checkpointing/make_golden.py
"""

import json
from pathlib import Path

import torch
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

trace = ""


def mark(letter):
    global trace
    trace += letter


def plain(x):
    mark("a")
    y = x.exp()
    mark("b")
    z = y.sin()
    mark("c")
    out = z + 1
    mark("d")
    return out


def run(function, *inputs):
    return checkpoint(function, *inputs, use_reentrant=False)


def outer(x):
    mark("A")
    y = run(plain, x * x)
    mark("B")
    z = y * y
    mark("C")
    return z


def outer_of_two(x):
    mark("A")
    y = run(plain, x)
    mark("B")
    z = run(plain, y)
    mark("C")
    return z


def gradient_inside(x):
    mark("a")
    y = (x * x).sin()
    mark("b")
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    mark("c")
    return (g * y).exp()


def two_outputs(x):
    mark("a")
    y = x.exp()
    mark("b")
    return y.sin(), y.cos()


def numbers(requires_grad=True):
    return torch.tensor([0.25, 0.5, 1.5], dtype=torch.float64, requires_grad=requires_grad)


def backward(tensor, **options):
    mark("|")
    tensor.sum().backward(**options)


def simple():
    backward(run(plain, numbers()))


def without_early_stop():
    with set_checkpoint_early_stop(False):
        backward(run(plain, numbers()))


def twice():
    out = run(plain, numbers())
    backward(out, retain_graph=True)
    backward(out)


def nested():
    backward(run(outer, numbers()))


def nested_twice():
    out = run(outer, numbers())
    backward(out, retain_graph=True)
    backward(out)


def nested_two():
    backward(run(outer_of_two, numbers()))


def backward_of_backward():
    x = numbers()
    out = run(plain, x)
    mark("|")
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    backward(g)


def without_gradients():
    with torch.no_grad():
        run(plain, numbers())


def only_a_parameter():
    w = numbers()
    backward(run(lambda x: plain(x * w), numbers(False)))


def outputs_apart():
    one, other = run(two_outputs, numbers())
    backward(one, retain_graph=True)
    backward(other)


def outputs_together():
    one, other = run(two_outputs, numbers())
    backward(one + other)


def gradient_in_function():
    backward(run(gradient_inside, numbers()))


def two_in_a_row():
    backward(run(plain, run(plain, numbers())))


CASES = [simple, without_early_stop, twice, nested, nested_twice, nested_two, backward_of_backward, without_gradients,
         only_a_parameter, outputs_apart, outputs_together, gradient_in_function, two_in_a_row]


def traced(case):
    global trace
    trace = ""
    case()
    return trace


golden = {"traces": {case.__name__: traced(case) for case in CASES}}
path = Path(__file__).with_name("golden.json")
path.write_text(json.dumps(golden, indent=1) + "\n")
