/* presets.h - names that stand for a rule expression, one row each, in the order of
 * `flexbudget rules`.
 *
 * What is stored and hashed is the expression, written out.
 *
 *     FB_PRESET(name, "expression", "what it is")
 *
 * SPDX-License-Identifier: MIT
 */
FB_PRESET(snapkv_paper, "snapkv:window=32,kernel=7,pool=max",
          "SnapKV as in the paper's runs")
FB_PRESET(snapkv_factory, "snapkv:window=8,kernel=7,pool=max",
          "SnapKV as in KVCache-Factory's runs")
FB_PRESET(ada_snapkv, "adakv(snapkv)",
          "SnapKV with AdaKV's shares of the heads, as kvpress")
FB_PRESET(ada_snapkv_authors, "adakv(snapkv:window=32,kernel=7,pool=max,form=blend)",
          "the same as in AdaKV's own code: shares mixed with equal ones")
FB_PRESET(pyramidkv, "pyramid(snapkv)", "PyramidKV: lower layers keep more, by SnapKV")
FB_PRESET(dynamickv, "hits(snapkv:window=16,kernel=7,max=5)",
          "DynamicKV as in its authors' runs")
FB_PRESET(simlayer, "lazy(streaming_llm)",
          "SimLayerKV: the laziest layers keep both ends, until the budget holds")
FB_PRESET(compactor_published,
          "compactor(noncausal:skip_first=8,skip_last=4,leverage:skip_first=8,"
          "skip_last=4)",
          "Compactor as in kvpress: 8 first and 4 last tokens left out")
FB_PRESET(tova_authors, "tova:protect_last=0",
          "TOVA as in the authors' cache: the last token may go")
FB_PRESET(manifold_windowed, "manifold:windowed=4096",
          "WindowedManifoldKV, for long texts")
FB_PRESET(nacl, "draw(snapkv:window=32,kernel=1,temperature=0.03125)",
          "NACL: attention of 32 proxies summed, 7 of 19 entries drawn")
FB_PRESET(vatp_h2o, "vatp(h2o)", "VATP around H2O, as published")
FB_PRESET(paged_whole, "chunk(paged,size=16,fill=none,cut=page)",
          "PagedEviction by whole pages, on a prompt")
FB_PRESET(caote_snapkv, "caote(snapkv)", "CAOTE around SnapKV, as published")
FB_PRESET(longflow, "vatp(tova:heads=kv,sink=0)",
          "LongFlow: the last query's attention times the size of the value")
FB_PRESET(kvzip_paper, "flat(kvzip)",
          "KVzip as published: heads of all layers share the budget")
FB_PRESET(kvzip_plus, "flat(kvzip:plus=1)",
          "KVzip+ as kvpress: attention by what it adds to the residual stream")
FB_PRESET(kvcompose_paper, "composite(kvcompose)",
          "KVCompose with its shares of the layers, as published")
