/* texts.c - the library of texts, embedded from data/texts.
 *
 * The order is that of the list below and never changes: haystacks depend on it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/check.h"
#include "base/embed.h"

#include <flexbudget/task.h>
#include <string.h>

/* name, title, hides needles */
#define TEXTS(X)                                                                       \
    X(austen_emma, "Jane Austen, Emma", true)                                          \
    X(austen_northanger_abbey, "Jane Austen, Northanger Abbey", true)                  \
    X(austen_persuasion, "Jane Austen, Persuasion", true)                              \
    X(austen_pride_and_prejudice, "Jane Austen, Pride and Prejudice", true)            \
    X(kjv_genesis_exodus, "King James Bible, Genesis and Exodus", true)                \
    X(kjv_gospels, "King James Bible, the four Gospels", true)                         \
    X(devils_dictionary, "Ambrose Bierce, The Devil's Dictionary", true)               \
    X(us_founding_documents, "United States, Declaration and Constitution", true)      \
    X(jargon_file, "The Jargon File 4.4.7, first part", false)                         \
    X(adjectives, "word list: adjectives", false)                                      \
    X(nouns, "word list: nouns", false)                                                \
    X(words_common, "word list: 4,000 common words", false)

#define EMBED(name, title, hides) FB_EMBED(name, "data/texts/" #name ".txt");
TEXTS(EMBED)
#undef EMBED

#define ROW(name, title, hides) {#name, title, (const char *)name, hides},
static const fb_library_text rows[] = {TEXTS(ROW)};
#undef ROW

enum { N_TEXTS = sizeof rows / sizeof *rows };

int fb_library_count(void)
{
    return N_TEXTS;
}

const fb_library_text *fb_library_at(int index)
{
    FB_ASSERT(index >= 0 && index < N_TEXTS);
    return &rows[index];
}

const fb_library_text *fb_library_find(const char *name)
{
    for (int i = 0; i < N_TEXTS; i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

void fb_library_word(const char *list, fb_random *random, char *out, size_t n)
{
    uint64_t lines = 0, line;
    size_t length;

    for (const char *c = list; *c != 0; c++)
        lines += *c == '\n';
    FB_ASSERT(lines > 0 && n > 0);
    for (line = fb_random_below(random, lines); line > 0; line--)
        list = strchr(list, '\n') + 1;
    length = strcspn(list, "\n");
    if (length > n - 1) length = n - 1;
    memcpy(out, list, length);
    out[length] = 0;
}
