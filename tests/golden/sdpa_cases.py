"""torch.nn.functional.scaled_dot_product_attention."""

import numpy as np
import torch

from golden_file import GoldenFile, Numbers, prefixed
from torch_cases import arrays, gradients

BATCH, HEADS, QUERIES, KEYS, SIZE = 2, 4, 3, 5, 6
attend = torch.nn.functional.scaled_dot_product_attention


def _case(golden, name, mask=None, queries=QUERIES, keys=KEYS, key_heads=HEADS, value_size=SIZE,
          **arguments):
    numbers = Numbers("sdpa " + name)
    inputs = {"query": numbers.normal(BATCH, HEADS, queries, SIZE),
              "key": numbers.normal(BATCH, key_heads, keys, SIZE),
              "value": numbers.normal(BATCH, key_heads, keys, value_size)}
    leaves = {tensor: torch.from_numpy(array).requires_grad_() for tensor, array in inputs.items()}
    tensors, call = dict(leaves), dict(arguments)
    if mask is not None:
        mask = torch.from_numpy(mask(numbers))
        tensors["attn_mask"] = call["attn_mask"] = mask
        if mask.dtype != torch.bool:
            leaves["attn_mask"] = mask.requires_grad_()
    output = attend(leaves["query"], leaves["key"], leaves["value"], **call)
    cotangent = torch.from_numpy(numbers.normal(*output.shape))
    tensors |= {"output": output, "cotangent": cotangent,
                **prefixed("gradient/", gradients(output, cotangent, leaves))}
    golden.add(name, arguments, arrays(tensors))


def _leak(golden, name):
    numbers = Numbers("sdpa " + name)
    query, key, value = (numbers.normal(BATCH, HEADS, length, SIZE)
                         for length in (QUERIES, KEYS, KEYS))
    mask = np.ones((BATCH, 1, QUERIES, KEYS), dtype=bool)
    mask[1, :, :, 2] = False
    value[1, :, 2] = np.nan
    run = lambda value: attend(*map(torch.from_numpy, (query, key, value)),
                               attn_mask=torch.from_numpy(mask)).numpy()
    golden.add(name, {"differs": "leak"},
               {"query": query, "key": key, "value": value, "attn_mask": mask,
                "output": run(value), "clean_output": run(np.nan_to_num(value))})


def _keep(*shape):
    return lambda numbers: numbers.keep_mask(*shape)


def _added(*shape):
    return lambda numbers: numbers.normal(*shape)


def _empty_row(numbers):
    mask = numbers.keep_mask(QUERIES, KEYS)
    mask[1] = False
    return mask


def make():
    golden = GoldenFile()
    _case(golden, "plain")
    _case(golden, "causal", keys=QUERIES, is_causal=True)
    _case(golden, "causal_more_keys", is_causal=True)
    _case(golden, "causal_fewer_keys", queries=5, keys=3, is_causal=True)
    _case(golden, "bool_mask", mask=_keep(QUERIES, KEYS))
    _case(golden, "bool_mask_rank_3", mask=_keep(HEADS, QUERIES, KEYS))
    _case(golden, "bool_mask_per_batch", mask=_keep(BATCH, 1, QUERIES, KEYS))
    _case(golden, "bool_mask_all_axes", mask=_keep(BATCH, HEADS, QUERIES, KEYS))
    _case(golden, "float_mask", mask=_added(QUERIES, KEYS))
    _case(golden, "float_mask_rank_3", mask=_added(HEADS, QUERIES, KEYS))
    _case(golden, "float_mask_per_key", mask=_added(BATCH, 1, 1, KEYS))
    _case(golden, "float_mask_all_axes", mask=_added(BATCH, HEADS, QUERIES, KEYS))
    _case(golden, "scale", scale=0.25)
    _case(golden, "scale_zero", scale=0.0)
    _case(golden, "grouped_heads", key_heads=2, enable_gqa=True)
    _case(golden, "one_key_head", key_heads=1, enable_gqa=True)
    _case(golden, "value_size", value_size=3)
    _case(golden, "all_together", mask=_added(BATCH, HEADS, QUERIES, KEYS), key_heads=2,
          enable_gqa=True, value_size=7, scale=0.7)
    _case(golden, "empty_row", mask=_empty_row)
    _leak(golden, "nan_in_masked_value")
    return golden
