/* list.h - every operator once: FB_OP(name, ATen meaning, FLOPs per unit of work).
 *
 * The list feeds the enum, the ledger, the trace, the kernels of a backend, docs/OPERATORS.md
 * and tests/ops/conformance.h. A unit of work is what the front door counts for the operator: a
 * multiply-add for products, an element read for the rest. Several ATen names: the entry is
 * defined as their composition, in this order; a backend may fuse them.
 *
 * The last column is what the torch backend calls through PyTorch's stable C ABI: "direct",
 * the very operators of the definition, or these. Names with aten:: go through PyTorch's
 * dispatcher, others are functions of the ABI: it cannot carry some arguments (of add.Tensor,
 * full, var.correction). What only arranges numbers is left out unless there is nothing
 * else: narrow, select.int, reshape, transpose.int, expand, cat, contiguous, to.dtype,
 * to.device, aoti_torch_copy_. `make test-torch` compares it with what is called.
 *
 * SPDX-License-Identifier: MIT
 */
/* clang-format off */
/*    name            ATen                                                   FLOPs  the torch backend calls */
FB_OP(from_host,      "aten::_to_copy",                                       0, "aoti_torch_copy_")
FB_OP(to_host,        "aten::_to_copy",                                       0, "aoti_torch_copy_")
FB_OP(full,           "aten::full",                                           0, "aoti_torch_aten_full")
FB_OP(narrow,         "aten::narrow, aten::contiguous",                       0, "aten::narrow, aten::clone")
FB_OP(cat,            "aten::cat",                                            0, "direct")
FB_OP(transpose,      "aten::transpose.int, aten::contiguous",                0, "aten::transpose.int, aten::clone")
FB_OP(add,            "aten::add.Tensor",                                     2, "aoti_torch_aten_subtract_Tensor")
FB_OP(mul,            "aten::mul.Tensor",                                     1, "direct")
FB_OP(div,            "aten::div.Tensor",                                     1, "direct")
FB_OP(maximum,        "aten::maximum",                                        1, "direct")
FB_OP(less,           "aten::lt.Tensor, aten::_to_copy",                      1, "aten::lt.Tensor")
FB_OP(where,          "aten::_to_copy, aten::where.self",                     1, "aten::where.self")
FB_OP(scale,          "aten::mul.Tensor",                                     1, "direct")
FB_OP(sqrt,           "aten::sqrt",                                           1, "direct")
FB_OP(exp,            "aten::exp",                                            8, "direct")
FB_OP(log,            "aten::log",                                            8, "direct")
FB_OP(abs,            "aten::abs",                                            1, "direct")
FB_OP(sum,            "aten::sum.dim_IntList",                                1, "direct")
FB_OP(mean,           "aten::mean.dim",                                       1, "direct")
FB_OP(var,            "aten::var.correction",                                 4, "aten::mean.dim, aoti_torch_aten_subtract_Tensor, aten::mul.Tensor, aten::sum.dim_IntList, aten::div.Tensor")
FB_OP(amax,           "aten::amax",                                           1, "direct")
FB_OP(softmax,        "aten::softmax.int",                                   11, "direct")
FB_OP(cumsum,         "aten::cumsum",                                         1, "direct")
FB_OP(avg_pool1d,     "aten::avg_pool1d",                                     1, "direct")
FB_OP(max_pool1d,     "aten::max_pool1d",                                     1, "direct")
FB_OP(bmm,            "aten::bmm",                                            2, "direct")
FB_OP(cholesky_solve, "aten::linalg_cholesky_ex, aten::cholesky_solve",       2, "aten::linalg_cholesky_ex, aten::any, aten::cholesky_solve")
FB_OP(topk,           "aten::sort.stable, aten::narrow",                      1, "aten::isnan, aten::any, aten::sort.stable, aten::narrow")
FB_OP(rank,           "aten::sort.stable, aten::sort.stable, aten::_to_copy", 2, "aten::isnan, aten::any, aten::sort.stable")
FB_OP(gather,         "aten::gather",                                         0, "aten::amin, aten::amax, aten::gather")
/* the model */
FB_OP(embedding,      "aten::embedding",                                      0, "direct")
FB_OP(linear,         "aten::linear",                                         2, "aten::linear, aoti_torch_aten_full, aten::bmm")
FB_OP(rms_norm,       "aten::rms_norm",                                       4, "direct")
FB_OP(head_norm_,     "aten::narrow, aten::rms_norm, aten::copy_",            4, "aten::rms_norm, aoti_torch_copy_")
FB_OP(rotary,         "aten::mul.Tensor, aten::neg, aten::cat, aten::add.Tensor", 3, "aten::mul.Tensor, aoti_torch_aten_subtract_Tensor, aoti_torch_copy_")
FB_OP(swiglu,         "aten::silu, aten::mul.Tensor",                        11, "direct")
FB_OP(geglu,          "aten::gelu, aten::mul.Tensor",                        16, "aten::mul.Tensor, aoti_torch_aten_subtract_Tensor, aten::sigmoid")
FB_OP(add_,           "aten::add_.Tensor",                                    1, "aoti_torch_aten_subtract_Tensor, aoti_torch_copy_")
/* keys and values */
FB_OP(kv_write,       "aten::slice_scatter",                                  0, "aten::index_copy_, aten::abs, aten::amax, aten::maximum")
FB_OP(kv_copy,        "aten::index_select",                                   0, "aten::index_select, aoti_torch_copy_")
FB_OP(kv_turn,        "aten::mul.Tensor, aten::neg, aten::cat, aten::add.Tensor", 3, "aten::mul.Tensor, aoti_torch_aten_subtract_Tensor, aten::abs, aten::amax, aten::maximum, aoti_torch_copy_")
FB_OP(kv_read,        "aten::clone",                                          0, "aoti_torch_copy_")
/* the one attention: S = QK^T scale, mask, P = exp(S - amax), l = sum P, O = (P V) / l */
FB_OP(attention,      "aten::bmm, aten::mul.Tensor, aten::masked_fill.Tensor, aten::amax, aten::exp, aten::sum.dim_IntList, aten::bmm, aten::div.Tensor", 2, "aten::mul.Tensor, aten::index_select, aten::bmm, aten::masked_fill_.Tensor, aten::softmax.int, aoti_torch_aten_subtract_Tensor, aten::sum.dim_IntList, aten::zero_, aoti_torch_copy_")
FB_OP(attention_sum,  "aten::bmm, aten::add.Tensor",                          2, "aten::sum.dim_IntList, aoti_torch_aten_subtract_Tensor, aoti_torch_copy_")
FB_OP(attention_rows, "aten::div.Tensor, aten::slice_scatter",                1, "aoti_torch_copy_, aten::zero_")
/* measures of an answer */
FB_OP(argmax,         "aten::argmax",                                         1, "aten::amax, aten::argmax")
FB_OP(nll,            "aten::_to_copy, aten::log_softmax.int, aten::gather",  9, "aten::log_softmax.int, aten::gather, aten::neg")
FB_OP(kl,             "aten::_to_copy, aten::log_softmax.int, aten::exp, aten::mul.Tensor, aten::sum.dim_IntList",20, "aten::index_select, aten::log_softmax.int, aoti_torch_aten_subtract_Tensor, aten::softmax.int, aten::mul.Tensor, aten::logical_not, aten::masked_fill_.Tensor, aten::sum.dim_IntList")
/* clang-format on */
