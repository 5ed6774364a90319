/* peers.h - what rules are called in other projects, one row each.
 *
 *     FB_PEER_PROJECT(project, "what it is", "its settings", "its words for the budget")
 *     FB_PEER(project, name, kind, "arguments", "expression", "settings", "remark")
 *     FB_PEER_REFUSED(project, name, "a row of refused.h, or why not, behind the name")
 *
 * `project:name(argument=value, ...)` stands for the expression, in which {argument} is
 * the value. Arguments, in the order of the constructor:
 *
 *     a=v    any value, v if there is none        a      any value, to be given
 *     a==v   v alone, also if there is none       a:v    v alone, to be given
 *
 * Rows of one name differ in these; the first that fits counts. {press} is a press.
 *
 * Kinds: SCORER - a press that others go around; PRESS - one that nothing goes around;
 * NEAREST - one that keeps other entries than the expression does: see its remark.
 *
 * Settings are those of an experiment under which the same entries stay. A remark says
 * what is different nevertheless.
 *
 * Source   constructors of kvpress 0.5.5; KVCache-Factory, its runs on LongBench.
 *
 * SPDX-License-Identifier: MIT
 */
FB_PEER_PROJECT(kvpress, "kvpress 0.5.5", "protect=published rounding=kvpress",
                "compression_ratio|target_size|target_compression_ratio")
FB_PEER(kvpress, RandomPress, SCORER, "seed==None", "random", "",
        "its random numbers are others")
FB_PEER(kvpress, KnormPress, SCORER, "", "knorm", "", "")
FB_PEER(kvpress, KeyDiffPress, SCORER, "", "keydiff", "", "")
FB_PEER(
    kvpress, CURPress, SCORER,
    "num_sinks=4,leverage_type='kv_product',use_random_leverage==False,"
    "use_local_approximation==True,local_window_size=16",
    "cur:type={leverage_type},block={local_window_size},sink={num_sinks},edge=kvpress",
    "", "")
FB_PEER(kvpress, LagKVPress, SCORER, "n_sink=4,lag_size=128,cross_scoring=False",
        "lagkv:lag={lag_size},sink={n_sink},cross={cross_scoring}", "", "")
FB_PEER(kvpress, StreamingLLMPress, SCORER, "n_sink=4", "streaming_llm:sink={n_sink}",
        "", "")
FB_PEER(kvpress, TOVAPress, SCORER, "", "tova", "", "")
FB_PEER(kvpress, ObservedAttentionPress, SCORER, "", "observed_attention", "", "")
FB_PEER(kvpress, SnapKVPress, SCORER, "window_size=64,kernel_size=5",
        "snapkv:window={window_size},kernel={kernel_size}", "", "")
FB_PEER(kvpress, PyramidKVPress, PRESS, "window_size=64,kernel_size=5,beta=20",
        "pyramid(snapkv:window={window_size},kernel={kernel_size},beta={beta},"
        "form=kvpress)",
        "", "it keeps a few entries more than the ratio says")
FB_PEER(kvpress, FinchPress, PRESS,
        "chunk_length==None,normalize_scores=True,rerotate_keys==True,window_size=32",
        "finch:window={window_size},normalise={normalize_scores}",
        "query=aware positions=compact",
        "its window is the question, whatever window_size")
FB_PEER(kvpress, FinchPress, PRESS,
        "chunk_length==None,normalize_scores=True,rerotate_keys:False,window_size=32",
        "finch:window={window_size},normalise={normalize_scores}", "query=aware",
        "its window is the question, whatever window_size")
FB_PEER(kvpress, FinchPress, PRESS,
        "chunk_length,normalize_scores=True,rerotate_keys==True,window_size=32",
        "span(finch:window={window_size},normalise={normalize_scores},"
        "size={chunk_length})",
        "query=aware positions=compact",
        "its window is the question, whatever window_size")
FB_PEER(kvpress, FinchPress, PRESS,
        "chunk_length,normalize_scores=True,rerotate_keys:False,window_size=32",
        "span(finch:window={window_size},normalise={normalize_scores},"
        "size={chunk_length})",
        "query=aware", "its window is the question, whatever window_size")
FB_PEER(
    kvpress, ExpectedAttentionPress, SCORER,
    "n_future_positions=512,n_sink=4,use_covariance=True,use_vnorm=True,epsilon=0.0",
    "expected_attention:future={n_future_positions},stat_skip={n_sink},"
    "covariance={use_covariance},vnorm={use_vnorm},epsilon={epsilon}",
    "", "")
FB_PEER(
    kvpress, CapPress, SCORER, "tau=5.0,n_future_positions=512,n_sink=4,epsilon=1e-6",
    "cap:future={n_future_positions},stat_skip={n_sink},tau={tau},epsilon={epsilon}",
    "", "")
