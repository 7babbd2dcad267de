/* SPDX-License-Identifier: BSD-3-Clause */
#include "tern/ucp/release.h"

#include <stdio.h>
#include <string.h>

const char *release_misfit(const struct ucp_release *loaded, const struct ucp_release *built, char *text, size_t size) {
    unsigned i;

    if (loaded->major != built->major || loaded->minor != built->minor || loaded->release != built->release) {
        snprintf(text, size, "this is UCX %u.%u.%u, and the plug-in was built for %u.%u.%u", loaded->major,
                 loaded->minor, loaded->release, built->major, built->minor, built->release);
        return text;
    }
    if (loaded->count != built->count) {
        snprintf(text, size, "UCP has %u protocols and not %u", loaded->count, built->count);
        return text;
    }
    for (i = 0; i < built->count; ++i) {
        const char *name = loaded->names[i];
        if (name != NULL && strcmp(name, built->names[i]) == 0) continue;
        snprintf(text, size, "protocol %u of UCP is %s and not %s", i, name != NULL ? name : "missing",
                 built->names[i]);
        return text;
    }
    return NULL;
}
