"""torch.nn.MultiheadAttention with every option."""

import numpy as np
import torch

from golden_file import GoldenFile, Numbers, prefixed

EMBED, HEADS, BATCH, QUERIES, KEYS = 6, 2, 2, 3, 5


def randomised(module, numbers):
    """The module with seeded numbers in every parameter (torch starts biases at zero)."""
    with torch.no_grad():
        for _, parameter in sorted(module.named_parameters()):
            parameter.copy_(torch.from_numpy(numbers.normal(*parameter.shape, deviation=0.5)))
    return module


def arrays(tensors):
    return {name: tensor.detach().numpy() for name, tensor in tensors.items()}


def gradients(output, cotangent, leaves):
    """Of sum(output · cotangent), for every leaf."""
    found = torch.autograd.grad((output * cotangent).sum(), list(leaves.values()))
    return dict(zip(leaves, found))


def _leaf(array):
    return torch.from_numpy(array).requires_grad_()


def _call_masks(masks):
    """Float masks are leaves, since we want their gradients."""
    return {name: torch.from_numpy(mask) if mask.dtype == bool else _leaf(mask)
            for name, mask in masks.items()}


def _case(golden, name, arguments=None, masks=None, weights="averaged", batch_first=True,
          batched=True):
    """Inputs, weights, output and all gradients of one module in training mode, dropout 0."""
    arguments = arguments or {}
    numbers = Numbers("torch " + name)
    module = randomised(torch.nn.MultiheadAttention(
        EMBED, HEADS, batch_first=batch_first, **arguments), numbers)
    sizes = {"query": (QUERIES, EMBED), "key": (KEYS, arguments.get("kdim", EMBED)),
             "value": (KEYS, arguments.get("vdim", EMBED))}
    inputs = {}
    for tensor, (length, features) in sizes.items():
        shape = (BATCH, length) if batch_first else (length, BATCH)
        inputs[tensor] = _leaf(numbers.normal(*(shape if batched else (length,)), features))
    masks = _call_masks(masks(numbers) if masks else {})
    output, attention = module(**inputs, **masks, need_weights=weights != "none",
                               average_attn_weights=weights == "averaged")
    cotangent = torch.from_numpy(numbers.normal(*output.shape))
    parameters = prefixed("weight/", dict(module.named_parameters()))
    biases = {mask: value for mask, value in masks.items() if value.requires_grad}
    tensors = {**inputs, **masks, **parameters, "output": output, "cotangent": cotangent,
               **prefixed("gradient/",
                          gradients(output, cotangent, {**inputs, **parameters, **biases}))}
    if weights != "none":
        tensors["attention"] = attention
    golden.add(name, {"embed_dim": EMBED, "num_heads": HEADS, "batch_first": batch_first,
                      "weights": weights, **arguments}, arrays(tensors))


def _inference_case(golden, name, masks=None, nan_in_value=None, options=None, train=False):
    """One forward in which query, key and value are one tensor, the native inference path in
    evaluation mode."""
    numbers = Numbers("torch " + name)
    module = randomised(torch.nn.MultiheadAttention(EMBED, HEADS, batch_first=True), numbers)
    module.train(train)
    query = numbers.normal(BATCH, KEYS, EMBED)
    value = query.copy()
    if nan_in_value is not None:
        value[nan_in_value] = np.nan
    masks = {mask: torch.from_numpy(array) for mask, array in (masks or {}).items()}
    with torch.no_grad():
        q = torch.from_numpy(query)
        v = q if nan_in_value is None else torch.from_numpy(value)
        run = lambda value: module(q, q, value, need_weights=False, **masks)[0].numpy()
        tensors = {"query": query, "key": query, "value": value, "output": run(v)}
        if nan_in_value is not None:
            tensors["clean_output"] = run(torch.from_numpy(np.nan_to_num(value)))
        tensors |= {mask: array.numpy() for mask, array in masks.items()}
        tensors |= arrays(prefixed("weight/", dict(module.named_parameters())))
    options, differing = dict(options or {}), None
    if options.get("differs") in ("nan", "mean_of_value"):
        differing = masks["attn_mask"].numpy().all(-1)
        tensors["differing_rows"] = np.broadcast_to(differing, (BATCH, KEYS))
    golden.add(name, {"embed_dim": EMBED, "num_heads": HEADS, "weights": "none",
                      "batch_first": True, **options}, tensors)


