/* call.c - one kernel at work: its handles, its failure, its calls of operators.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "base/number.h"
#include "ops/torch/torch.h"

#include <stdio.h>

/* The release whose schemas the kernels were written for. */
#define SCHEMAS_OF (UINT64_C(2) << 56 | UINT64_C(10) << 48)

/* --- handles --- */

void fb_torch_begin(fb_torch *torch, int device)
{
    torch->at = device;
    torch->status = FB_OK;
}

fb_torch *fb_torch_begin_at(void *self, const fb_array *where)
{
    fb_torch_begin(self,
                   ((const fb_torch_storage *)(const void *)where->storage)->device);
    return self;
}

static void let_go(fb_torch *torch)
{
    for (size_t i = 0; i < torch->n_kept; i++)
        (void)torch->lib->aoti_torch_delete_tensor_object(torch->kept[i]);
    for (size_t i = 0; i < torch->n_given; i++)
        (void)torch->lib->aoti_torch_delete_tensor_object(torch->given[i].tensor);
    torch->n_kept = torch->n_given = 0;
}

/* Room for one more of n. */
static bool has_room(void **items, size_t n, size_t *room, size_t size)
{
    const size_t more = *room == 0 ? 64 : 2 * *room;
    void *grown;

    if (n < *room) return true;
    grown = fb_realloc(FB_ACCOUNT_other, *items, fb_size_mul(more, size));
    if (grown == NULL) return false;
    *items = grown;
    *room = more;
    return true;
}

fb_torch_handle fb_torch_keep(fb_torch *torch, fb_torch_handle handle)
{
    void *kept = torch->kept;
    bool has;

    if (handle == NULL) return NULL;
    has = has_room(&kept, torch->n_kept, &torch->room_kept, sizeof handle);
    torch->kept = kept;
    if (has) return torch->kept[torch->n_kept++] = handle;
    (void)torch->lib->aoti_torch_delete_tensor_object(handle);
    if (torch->status == FB_OK)
        torch->status = fb_fail(FB_NO_MEMORY, "no memory for a tensor's handle");
    return NULL;
}

/* --- failures --- */

static void list_accounts(const fb_torch *torch, char *out, size_t n)
{
    size_t used = 0;

    out[0] = '\0';
    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        if (torch->bytes[a] > 0 && used < n)
            used += (size_t)snprintf(
                out + used, n - used, "%s%s %.0f MiB", used == 0 ? "" : ", ",
                fb_account_name((fb_account)a), (double)torch->bytes[a] / (1 << 20));
    if (used == 0) (void)snprintf(out, n, "nothing");
}

static fb_torch_handle no_memory(fb_torch *torch, const char *what)
{
    char accounts[256];

    list_accounts(torch, accounts, sizeof accounts);
    torch->status =
        fb_fail(FB_NO_MEMORY, "no memory on %s for %s, where %s is held already",
                torch->devices[torch->at].name, what, accounts);
    return NULL;
}

fb_torch_handle fb_torch_failed(fb_torch *torch, const char *what)
{
    const char *why = fb_torch_why(torch->lib);

    if (torch->status != FB_OK) return NULL;
    if (strstr(why, "out of memory") != NULL || strstr(why, "allocate memory") != NULL)
        return no_memory(torch, what);
    torch->status = fb_fail(FB_DEFECT, "PyTorch on %s: %s: %s",
                            torch->devices[torch->at].name, what, why);
    return NULL;
}

fb_torch_handle fb_torch_failed_new(fb_torch *torch, const char *what)
{
    const bool says_why =
        torch->lib->torch_exception_get_what_without_backtrace != NULL;

    if (says_why || torch->status != FB_OK) return fb_torch_failed(torch, what);
    return no_memory(torch, what);
}

/* --- ends --- */

fb_status fb_torch_done(fb_torch *torch)
{
    let_go(torch);
    return torch->status;
}

static bool is_contiguous(fb_torch *torch, fb_torch_handle handle)
{
    bool is = false;

    if (torch->lib->aoti_torch_is_contiguous(handle, &is) != 0)
        (void)fb_torch_failed(torch, "is_contiguous");
    return is;
}

fb_status fb_torch_return(fb_torch *torch, const fb_call *call, fb_torch_handle result)
{
    fb_torch_storage *storage = (fb_torch_storage *)(void *)call->out.storage;
    fb_torch_handle own = NULL;

    if (torch->status == FB_OK && !is_contiguous(torch, result))
        result = OP_("contiguous", "", T_(result), I_(0));
    if (torch->status == FB_OK && call->out.persists) {
        fb_torch_copy(torch, fb_torch_there(torch, &call->out), result);
    } else if (torch->status == FB_OK) {
        if (torch->lib->aoti_torch_new_tensor_handle(result, &own) != 0)
            (void)fb_torch_failed(torch, "new_tensor_handle");
        storage->tensor = own;
        storage->device = torch->at;
    }
    return fb_torch_done(torch);
}

/* --- arguments --- */