FB_PEER(kvpress, LeverageScorePress, SCORER, "sketch_dimension=48",
        "leverage:sketch={sketch_dimension},lift=0", "", "its random matrix is another")
FB_PEER(kvpress, NonCausalAttnPress, SCORER, "chunk_size=256",
        "noncausal:chunk={chunk_size},tail=kvpress", "", "")
FB_PEER(kvpress, CompactorPress, PRESS,
        "sink_size_start=8,sink_size_end=4,chunk_size=256,sketch_dimension=48,"
        "blending==None",
        "compactor(noncausal:chunk={chunk_size},tail=kvpress,"
        "skip_first={sink_size_start},skip_last={sink_size_end},"
        "leverage:sketch={sketch_dimension},skip_first={sink_size_start},"
        "skip_last={sink_size_end},lift=0)",
        "", "its random matrix is another")
FB_PEER(kvpress, CompactorPress, PRESS,
        "sink_size_start=8,sink_size_end=4,chunk_size=256,sketch_dimension=48,blending",
        "compactor(noncausal:chunk={chunk_size},tail=kvpress,"
        "skip_first={sink_size_start},skip_last={sink_size_end},"
        "leverage:sketch={sketch_dimension},skip_first={sink_size_start},"
        "skip_last={sink_size_end},lift=0,weight=fixed,fixed={blending})",
        "", "its random matrix is another")
FB_PEER(kvpress, CriticalAdaKVPress, PRESS,
        "press,alpha_safeguard=0.2,epsilon=1e-4,first_stage_ratio=0.5",
        "adakv(critical({press},first={first_stage_ratio},epsilon={epsilon},"
        "safeguard={alpha_safeguard}),safeguard={alpha_safeguard})",
        "", "")
FB_PEER(kvpress, CriticalKVPress, PRESS, "press,epsilon=1e-4,first_stage_ratio=0.5",
        "critical({press},first={first_stage_ratio},epsilon={epsilon})", "", "")
FB_PEER(kvpress, AdaKVPress, PRESS, "press,alpha_safeguard=0.2",
        "adakv({press},safeguard={alpha_safeguard})", "", "")
FB_PEER(kvpress, ChunkKVPress, PRESS, "press,chunk_length=20",
        "chunk({press},size={chunk_length},fill=none,cut=first)", "",
        "it counts chunks, and may keep more or less than the ratio says")
FB_PEER(kvpress, EntropyGatedChunkKVPress, PRESS,
        "press,chunk_length=10,low_entropy_chunk_length=4",
        "entropy_chunk({press},size={chunk_length},spiky={low_entropy_chunk_length})",
        "", "")
FB_PEER(kvpress, ChunkPress, PRESS, "press,chunk_length=1024",
        "span({press},size={chunk_length})", "",
        "it scores every span as if that were the whole text")
FB_PEER(kvpress, KeyRerotationPress, NEAREST, "press", "{press}", "positions=compact",
        "")
FB_PEER(kvpress, SimLayerKVPress, NEAREST, "n_last==1,n_recent=1024,n_initial=4",
        "lazy(streaming_llm:sink={n_initial},initial={n_initial},recent={n_recent})",
        "",
        "it cuts layers by a threshold, whatever the budget; here the laziest are cut "
        "until it holds")
FB_PEER(kvpress, DMSPress, NEAREST,
        "press,threshold,sliding_window_size=128,decoding==False",
        "threshold({press},tau={threshold},window={sliding_window_size})", "",
        "it keeps all above the threshold, whatever the budget")
FB_PEER_REFUSED(kvpress, QFilterPress, "qfilter")
FB_PEER_REFUSED(kvpress, ExpectedAttentionStatsPress, "expected_attention_stats")
FB_PEER_REFUSED(kvpress, DuoAttentionPress, "duo_attention")
FB_PEER_REFUSED(kvpress, KVzapPress, "kvzap")
FB_PEER_REFUSED(kvpress, FastKVzipPress, "fast_kvzip")
FB_PEER_REFUSED(kvpress, RestoreKVPress, "restorekv")
FB_PEER_REFUSED(kvpress, LUKVPress, "lukv")
FB_PEER_REFUSED(kvpress, KVgradPress, "kvgrad")
FB_PEER_REFUSED(kvpress, ThinKPress, "think")
FB_PEER(kvpress, KVzipPress, PRESS,
        "layerwise==False,n_sink==4,kvzip_plus_normalization=False,chunk_size=2048",
        "flat(kvzip:piece={chunk_size},plus={kvzip_plus_normalization})", "",
        "what of a template's header lies behind 4 tokens leaves there first")