# What torch calls a mask: true = DROP, a float is added.
def _drop(*shape):
    return lambda numbers: {"attn_mask": ~numbers.keep_mask(*shape)}


def _added(*shape):
    return lambda numbers: {"attn_mask": numbers.normal(*shape)}


def _padding(numbers):
    return {"key_padding_mask": np.array([[0, 0, 0, 0, 1], [0, 0, 1, 1, 0]], dtype=bool)}


def _float_padding(numbers):
    mask = numbers.normal(BATCH, KEYS)
    mask[0, 4] = -np.inf
    return {"key_padding_mask": mask}


def _both(*makers):
    return lambda numbers: {name: mask for make in makers for name, mask in make(numbers).items()}


def _drop_with_padding(numbers):
    """A boolean attn_mask beside padding that leaves key 0 to every row."""
    mask = _drop(QUERIES, KEYS)(numbers)["attn_mask"]
    mask[:, 0] = False
    return {"attn_mask": mask, **_padding(numbers)}


def _differences(golden):
    empty_row = np.zeros((KEYS, KEYS), dtype=bool)
    empty_row[1] = True
    last_key = np.zeros((BATCH, KEYS), dtype=bool)
    last_key[1, 4] = True
    _inference_case(golden, "inference")
    _inference_case(golden, "inference_padding", {"key_padding_mask": last_key})
    _inference_case(golden, "empty_row_inference", {"attn_mask": empty_row},
                    options={"differs": "nan"})
    _inference_case(golden, "empty_row_training", {"attn_mask": empty_row}, train=True)
    _inference_case(golden, "nan_in_masked_value", {"key_padding_mask": last_key},
                    nan_in_value=(1, 4), options={"differs": "leak"})


def make():
    golden, plane, stack = GoldenFile(), (QUERIES, KEYS), (BATCH * HEADS, QUERIES, KEYS)
    _case(golden, "plain")
    _case(golden, "plain_per_head", weights="per_head")
    _case(golden, "plain_no_weights", weights="none")
    _case(golden, "no_bias", {"bias": False}, weights="per_head")
    _case(golden, "kdim_vdim", {"kdim": 5, "vdim": 7}, weights="per_head")
    _case(golden, "kdim_no_bias", {"kdim": 4, "bias": False}, weights="none")
    for extra in (["add_bias_kv"], ["add_zero_attn"], ["add_bias_kv", "add_zero_attn"]):
        name = "_and_".join(extra)
        arguments = dict.fromkeys(extra, True)
        _case(golden, name, arguments, weights="per_head")
        _case(golden, name + "_masked", {**arguments, "kdim": 5, "vdim": 7}, weights="averaged",
              masks=_both(_added(*plane), _float_padding))
        _case(golden, name + "_dropped", arguments, weights="none", masks=_drop_with_padding)
    _case(golden, "sequence_first", batch_first=False)
    _case(golden, "sequence_first_padding", batch_first=False, masks=_padding, weights="none")
    _case(golden, "unbatched", batched=False)
    _case(golden, "unbatched_per_head_masks", batched=False, weights="per_head",
          masks=_drop(HEADS, QUERIES, KEYS))
    _case(golden, "unbatched_padding", batched=False,
          masks=lambda _: {"key_padding_mask": np.array([0, 1, 0, 0, 1], dtype=bool)})
    _case(golden, "key_padding", masks=_padding, weights="per_head")
    _case(golden, "key_padding_float", masks=_float_padding, weights="none")
    _case(golden, "bool_mask", masks=_drop(*plane), weights="per_head")
    _case(golden, "bool_mask_per_head", masks=_drop(*stack), weights="per_head")
    _case(golden, "float_mask", masks=_added(*plane), weights="per_head")
    _case(golden, "float_mask_per_head", masks=_added(*stack), weights="none")
    _case(golden, "bool_mask_and_padding", masks=_drop_with_padding, weights="per_head")
    _case(golden, "float_mask_and_padding", masks=_both(_added(*stack), _float_padding))
    _differences(golden)
    return golden
