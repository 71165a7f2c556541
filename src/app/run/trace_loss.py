"""Traces a user's loss function into a graph of torch operations: trace_loss.py PLACE NAME OPERATIONS.

PLACE is FILE.py or PACKAGE.MODULE, NAME the function in it, and OPERATIONS a JSON list of the allowed operators by their ATen names.
Calls the function on tensors that hide their values, with several numbers of tokens. The traces must be equal. Prints one line of JSON:

    {"graph": {"inputs": [NAME, ...], "nodes": [NODE, ...], "loss": INDEX, "metrics": {NAME: INDEX}}}
    {"error": TEXT}

A node is {"op": NAME, "args": {NAME: VALUE}, "line": "FILE.py:LINE"} or {"constant": NUMBER, "dtype": NAME, "line": ...}. Indices count
the inputs first, then the nodes. A value is a number, a bool, a list of integers, {"node": INDEX}, {"dtype": NAME}, or {"float": "inf"}.
"""
import importlib
import importlib.util
import inspect
import json
import math
import os
import re
import resource
import sys
import traceback
import types

MOST_NODES = 10000
MOST_METRICS = 32
SIZES = (11, 17, 1, 10007)  # numbers of tokens
MOST_BYTES = 64 << 20  # of a file, such as the one in memory that takes what the function prints
METRIC_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
PROGRAM = (lambda: 0).__code__.co_filename
LISTED = "docs/reference/objectives.md lists the allowed operations"
HINTS = (
    (r"aten::(index|index_put_?|masked_select|nonzero|masked_fill_)$", "use torch.where, or multiply by a mask"),
    (r"aten::index\.Tensor$", "use torch.where, or multiply by a mask; ingot_loss.segment_sum and segment_mean sum over calls"),
    (r"aten::(expand|view|reshape|unsqueeze|squeeze|repeat|_unsafe_view|select|slice|unbind)", "every tensor is [T] or a single number"),
    (r"aten::(rand|normal|bernoulli|dropout|uniform)", "a loss must not be random"),
    (r"aten::\w*[a-z]_(\.\w+)?$", "it changes a tensor in place: assign its result to a name instead, such as x = x + 1"),
)
HELPERS = '''
"""Sums over the tokens of a call or an episode, for custom losses."""
import torch

def segment_sum(values, segments):
    """Returns [T]: for each token, the sum of `values` [T] over the tokens with its number in `segments` [T]."""
    return torch.zeros_like(values).index_add(0, segments, values).index_select(0, segments)

def segment_mean(values, segments):
    """Returns [T]: for each token, the mean of `values` [T] over the tokens with its number in `segments` [T]."""
    return segment_sum(values, segments) / segment_sum(torch.ones_like(values), segments)
'''


class Fault(BaseException):  # `except Exception` in a loss does not catch it
    pass


def import_torch():
    try:
        import torch
        return torch
    except Exception as error:
        raise Fault(f"the interpreter {sys.executable} cannot import torch ({error}): install torch there, or set an interpreter that "
                    "has it with the key `python`")


def user_line():
    """Returns FILE:LINE of the innermost frame that is neither this program's nor torch's."""
    frame = sys._getframe(1)
    folder = os.path.dirname(sys.modules["torch"].__file__)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(("<", folder)) and name != PROGRAM:
            return f"{os.path.basename(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return os.path.basename(sys.argv[1])


def refuse_value(self, *_, **__):
    raise Fault(f"{user_line()}: the loss uses a tensor's value in Python (if, while, float(), item(), or the like), but it is traced once, "
                "before there are values: use torch.where for a choice that depends on values")


def refuse_question(*_):
    raise Fault(f"{user_line()}: the loss asks whether a tensor has a gradient, which the trace cannot know: write one formula for both cases")


def refuse_assignment(*_):
    raise Fault(f"{user_line()}: the loss assigns to a tensor's data: assign its result to a name instead")


def refuser():
    """Returns a new function: some of torch's modules reject one function under two names."""
    def refuse_gradient(*_, **__):
        raise Fault(f"{user_line()}: the loss computes gradients itself (torch.autograd), which the trace does not keep: write it with "
                    "operations on tensors, and use detach() for factors that are held constant")
    return refuse_gradient


