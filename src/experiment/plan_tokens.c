/* plan_tokens.c - texts become the ids that the model reads.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/plan_inside.h"

#include <stdio.h>
#include <string.h>

static fb_piece piece(const char *text, bool special)
{
    return (fb_piece){.bytes = text, .n = strlen(text), .special = special};
}

fb_status fb_plan_encode(const fb_plan *plan, const char *text, fb_ids *out)
{
    const fb_piece p = piece(text, false);

    return fb_tokenizer_encode(fb_model_tokenizer(plan->model), &p, 1, out);
}

static bool is_switched_off(const fb_plan *plan)
{
    return fb_values_is(&plan->spec->values, FB_SET_bos, "off");
}

/* The BOS that goes in front: none if the template writes it, or if it is off. */
static int32_t bos_of(const fb_plan *plan)
{
    if (plan->template.has_bos || is_switched_off(plan)) return -1;
    return fb_tokenizer_bos(fb_model_tokenizer(plan->model));
}

const char *fb_plan_bos(const fb_plan *plan)
{
    const bool has = fb_tokenizer_bos(fb_model_tokenizer(plan->model)) >= 0;

    if (plan->template.has_bos) return "template";
    if (!has) return "none";
    return is_switched_off(plan) ? "off" : "added";
}

bool fb_plan_bos_warning(const fb_plan *plan, char *out, size_t n)
{
    const char *name = fb_model_get_facts(plan->model)->name;
    const char *state = fb_plan_bos(plan);

    if (!is_switched_off(plan) || strcmp(state, "none") == 0) return false;
    if (strcmp(state, "off") == 0)
        (void)snprintf(out, n,
                       "'%s' was trained with a begin-of-text token in front, which "
                       "'model.bos: off' leaves out",
                       name);
    else
        (void)snprintf(out, n,
                       "the template of '%s' writes the begin-of-text token itself; "
                       "'model.bos: off' changes nothing",
                       name);
    return true;
}

fb_status fb_plan_context(const fb_plan *plan, const char *text, fb_ids *out,
                          int64_t *n_before_out)
{
    const fb_tokenizer *tokenizer = fb_model_tokenizer(plan->model);
    const fb_piece pieces[] = {piece(plan->template.before, true), piece(text, false)};
    const int32_t bos = bos_of(plan);
    fb_ids before = {0};
    fb_status status = FB_OK;

    if (bos >= 0) FB_TRY(fb_ids_add(out, bos));
    status = fb_tokenizer_encode(tokenizer, pieces, 1, &before);
    *n_before_out = out->n + before.n;
    fb_ids_clear(&before);
    if (status == FB_OK) status = fb_tokenizer_encode(tokenizer, pieces, 2, out);
    if (*n_before_out > out->n) *n_before_out = out->n; /* merged across the seam */
    return status;
}

fb_status fb_plan_prompt(const fb_plan *plan, const char *question, const char *prefix,
                         fb_ids *out)
{
    const fb_piece pieces[] = {piece(question, false),
                               piece(plan->template.after, true), piece(prefix, false)};

    return fb_tokenizer_encode(fb_model_tokenizer(plan->model), pieces, 3, out);
}

int64_t fb_plan_cut_middle(fb_ids *ids, int64_t most)
{
    const int64_t half = most / 2;
    const int64_t cut = ids->n - 2 * half;

    if (ids->n <= most) return 0;
    memmove(ids->ids + half, ids->ids + ids->n - half, (size_t)half * sizeof *ids->ids);
    ids->n = 2 * half;
    return cut;
}

fb_status fb_plan_token_ends(const fb_plan *plan, const fb_ids *ids, int64_t n_before,
                             size_t n_text, size_t **out)
{
    const fb_tokenizer *tokenizer = fb_model_tokenizer(plan->model);
    size_t *ends =
        fb_alloc(FB_ACCOUNT_other, fb_size_mul((size_t)ids->n + 1, sizeof *ends));
    size_t at = 0;

    *out = NULL;
    if (ends == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a context");
    for (int64_t i = 0; i < ids->n; i++) {
        size_t n;

        (void)fb_tokenizer_bytes(tokenizer, ids->ids[i], false, &n);
        if (i >= n_before) at += n;
        ends[i] = at;
    }
    /* Some tokenizers put a space in front of a text. */
    for (int64_t i = n_before; at == n_text + 1 && i < ids->n; i++)
        ends[i]--;
    *out = ends;
    return FB_OK;
}
