/* list.h - every operator once: FB_OP(name, ATen meaning, FLOPs per unit of work).
 *
 * The list feeds the enum, the ledger, the trace, the kernels of a backend, docs/OPERATORS.md
 * and the conformance test. A unit of work is what the front door counts for the operator: a
 * multiply-add for products, an element read for the rest. Several ATen names: the entry is
 * defined as their composition, in this order; a backend may fuse them.
 *
 * "C" in the last column: can PyTorch's stable C ABI call it as it is ("direct"), or by what.
 *
 * SPDX-License-Identifier: MIT
 */
/* clang-format off */
/*    name            ATen                                                   FLOPs  from C */
FB_OP(from_host,      "aten::_to_copy",                                          0, "direct")
FB_OP(to_host,        "aten::_to_copy",                                          0, "direct")
FB_OP(full,           "aten::full",                                              0, "aoti_torch_aten_full")
FB_OP(narrow,         "aten::narrow, aten::contiguous",                          0, "direct")
FB_OP(add,            "aten::add.Tensor",                                        2, "aoti_torch_aten_subtract_Tensor")
FB_OP(mul,            "aten::mul.Tensor",                                        1, "direct")
FB_OP(div,            "aten::div.Tensor",                                        1, "direct")
FB_OP(maximum,        "aten::maximum",                                           1, "direct")
FB_OP(scale,          "aten::mul.Tensor",                                        1, "0-dim tensor")
FB_OP(sqrt,           "aten::pow.Tensor_Tensor",                                 1, "0-dim tensor")
FB_OP(exp,            "aten::exp",                                               8, "direct")
FB_OP(log,            "aten::log",                                               8, "0-dim tensor")
FB_OP(abs,            "aten::abs",                                               1, "direct")
FB_OP(sum,            "aten::sum.dim_IntList",                                   1, "direct")
FB_OP(mean,           "aten::mean.dim",                                          1, "direct")
FB_OP(var,            "aten::var.correction",                                    4, "mean.dim, mul.Tensor, sum.dim_IntList")
FB_OP(amax,           "aten::amax",                                              1, "direct")
FB_OP(softmax,        "aten::softmax.int",                                      11, "direct")
FB_OP(avg_pool1d,     "aten::avg_pool1d",                                        1, "direct")
FB_OP(max_pool1d,     "aten::max_pool1d",                                        1, "direct")
FB_OP(bmm,            "aten::bmm",                                               2, "direct")
FB_OP(topk,           "aten::sort.stable, aten::narrow",                         1, "direct")
FB_OP(gather,         "aten::gather",                                            0, "direct")
/* the model */
FB_OP(embedding,      "aten::embedding",                                         0, "direct")
FB_OP(linear,         "aten::linear",                                            2, "direct")
FB_OP(rms_norm,       "aten::rms_norm",                                          4, "direct")
FB_OP(head_norm_,     "aten::narrow, aten::rms_norm, aten::copy_",               4, "composition")
FB_OP(rotary,         "aten::mul.Tensor, aten::neg, aten::cat, aten::add.Tensor", 3, "composition")
FB_OP(swiglu,         "aten::silu, aten::mul.Tensor",                           11, "composition")
FB_OP(geglu,          "aten::gelu, aten::mul.Tensor",                           16, "composition")
FB_OP(add_,           "aten::add_.Tensor",                                       1, "aoti_torch_aten_subtract_Tensor")
/* keys and values */
FB_OP(kv_write,       "aten::slice_scatter",                                     0, "direct")
FB_OP(kv_copy,        "aten::index_select",                                      0, "direct")
FB_OP(kv_turn,        "aten::mul.Tensor, aten::neg, aten::cat, aten::add.Tensor", 3, "composition")
FB_OP(kv_read,        "aten::clone",                                             0, "direct")
/* the one attention: S = QK^T scale, mask, P = exp(S - amax), l = sum P, O = (P V) / l */
FB_OP(attention,      "aten::bmm, aten::mul.Tensor, aten::masked_fill.Tensor, aten::amax, aten::exp, aten::sum.dim_IntList, aten::bmm, aten::div.Tensor", 2, "composition")
FB_OP(attention_sum,  "aten::bmm, aten::add.Tensor",                             2, "composition")
FB_OP(attention_rows, "aten::div.Tensor, aten::slice_scatter",                   1, "composition")
/* measures of an answer */
FB_OP(argmax,         "aten::argmax",                                            1, "direct")
FB_OP(nll,            "aten::_to_copy, aten::log_softmax.int, aten::gather",     9, "composition")
FB_OP(kl,             "aten::_to_copy, aten::log_softmax.int, aten::exp, aten::mul.Tensor, aten::sum.dim_IntList", 20, "composition")
/* clang-format on */
