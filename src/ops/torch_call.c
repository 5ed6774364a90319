/* torch_call.c - one kernel at work: its handles, its failure, its calls of operators.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "ops/torch.h"

#include <stdio.h>

/* The release whose schemas the kernels were written for. */
#define SCHEMAS_OF (UINT64_C(2) << 56 | UINT64_C(10) << 48)

/* --- handles --- */

void fb_torch_begin(fb_torch *torch, int device)
{
    torch->at = device;
    torch->status = FB_OK;
}

static void let_go(fb_torch *torch)
{
    for (size_t i = 0; i < torch->n_kept; i++)
        (void)torch->lib->aoti_torch_delete_tensor_object(torch->kept[i]);
    torch->n_kept = 0;
}

static bool has_room(fb_torch *torch)
{
    const size_t more = torch->room_kept == 0 ? 64 : 2 * torch->room_kept;
    void *kept;

    if (torch->n_kept < torch->room_kept) return true;
    kept = fb_realloc(FB_ACCOUNT_other, torch->kept, more * sizeof(fb_torch_handle));
    if (kept == NULL) return false;
    torch->kept = kept;
    torch->room_kept = more;
    return true;
}

fb_torch_handle fb_torch_keep(fb_torch *torch, fb_torch_handle handle)
{
    if (handle == NULL) return NULL;
    if (has_room(torch)) return torch->kept[torch->n_kept++] = handle;
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

fb_torch_handle fb_torch_failed(fb_torch *torch, const char *what)
{
    const char *why = fb_torch_why(torch->lib);
    char accounts[256];

    if (torch->status != FB_OK) return NULL;
    if (strstr(why, "out of memory") == NULL &&
        strstr(why, "allocate memory") == NULL) {
        torch->status = fb_fail(FB_DEFECT, "PyTorch on %s: %s: %s",
                                torch->devices[torch->at].name, what, why);
        return NULL;
    }
    list_accounts(torch, accounts, sizeof accounts);
    torch->status =
        fb_fail(FB_NO_MEMORY, "no memory on %s for %s, where %s is held already",
                torch->devices[torch->at].name, what, accounts);
    return NULL;
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
        fb_torch_copy(torch, fb_torch_where_it_lies(torch, &call->out), result);
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
    fb_torch_handle own = NULL;

    if (torch->status != FB_OK || handle == NULL) return NONE_;
    if (torch->lib->aoti_torch_new_tensor_handle(handle, &own) != 0)
        (void)fb_torch_failed(torch, "new_tensor_handle");
    return (fb_torch_value)(uintptr_t)own;
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
    if (torch->lib->torch_call_dispatcher(name, overload, stack, SCHEMAS_OF) == 0)
        return true;
    (void)fb_torch_failed(torch, name);
    return false;
}

fb_torch_handle fb_torch_call(fb_torch *torch, const char *name, const char *overload,
                              int n, const fb_torch_value *arguments)
{
    fb_torch_value stack[FB_TORCH_ARGUMENTS];

    if (!call(torch, name, overload, n, arguments, stack)) return NULL;
    return fb_torch_keep(torch, (fb_torch_handle)(uintptr_t)stack[0]);
}

fb_torch_handle fb_torch_call_second(fb_torch *torch, const char *name,
                                     const char *overload, int n,
                                     const fb_torch_value *arguments)
{
    fb_torch_value stack[FB_TORCH_ARGUMENTS];

    if (!call(torch, name, overload, n, arguments, stack)) return NULL;
    (void)fb_torch_keep(torch, (fb_torch_handle)(uintptr_t)stack[0]);
    return fb_torch_keep(torch, (fb_torch_handle)(uintptr_t)stack[1]);
}
