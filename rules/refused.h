/* refused.h - rules that are known by name and not offered, one row each: they need
 * training or calibration, change the forward pass, or evict nothing.
 *
 *     FB_REFUSED(name, "source", "why, behind the name", "nearest rule here, or none")
 *
 * SPDX-License-Identifier: MIT
 */
/* --- learned, or fitted to data --- */
FB_REFUSED(qfilter, "arXiv:2503.02812",
           "needs a direction for each head that was found in queries of a corpus",
           "expected_attention:covariance=0")
FB_REFUSED(expected_attention_stats, "kvpress 0.5.5",
           "needs statistics of queries that were collected on books for each model",
           "expected_attention")
FB_REFUSED(duo_attention, "arXiv:2410.10819",
           "needs gates of heads that were trained for each model", "adakv(snapkv)")
FB_REFUSED(kvzap, "arXiv:2601.07891", "needs a model of scores that was trained",
           "flat(kvzip)")
FB_REFUSED(fast_kvzip, "arXiv:2601.17668", "needs gates that were trained",
           "flat(kvzip)")
FB_REFUSED(restorekv, "arXiv:2608.01247",
           "needs trained weights beside the model's and embeddings of its own",
           "flat(kvzip)")
FB_REFUSED(lukv, "arXiv:2602.08585",
           "needs curves of budgets that were fitted for each model and rule",
           "flat(expected_attention:epsilon=0.02)")
FB_REFUSED(headkv, "arXiv:2410.19258",
           "needs scores of heads that were found on data of probes", "adakv(snapkv)")
FB_REFUSED(razorattention, "",
           "needs scores of heads that were found on data of probes", "adakv(snapkv)")
FB_REFUSED(triattention, "arXiv:2604.04921",
           "needs centres of queries and keys from a text of calibration", "trig")
FB_REFUSED(dms, "arXiv:2506.05345",
           "needs a model that was trained to evict; its threshold has no budget",
           "threshold(snapkv)")
FB_REFUSED(foresightkv, "", "needs training", "expected_attention")
FB_REFUSED(lookaheadkv, "", "needs training", "expected_attention")
FB_REFUSED(judgeq, "", "needs training", "expected_attention")
FB_REFUSED(locret, "", "needs training", "expected_attention")
FB_REFUSED(kvpop, "", "needs training", "expected_attention")
FB_REFUSED(evolkv, "", "needs a search for the layers' budgets beforehand",
           "cake_layers(snapkv)")
FB_REFUSED(prefixkv, "", "needs a profile of the layers made beforehand",
           "cake_layers(snapkv)")
/* --- more than a forward pass, or another one --- */
FB_REFUSED(kvgrad, "openreview.net/forum?id=cg1wTCJjjk",
           "needs a backward pass, and nothing here computes gradients",
           "flat(kvzip:plus=1)")
FB_REFUSED(pyramidinfer, "",
           "leaves tokens out of later layers while it reads, which is another forward "
           "pass",
           "pyramid(snapkv)")
FB_REFUSED(fastkv, "",
           "leaves tokens out of later layers while it reads, which is another forward "
           "pass",
           "snapkv")
FB_REFUSED(gemfilter, "",
           "reads the text a second time without the tokens that it dropped, which is "
           "another forward pass",
           "snapkv")
/* --- without a budget, or without its signal --- */
FB_REFUSED(fastgen, "arXiv:2310.01801",
           "keeps as much as its heads want, so that no budget can be set",
           "adakv(h2o)")
FB_REFUSED(sepllm, "", "needs to know which tokens are separators, which no rule sees",
           "streaming_llm")
/* --- no eviction --- */
FB_REFUSED(think, "arXiv:2407.21018",
           "is no eviction: it leaves out channels of keys, and no entry", "")
FB_REFUSED(quest, "", "is no eviction: it reads less, and keeps everything", "")
FB_REFUSED(minference, "", "is no eviction: it reads less, and keeps everything", "")
FB_REFUSED(kivi, "", "is no eviction: it stores entries in fewer bits", "")
FB_REFUSED(kvquant, "", "is no eviction: it stores entries in fewer bits", "")
FB_REFUSED(gear, "", "is no eviction: it stores entries in fewer bits", "")
FB_REFUSED(minicache, "", "is no eviction: it merges the entries of layers", "")
