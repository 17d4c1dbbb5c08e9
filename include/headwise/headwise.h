// Headwise: multi-head attention for the CPU. Include this and nothing else.
//
//   config, weights ──► MultiHeadAttention ──forward──► AttentionResult ──backward──► LayerGradients
//   q, k, v views ─────► attention ───────────────────► AttentionResult ──attention_backward──► …
#pragma once

#include "headwise/attention.h"
#include "headwise/config.h"
#include "headwise/context.h"
#include "headwise/error.h"
#include "headwise/layer.h"
#include "headwise/linear.h"
#include "headwise/mask.h"
#include "headwise/presets.h"
#include "headwise/tensor.h"
#include "headwise/transforms.h"
#include "headwise/version.h"
#include "headwise/weights.h"
