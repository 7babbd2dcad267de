/* SPDX-License-Identifier: BSD-3-Clause */
/* What identifies a release of UCP: its number and the names of its protocols, in the order of its table. */
#ifndef TERN_UCP_RELEASE_H_
#define TERN_UCP_RELEASE_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ucp_release {
    unsigned major;
    unsigned minor;
    unsigned release;
    unsigned count;           /* of protocols */
    const char *const *names; /* null: the table has no protocol there */
};

/* Compares the UCP of this process with the one that the plug-in was built for. Returns null, or what does not agree,
 * in `text`. */
const char *release_misfit(const struct ucp_release *loaded, const struct ucp_release *built, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
