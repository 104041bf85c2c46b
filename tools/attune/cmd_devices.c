#include <stdio.h>

#include "attune/device.h"
#include "commands.h"
#include "fail.h"
#include "json.h"

int command_devices(const options *o)
{
    if (!o->json)
        printf("%-22s %-40s %-32s %6s %9s  %s\n", "device", "name", "platform", "units", "memory",
               "driver");
    for (int i = 0; i < attune_device_count(); i++) {
        attune_device_info info;
        const attune_status status = attune_device_get(i, &info);
        if (status != ATTUNE_OK) return fail_status(status);
        if (o->json) {
            json_begin();
            json_text("device", info.id);
            json_text("backend", info.backend);
            json_text("name", info.name);
            json_text("platform", info.platform);
            json_text("driver", info.driver);
            json_integer("compute_units", (uint64_t)info.compute_units);
            json_integer("global_memory", (uint64_t)info.global_memory);
            json_integer("fast_memory", (uint64_t)info.fast_memory);
            json_text("reason", info.reason[0] != '\0' ? info.reason : NULL);
            json_end();
        } else if (info.reason[0] != '\0') {
            printf("%-22s not usable: %s\n", info.id, info.reason);
        } else {
            printf("%-22s %-40.40s %-32.32s %6lld %5.1f GiB  %s\n", info.id, info.name,
                   info.platform, (long long)info.compute_units,
                   (double)info.global_memory / 0x1p30, info.driver);
        }
    }
    return EXIT_DONE;
}
