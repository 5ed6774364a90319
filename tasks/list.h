/* list.h - every task, in the order of `flexbudget tasks`. No guard: read twice. */
FB_TASK(needle)
FB_TASK(continuation)
FB_TASK(recall)
FB_TASK(jsonl)
/* SPDX-License-Identifier: MIT */