fb_torch_value fb_torch_give(fb_torch *torch, fb_torch_handle handle)
{
    void *given = torch->given;
    fb_torch_handle own = NULL;
    bool has;

    if (torch->status != FB_OK || handle == NULL) return NONE_;
    has = has_room(&given, torch->n_given, &torch->room_given, sizeof *torch->given);
    torch->given = given;
    if (!has)
        torch->status = fb_fail(FB_NO_MEMORY, "no memory for a tensor's handle");
    else if (torch->lib->aoti_torch_new_tensor_handle(handle, &own) != 0)
        (void)fb_torch_failed(torch, "new_tensor_handle");
    else
        torch->given[torch->n_given++] = (struct fb_torch_given){own, 0};
    return (fb_torch_value)(uintptr_t)own;
}

static bool is_in(const struct fb_torch_given *given, fb_torch_value value)
{
    return value != 0 && (given->in == 0 ? (fb_torch_value)(uintptr_t)given->tensor
                                         : given->in) == value;
}

/* What is `value` or in it has gone into `into`. */
static void moved(fb_torch *torch, fb_torch_value value, fb_torch_value into)
{
    for (size_t i = torch->n_given; i-- > 0;)
        if (is_in(&torch->given[i], value)) torch->given[i].in = into;
}

/* The operator owns what is `value` or in it. */
static void consumed(fb_torch *torch, fb_torch_value value)
{
    for (size_t i = torch->n_given; i-- > 0;)
        if (is_in(&torch->given[i], value))
            torch->given[i] = torch->given[--torch->n_given];
}

/* A cell on the heap of C++, which the operator frees. */
fb_torch_value fb_torch_some(fb_torch *torch, fb_torch_value value)
{
    const fb_torch_lib *lib = torch->lib;
    fb_torch_value *cell = NULL;

    if (torch->status != FB_OK) return NONE_;
    if (lib->torch_new_stable_ivalue == NULL)
        cell = lib->operator_new(sizeof *cell);
    else if (lib->torch_new_stable_ivalue(&cell) != 0)
        (void)fb_torch_failed(torch, "new_stable_ivalue");
    if (cell == NULL) return NONE_;
    *cell = value;
    moved(torch, value, (fb_torch_value)(uintptr_t)cell);
    return (fb_torch_value)(uintptr_t)cell;
}

fb_torch_value fb_torch_list_from(fb_torch *torch, int n, const fb_torch_value *items)
{
    fb_torch_list list = NULL;

    if (torch->status != FB_OK) return NONE_;
    if (torch->lib->torch_new_list_reserve_size((size_t)n, &list) != 0)
        (void)fb_torch_failed(torch, "new_list");
    for (int i = 0; torch->status == FB_OK && i < n; i++)
        if (torch->lib->torch_list_push_back(list, items[i]) != 0)
            (void)fb_torch_failed(torch, "list_push_back");
        else
            moved(torch, items[i], (fb_torch_value)(uintptr_t)list);
    return (fb_torch_value)(uintptr_t)list;
}

fb_torch_value fb_torch_sizes(fb_torch *torch, int n, const int64_t *sizes)
{
    fb_torch_value items[FB_TORCH_ARGUMENTS];

    for (int i = 0; i < n; i++)
        items[i] = I_(sizes[i]);
    return fb_torch_list_from(torch, n, items);
}

/* --- calls --- */

/* A longer stack than any schema needs, zeroed: an argument that a later release adds
 * at the end reads None, false or 0. */
static bool call(fb_torch *torch, const char *name, const char *overload, int n,
                 const fb_torch_value *arguments, fb_torch_value *stack)
{
    if (torch->status != FB_OK) return false;
    memset(stack, 0, FB_TORCH_ARGUMENTS * sizeof *stack);
    memcpy(stack, arguments, (size_t)n * sizeof *stack);
    for (int i = 0; i < n; i++)
        consumed(torch, arguments[i]);
    if (torch->lib->torch_call_dispatcher(name, overload, stack, SCHEMAS_OF) == 0)
        return true;
    (void)fb_torch_failed(torch, name);
    return false;
}

/* A result is a handle of ours. */
static fb_torch_handle result_of(fb_torch *torch, fb_torch_value value)
{
    fb_torch_handle handle;

    memcpy(&handle, &value, sizeof handle);
    return fb_torch_keep(torch, handle);
}

fb_torch_handle fb_torch_call(fb_torch *torch, const char *name, const char *overload,
                              int n, const fb_torch_value *arguments)
{
    fb_torch_value stack[FB_TORCH_ARGUMENTS];

    if (!call(torch, name, overload, n, arguments, stack)) return NULL;
    return result_of(torch, stack[0]);
}

fb_torch_handle fb_torch_call_two(fb_torch *torch, const char *name,
                                  const char *overload, int n,
                                  const fb_torch_value *arguments,
                                  fb_torch_handle *second)
{
    fb_torch_value stack[FB_TORCH_ARGUMENTS];

    *second = NULL;
    if (!call(torch, name, overload, n, arguments, stack)) return NULL;
    *second = result_of(torch, stack[1]);
    return result_of(torch, stack[0]);
}
