#include "registry.h"

#include "attune/tuning.h"
#include "status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- the lists, one a backend ---- */

/* Made when first asked for, then as it is for good: who only opens "cpu" never starts an OpenCL
 * runtime. */
typedef struct device_list {
    const attune_backend *backend;
    bool made;
    int count; /* 0 before, and where there is no memory */
    registry_entry *entries;
} device_list;

static device_list lists[] = {
    {.backend = &attune_backend_cpu},
#ifdef ATTUNE_WITH_CUDA
    {.backend = &attune_backend_cuda},
#endif
#ifdef ATTUNE_WITH_HIP
    {.backend = &attune_backend_hip},
#endif
#ifdef ATTUNE_WITH_OPENCL
    {.backend = &attune_backend_opencl},
#endif
#ifdef ATTUNE_WITH_EMULATED
    {.backend = &attune_backend_emulated},
#endif
};

enum { BACKEND_COUNT = sizeof lists / sizeof lists[0] };

static pthread_mutex_t lists_lock = PTHREAD_MUTEX_INITIALIZER;

static void make_list(device_list *list)
{
    const attune_backend *const backend = list->backend;
    char reason[sizeof list->entries->caps.info.reason] = "";
    const int devices = backend->count(reason);
    list->entries = calloc(devices > 0 ? (size_t)devices : 1, sizeof *list->entries);
    if (list->entries == NULL) return;

    list->count = devices > 0 ? devices : 1;
    for (int i = 0; i < list->count; i++) {
        list->entries[i] = (registry_entry){.backend = backend, .index = i};
        if (devices > 0) backend->caps(i, &list->entries[i].caps);
    }
    if (devices > 0) return;
    attune_device_info *const info = &list->entries[0].caps.info;
    snprintf(info->id, sizeof info->id, "%s", backend->name);
    snprintf(info->backend, sizeof info->backend, "%s", backend->name);
    memcpy(info->reason, reason, sizeof info->reason);
}

static const device_list *devices_of(int backend)
{
    device_list *const list = &lists[backend];
    pthread_mutex_lock(&lists_lock);
    if (!list->made) make_list(list);
    list->made = true;
    pthread_mutex_unlock(&lists_lock);
    return list;
}

int attune_device_count(void)
{
    int count = 0;
    for (int b = 0; b < BACKEND_COUNT; b++) count += devices_of(b)->count;
    return count;
}

attune_status attune_device_get(int index, attune_device_info *info)
{
    RETURN_IF_NULL(info);
    int place = index;
    for (int b = 0; b < BACKEND_COUNT && place >= 0; b++) {
        const device_list *const list = devices_of(b);
        if (place < list->count) {
            *info = list->entries[place].caps.info;
            return ATTUNE_OK;
        }
        place -= list->count;
    }
    return attune_fail(ATTUNE_INVALID_ARGUMENT, "device index is %d; 0 to %d is accepted", index,
                       attune_device_count() - 1);
}

/* ---- names ---- */

/* Whether `part`, in any case, occurs in `text`. */
static bool contains(const char *text, const char *part)
{
    const size_t length = strlen(part);
    for (; *text != '\0'; text++)
        if (strncasecmp(text, part, length) == 0) return true;
    return length == 0;
}

typedef bool device_matcher(const attune_device_info *info, const char *part);

static bool id_is(const attune_device_info *info, const char *part)
{
    return strcasecmp(info->id, part) == 0;
}
static bool platform_has(const attune_device_info *info, const char *part)
{
    return contains(info->platform, part);
}
static bool name_has(const attune_device_info *info, const char *part)
{
    return contains(info->name, part);
}

/* How many devices match; *found is the last of them. */
static int match(const device_list *list, device_matcher *matches, const char *part,
                 const registry_entry **found)
{
    int count = 0;
    for (int i = 0; i < list->count; i++) {
        if (!matches(&list->entries[i].caps.info, part)) continue;
        *found = &list->entries[i];
        count++;
    }
    return count;
}

/* A failure that ends with the devices among which to choose. */
static attune_status choose_among(const device_list *list, const char *name, const char *trouble)
{
    char text[512] = "none";
    size_t length = 0;
    for (int i = 0; i < list->count && length < sizeof text; i++) {
        const attune_device_info *const info = &list->entries[i].caps.info;
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s (%s, %s)",
                                   i == 0 ? "" : "; ", info->id, info->platform, info->name);
    }
    return attune_fail(ATTUNE_NO_DEVICE, "device \"%s\" %s; there is %s", name, trouble, text);
}

static attune_status find(const device_list *list, const char *name, const char *part,
                          const registry_entry **found)
{
    if (match(list, id_is, name, found) == 1) return ATTUNE_OK;
    if (list->count == 1 && list->entries[0].caps.info.reason[0] != '\0') {
        *found = &list->entries[0];
        return ATTUNE_OK;
    }
    /* digits are the number of a device, never a part of a name that holds them */
    const bool is_number = part[strspn(part, "0123456789")] == '\0' && part[0] != '\0';
    int count = is_number ? 0 : match(list, platform_has, part, found);
    if (count == 0 && !is_number) count = match(list, name_has, part, found);
    if (count == 1) return ATTUNE_OK;
    return choose_among(list, name, count == 0 ? "matches no device" : "matches several devices");
}

attune_status registry_find(const char *name, const registry_entry **entry)
{
    const size_t length = strcspn(name, ":");
    char backends[64 * BACKEND_COUNT] = "";
    for (int b = 0; b < BACKEND_COUNT; b++) {
        const char *const backend = lists[b].backend->name;
        if (strlen(backend) == length && strncasecmp(backend, name, length) == 0) {
            RETURN_IF_FAILED(
                find(devices_of(b), name, name[length] == ':' ? name + length + 1 : "", entry));
            const char *const reason = (*entry)->caps.info.reason;
            return reason[0] == '\0'
                       ? ATTUNE_OK
                       : attune_fail(ATTUNE_NO_DEVICE, "device \"%s\" cannot be opened: %s", name,
                                     reason);
        }
        strcat(strcat(backends, b == 0 ? "" : ", "), backend);
    }
    return attune_fail(ATTUNE_NO_DEVICE, "device \"%s\": no such backend; there are %s", name,
                       backends);
}

/* ---- built-in tables ---- */

attune_status attune_tuned_visit(const char *backend, attune_tuned_visitor *visitor, void *user)
{
    RETURN_IF_NULL(backend);
    RETURN_IF_NULL(visitor);
    for (int b = 0; b < BACKEND_COUNT; b++) {
        if (strcmp(lists[b].backend->name, backend) != 0) continue;
        const attune_kernel_table *const table = lists[b].backend->table;
        for (int i = 0; i < table->tuned_count; i++) {
            const attune_tuned_row *const row = &table->tuned[i];
            const attune_tuned_line line = {
                .device_class = row->device_class,
                .op = "forward",
                .dtype = attune_dtype_name(row->dtype),
                .head_dim = row->head_dim,
                .max_seqlen_q = row->max_seqlen_q,
                .kernel = row->kernel,
            };
            if (visitor(&line, user) != 0) break;
        }
        return ATTUNE_OK;
    }
    return attune_fail(ATTUNE_INVALID_ARGUMENT, "this library has no backend \"%s\"", backend);
}