class Graph:
    """The operations of one call of the function."""

    def __init__(self, torch, operations, inputs):
        self.torch, self.operations, self.first = torch, operations, len(inputs)
        self.nodes = []
        graph = self

        class Traced(torch.Tensor):
            @staticmethod
            def __new__(cls, sample, index):
                made = torch.Tensor._make_wrapper_subclass(cls, sample.shape, dtype=sample.dtype, device="cpu")
                made.sample, made.index = sample, index  # the sample gives shapes and types
                return made

            __torch_function__ = torch._C._disabled_torch_function_impl

            @classmethod
            def __torch_dispatch__(cls, func, kinds, args=(), kwargs=None):
                return graph.apply(func, args, kwargs or {})

            data = property(lambda self: self.detach(), refuse_assignment)
            requires_grad = is_leaf = grad = grad_fn = property(refuse_question, refuse_assignment)

            def __repr__(self):
                return f"<tensor of shape {list(self.shape)}, without values>"

            __bool__ = __float__ = __int__ = __index__ = __complex__ = __contains__ = item = tolist = numpy = __array__ = refuse_value

        self.Traced = Traced
        self.given = {name: Traced(sample, index) for index, (name, sample) in enumerate(inputs.items())}

    def append(self, node):
        if len(self.nodes) >= MOST_NODES:
            raise Fault(f"{user_line()}: the loss has more than {MOST_NODES} operations; a loop in it may run over tokens: use operations on "
                        "whole tensors")
        node["line"] = user_line()
        self.nodes.append(node)
        return self.first + len(self.nodes) - 1

    def constant(self, tensor):
        if tensor.numel() != 1 or tensor.dim() > 0 and tensor.shape[0] != 1 or tensor.dtype.is_complex:
            raise Fault(f"{user_line()}: the loss uses a constant tensor of shape {list(tensor.shape)}; constants are single numbers, and "
                        "every other tensor must come from the arguments (torch.zeros_like and ones_like make new ones)")
        return self.append({"constant": self.number(tensor.item()), "dtype": self.dtype(tensor.dtype)})

    @staticmethod
    def number(value):
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": str(value)}
        return value

    @staticmethod
    def dtype(dtype):
        name = str(dtype).replace("torch.", "")
        if name not in ("float32", "float64", "int32", "int64", "bool"):
            raise Fault(f"{user_line()}: the loss uses the type {name}; use float64 or float32, int64 or int32, or bool")
        return {"dtype": name}

    def value(self, value, name):
        torch = self.torch
        if isinstance(value, self.Traced):
            if value.index is None:
                raise Fault(f"{user_line()}: the loss uses a second result of an operation, which the trace does not keep")
            return {"node": value.index}
        if isinstance(value, torch.Tensor):
            return {"node": self.constant(value)}
        if isinstance(value, torch.dtype):
            return self.dtype(value)
        if isinstance(value, (bool, int, float)):
            return self.number(value)
        if isinstance(value, (list, tuple)) and all(isinstance(each, int) for each in value):
            return list(value)
        raise Fault(f"{user_line()}: the loss gives an operation an argument ({name}) of type {type(value).__name__}; numbers, tensors, and "
                    "types of numbers are possible")

    def record(self, func, args, kwargs):
        given = dict(zip((each.name for each in func._schema.arguments), args))
        given.update(kwargs)
        if given.get("device") is not None and self.torch.device(given["device"]).type != "cpu":
            raise Fault(f"{user_line()}: the loss moves a tensor to a device; it runs on the CPU")
        kept = {name: self.value(value, name) for name, value in given.items()
                if value is not None and name not in ("device", "layout", "pin_memory", "memory_format", "non_blocking")}
        return self.append({"op": func.name(), "args": kept})

    def apply(self, func, args, kwargs):
        name = func.name()
        if name in ("aten::_local_scalar_dense", "aten::item", "aten::is_nonzero", "aten::equal"):
            refuse_value(None)
        if name not in self.operations:
            hint = next((f": {hint}" for pattern, hint in HINTS if re.match(pattern, name)), "")
            raise Fault(f"{user_line()}: the operation {name.replace('aten::', '')} is not allowed in a custom loss{hint}. {LISTED}")
        index = self.record(func, args, kwargs)
        sample = lambda each: each.sample if isinstance(each, self.Traced) else each
        result = func(*map(sample, args), **{key: sample(each) for key, each in kwargs.items()})
        if isinstance(result, tuple):
            return (self.Traced(result[0], index), *(self.Traced(each, None) for each in result[1:]))
        if not self.torch.is_grad_enabled():  # torch.no_grad leaves no operation of its own
            index = self.append({"op": "aten::detach", "args": {"self": {"node": index}}})
        return self.Traced(result, index)

    def index_of(self, value, what, tokens, shapes):
        if not isinstance(value, self.torch.Tensor):
            raise Fault(f"{what} is {'None' if value is None else 'of type ' + type(value).__name__}, but must be a tensor of shape [T], with "
                        f"a number for each of the T tokens")
        if list(value.shape) not in shapes:
            raise Fault(f"{what} has the shape {list(value.shape)} for T = {tokens} tokens, but must have the shape [T]; "
                        "trainer.loss_aggregation averages the tokens' losses")
        return self.value(value, what)["node"]


def load(place, name):
    helpers = types.ModuleType("ingot_loss")
    exec(compile(HELPERS, "<ingot_loss>", "exec"), helpers.__dict__)
    sys.modules["ingot_loss"] = helpers
    if place.endswith(".py"):
        if not os.path.isfile(place):
            raise Fault(f"{place} is not a file")
        sys.path.append(os.path.dirname(os.path.abspath(place)))  # last: a random.py there must not replace Python's
        spec = importlib.util.spec_from_file_location(os.path.basename(place)[:-3], place)
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(spec.name, module)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    found = getattr(module, name, None)
    if not callable(found):
        raise Fault(f"{place} has no function {name}")
    return found


