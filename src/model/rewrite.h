/* rewrite.h - steps that change a text before it is cut into words: Unicode's normal
 * forms, replacements, something put in front.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_REWRITE_H
#define FB_MODEL_REWRITE_H

#include "base/span.h"
#include "base/text.h"

enum { FB_MOST_REWRITES = 8, FB_REWRITE_TEXT = 16 };

/* U+2581, which stands for a space in vocabularies of SentencePiece. */
#define FB_SPACE_MARK "\xe2\x96\x81"

typedef enum fb_rewrite_kind {
    FB_REWRITE_NFC,
    FB_REWRITE_NFKC,
    FB_REWRITE_REPLACE, /* every `from` by `to` */
    FB_REWRITE_PREPEND, /* `to` in front of each stretch that is not empty */
} fb_rewrite_kind;

typedef struct fb_rewrite {
    fb_rewrite_kind kind;
    uint8_t n_from, n_to; /* bytes */
    bool first_only;      /* prepend: where nothing at all stands before */
    bool unless_there;    /* prepend: not where the stretch begins with it */
    char from[FB_REWRITE_TEXT], to[FB_REWRITE_TEXT];
} fb_rewrite;

typedef struct fb_rewriting {
    fb_rewrite step[FB_MOST_REWRITES];
    int n;
} fb_rewriting;

enum {                        /* where a stretch of text stands */
       FB_BEGINS_STRETCH = 1, /* at the start, or behind a token of its own */
       FB_BEGINS_TEXT = 2,    /* nothing stands before */
};

/* FB_UNSUPPORTED where there are too many steps, or `from` or `to` is too long. */
FB_MUST_USE fb_status fb_rewriting_add(fb_rewriting *rewriting, fb_rewrite_kind kind,
                                       fb_span from, fb_span to);
/* `text`, which is valid UTF-8, after all steps. It is lent: by `room`, or by the one
 * who gave it where no step changes it. `where`: flags from above. */
FB_MUST_USE fb_status fb_rewrite_text(const fb_rewriting *rewriting, int where,
                                      fb_text room[2], fb_span *text);

#endif
