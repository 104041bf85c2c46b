#include "registry.h"

#include "status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const attune_backend *const backends[] = {
    &attune_backend_cpu,
#ifdef ATTUNE_WITH_OPENCL
    &attune_backend_opencl,
#endif
};

enum { BACKEND_COUNT = sizeof backends / sizeof backends[0] };

/* ---- the list ---- */

static pthread_once_t listed = PTHREAD_ONCE_INIT;
static registry_entry *entries;
static int entry_count;

/* Without memory the list stays empty. */
static void list_devices(void)
{
    int counts[BACKEND_COUNT], total = 0;
    char reasons[BACKEND_COUNT][256] = {{0}};
    for (int b = 0; b < BACKEND_COUNT; b++) {
        counts[b] = backends[b]->count(reasons[b]);
        total += counts[b] > 0 ? counts[b] : 1;
    }
    entries = calloc((size_t)total, sizeof *entries);
    if (entries == NULL) return;
    for (int b = 0; b < BACKEND_COUNT; b++) {
        for (int i = 0; i < counts[b]; i++) {
            registry_entry *const entry = &entries[entry_count++];
            *entry = (registry_entry){.backend = backends[b], .index = i};
            backends[b]->caps(i, &entry->caps);
        }
        if (counts[b] > 0) continue;
        registry_entry *const entry = &entries[entry_count++];
        *entry = (registry_entry){.backend = backends[b], .index = -1};
        attune_device_info *const info = &entry->caps.info;
        snprintf(info->id, sizeof info->id, "%s", backends[b]->name);
        snprintf(info->backend, sizeof info->backend, "%s", backends[b]->name);
        memcpy(info->reason, reasons[b], sizeof info->reason);
    }
}

int attune_device_count(void)
{
    pthread_once(&listed, list_devices);
    return entry_count;
}

attune_status attune_device_get(int index, attune_device_info *info)
{
    RETURN_IF_NULL(info);
    const int count = attune_device_count();
    if (index < 0 || index >= count)
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "device index is %d; 0 to %d is accepted",
                           index, count - 1);
    *info = entries[index].caps.info;
    return ATTUNE_OK;
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

static bool platform_matches(const attune_device_info *info, const char *part)
{
    return contains(info->platform, part);
}
static bool name_matches(const attune_device_info *info, const char *part)
{
    return contains(info->name, part);
}
static bool any_matches(const attune_device_info *info, const char *part)
{
    (void)part;
    return info->id[0] != '\0';
}

typedef bool device_matcher(const attune_device_info *info, const char *part);

/* How many devices of a backend match; *found is the last of them, `list` names them all. */
static int match_devices(const char *backend, device_matcher *matches, const char *part,
                         const registry_entry **found, char list[512])
{
    int count = 0, length = 0;
    list[0] = '\0';
    for (int i = 0; i < entry_count; i++) {
        const attune_device_info *const info = &entries[i].caps.info;
        if (strcasecmp(info->backend, backend) != 0 || !matches(info, part)) continue;
        if (length < 512)
            length +=
                snprintf(list + length, 512 - (size_t)length, "%s%s (%s)", count == 0 ? "" : ", ",
                         info->id, info->platform[0] == '\0' ? info->name : info->platform);
        *found = &entries[i];
        count++;
    }
    return count;
}

/* The device of `backend` with `part` in its platform or, where there is none, in its name. */
static attune_status find_by_part(const char *name, const char *backend, const char *part,
                                  const registry_entry **found)
{
    char list[512];
    int count = match_devices(backend, any_matches, part, found, list);
    if (count == 0) {
        char backend_list[256] = "";
        for (int b = 0; b < BACKEND_COUNT; b++) {
            strncat(backend_list, b == 0 ? "" : ", ",
                    sizeof backend_list - strlen(backend_list) - 1);
            strncat(backend_list, backends[b]->name,
                    sizeof backend_list - strlen(backend_list) - 1);
        }
        return attune_fail(ATTUNE_NO_DEVICE, "device \"%s\": no such backend; there are %s", name,
                           backend_list);
    }
    if (count == 1 && (*found)->index < 0) return ATTUNE_OK;

    count = match_devices(backend, platform_matches, part, found, list);
    if (count == 0) count = match_devices(backend, name_matches, part, found, list);
    if (count == 1) return ATTUNE_OK;
    if (count > 1)
        return attune_fail(ATTUNE_NO_DEVICE, "device \"%s\" may mean any of %s", name, list);
    match_devices(backend, any_matches, part, found, list);
    return attune_fail(ATTUNE_NO_DEVICE, "device \"%s\" matches none of %s", name, list);
}

static attune_status find(const char *name, const registry_entry **found)
{
    for (int i = 0; i < attune_device_count(); i++)
        if (strcasecmp(entries[i].caps.info.id, name) == 0) {
            *found = &entries[i];
            return ATTUNE_OK;
        }
    const size_t length = strcspn(name, ":");
    char backend[sizeof entries->caps.info.backend];
    snprintf(backend, sizeof backend, "%.*s", (int)length, name);
    return find_by_part(name, backend, name[length] == ':' ? name + length + 1 : "", found);
}

attune_status registry_find(const char *name, const registry_entry **entry)
{
    RETURN_IF_FAILED(find(name, entry));
    const attune_device_info *const info = &(*entry)->caps.info;
    if (info->reason[0] == '\0') return ATTUNE_OK;
    return attune_fail(ATTUNE_NO_DEVICE, "device \"%s\": %s", name, info->reason);
}