def arguments_of(function, given):
    taken = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind == parameter.VAR_KEYWORD:
            return given
        if parameter.kind == parameter.VAR_POSITIONAL:
            continue
        if parameter.name in given and parameter.kind != parameter.POSITIONAL_ONLY:
            taken[parameter.name] = given[parameter.name]
        elif parameter.default is parameter.empty:
            raise Fault(f"it takes an argument {parameter.name}, which does not exist; available: {', '.join(given)}")
    return taken


def inputs_of(torch, tokens):
    numbers, zeros = -torch.ones(tokens, dtype=torch.float64), torch.zeros(tokens, dtype=torch.int64)
    return {"logprobs": numbers, "rollout_logprobs": numbers, "advantages": numbers, "mask": zeros == 0, "segments": zeros, "episodes": zeros}


def metrics_of(graph, given, tokens):
    if not isinstance(given, dict) or len(given) > MOST_METRICS:
        raise Fault(f"the second result must be a dictionary of at most {MOST_METRICS} metrics")
    for name in given:
        if not isinstance(name, str) or not METRIC_NAME.fullmatch(name):
            raise Fault(f"the metric {name!r} must have a name of letters, digits, and _.-, at most 64 characters long")
    return {name: graph.index_of(value, f"the metric {name}", tokens, ([tokens], [])) for name, value in given.items()}


def pruned(inputs, nodes, loss, metrics):
    """The graph without the nodes that no result needs."""
    needed, pending = set(), [loss, *metrics.values()]
    while pending:
        index = pending.pop()
        if index in needed:
            continue
        needed.add(index)
        if index >= len(inputs):
            pending += [value["node"] for value in nodes[index - len(inputs)].get("args", {}).values()
                        if isinstance(value, dict) and "node" in value]
    order = [*range(len(inputs)), *sorted(index for index in needed if index >= len(inputs))]
    place = {index: at for at, index in enumerate(order)}
    moved = lambda value: {"node": place[value["node"]]} if isinstance(value, dict) and "node" in value else value
    kept = [nodes[index - len(inputs)] for index in order[len(inputs):]]
    for node in kept:
        if "args" in node:
            node["args"] = {name: moved(value) for name, value in node["args"].items()}
    return {"inputs": list(inputs), "nodes": kept, "loss": place[loss], "metrics": {name: place[at] for name, at in metrics.items()}}


def trace(torch, function, operations, tokens):
    inputs = inputs_of(torch, tokens)
    graph = Graph(torch, operations, inputs)
    result = function(**arguments_of(function, graph.given))
    metrics = {}
    if isinstance(result, tuple) and len(result) == 2:
        result, metrics = result[0], metrics_of(graph, result[1], tokens)
    loss = graph.index_of(result, "its result", tokens, ([tokens],))
    if not result.dtype.is_floating_point:
        raise Fault(f"its result has the type {result.dtype}, but a loss is a floating-point number")
    return pruned(inputs, graph.nodes, loss, metrics)


def difference(first, second):
    for one, other in zip(first["nodes"], second["nodes"]):
        if one != other:
            return one["line"]
    longer = max(first["nodes"], second["nodes"], key=len)
    return longer[-1]["line"] if longer else "the loss"


def graph_of(place, name, operations):
    torch = import_torch()
    torch.autograd.grad, torch.autograd.backward, torch.Tensor.backward = refuser(), refuser(), refuser()
    torch.autograd.Function.apply = classmethod(refuser())
    function = load(place, name)
    first = trace(torch, function, operations, SIZES[0])
    for tokens in SIZES[1:]:
        other = trace(torch, function, operations, tokens)
        if other != first:
            raise Fault(f"{difference(first, other)}: two traces of the loss differ. It may use the number of tokens (shape, len, numel), a "
                        "random number, or a variable that it changes: use sum and mean over tensors instead, and "
                        "torch.ones_like(x).sum() for the number")
    return first


def stack_of(error):
    """The stack trace without the frames of this program and of torch."""
    folder = os.path.dirname(sys.modules["torch"].__file__)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if frame.filename != PROGRAM and not frame.filename.startswith((folder, "<"))]
    lines = traceback.format_list(frames) + traceback.format_exception_only(type(error), error)
    return "".join(lines).rstrip()


def main():
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the function prints must not mix with the answer
    place, name, operations = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    try:
        answer = {"graph": graph_of(place, name, set(operations))}
    except Fault as fault:
        answer = {"error": str(fault)}
    except BaseException as error:
        answer = {"error": stack_of(error)}
    channel.write(json.dumps(answer) + "\n")
    channel.close()


main()