FB_PEER(kvpress, KVzipPress, PRESS,
        "layerwise:True,n_sink==4,kvzip_plus_normalization=False,chunk_size=2048",
        "adakv(kvzip:piece={chunk_size},plus={kvzip_plus_normalization},safeguard=0)",
        "", "what of a template's header lies behind 4 tokens leaves there first")
FB_PEER(kvpress, KVComposePress, PRESS,
        "structured==True,agg_task=='max',agg_group=='mean',agg_head=='mean',"
        "add_v_norm==False,add_mean_across_heads==True,keep_token_lower_bound==0",
        "composite(kvcompose)", "", "")
FB_PEER(kvpress, MergingPress, PRESS,
        "press,similarity_threshold=0.0,merge_fraction=1.0",
        "merging({press},threshold={similarity_threshold},fraction={merge_fraction})",
        "", "")
FB_PEER(kvpress, BlockPress, PRESS, "press,block_size=128",
        "block({press},size={block_size})", "", "")
FB_PEER_REFUSED(
    kvpress, CAMPress,
    "adds values to chance kept ones while an answer grows; 'merging' folds "
    "them in by their keys")
FB_PEER_REFUSED(
    kvpress, PerLayerCompressionPress,
    "takes the ratio of each layer from its user; layers share by a rule here, as in "
    "'pyramid(snapkv)'")
FB_PEER_REFUSED(
    kvpress, DecodingPress,
    "evicts while an answer grows; here that is --protocol stream with --interval, for "
    "the press that it holds")
FB_PEER_REFUSED(
    kvpress, CompressionRatioDecodingPress,
    "evicts while an answer grows; here that is --protocol stream with --interval, for "
    "the press that it holds")
FB_PEER_REFUSED(
    kvpress, PrefillDecodingPress,
    "evicts at two times; one press at a time can be asked for, with --protocol stream "
    "and --interval for the time of an answer")
FB_PEER_REFUSED(kvpress, ComposedPress,
                "evicts twice, the second time from what is left; one press at a time "
                "can be asked for")

FB_PEER_PROJECT(kvfactory, "KVCache-Factory", "protect=published",
                "max_capacity_prompt|max_capacity_prompts")
FB_PEER(kvfactory, FullKV, SCORER, "", "full", "", "")
FB_PEER(kvfactory, StreamingLLM, SCORER, "", "streaming_llm", "", "")
FB_PEER(kvfactory, L2Norm, NEAREST, "", "knorm", "",
        "it leaves the first two layers whole")
FB_PEER(kvfactory, H2O, NEAREST, "window_size==8", "h2o:recent=0", "protect=0+8",
        "every query head has a set of its own")
FB_PEER(kvfactory, SnapKV, NEAREST, "window_size=8,kernel_size=7,pooling=='maxpool'",
        "snapkv:window={window_size},kernel={kernel_size},pool=max", "",
        "every query head has a set of its own")
FB_PEER(kvfactory, SnapKV, NEAREST, "window_size=8,kernel_size=7,pooling:'avgpool'",
        "snapkv:window={window_size},kernel={kernel_size}", "",
        "every query head has a set of its own")
FB_PEER(
    kvfactory, PyramidKV, NEAREST,
    "window_size=8,kernel_size=7,pooling=='maxpool',beta=20",
    "pyramid(snapkv:window={window_size},kernel={kernel_size},pool=max,beta={beta})",
    "",
    "every query head has a set of its own, and the window comes on top of a layer's "
    "share")
FB_PEER(kvfactory, AdaKV, NEAREST, "window_size=8,kernel_size=7,pooling=='maxpool'",
        "adakv(snapkv:window={window_size},kernel={kernel_size},pool=max,"
        "safeguard=0.2,form=blend,normalise=mass)",
        "", "every query head has a set of its own")
FB_PEER_REFUSED(kvfactory, HeadKV, "headkv")
FB_PEER_REFUSED(
    kvfactory, CAM,
    "adds values to chance kept ones; 'merging' folds them in by their keys")
FB_PEER_REFUSED(
    kvfactory, Scissorhands,
    "draws from a decayed sum there, and no model of it does so; the nearest here is "
    "'h2o'")
FB_PEER_REFUSED(kvfactory, NACL,
                "has another form there, and no model of it uses that; the authors' "
                "is 'nacl' here")
FB_PEER_REFUSED(kvfactory, ThinK, "think")
FB_PEER_REFUSED(kvfactory, Quest, "quest")
FB_PEER_REFUSED(kvfactory, MiniCache, "minicache")
FB_PEER_REFUSED(kvfactory, MInference, "minference")
FB_PEER_REFUSED(kvfactory, KIVI, "kivi")
FB_PEER_REFUSED(kvfactory, KVQuant, "kvquant")
FB_PEER_REFUSED(kvfactory, GEAR, "gear")
