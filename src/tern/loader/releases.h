/* SPDX-License-Identifier: BSD-3-Clause */
/* The releases of UCX that an installation has transports for. Each has a folder of its own. C11,
 * as the loader must not need the run-time library of C++; for commands too. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { kReleasesMost = 32, kReleaseBytes = 24, kReleasesTextBytes = 1024 };

/* The oldest first. */
struct tern_releases {
    unsigned count;
    char names[kReleasesMost][kReleaseBytes]; /* "1.13.1" */
};

/* The releases in an installation's folder. */
void tern_releases_in(struct tern_releases* releases, const char* folder);

/* The path of the transport for a release, in an installation's folder. */
void tern_transport_path(char* path, size_t size, const char* folder, const char* release);

/* "1.13.1, 1.18.1 and 1.22.0". */
void tern_releases_text(const struct tern_releases* releases, char* text, size_t size);

/* Whether there is none for UCX `loaded`; then a line in `text` says so, and what to do. */
int tern_releases_misfit(const struct tern_releases* releases, const char* loaded, char* text,
                         size_t size);

/* Whether this process has to say that the transport does not fit. Only the first of a tree does:
 * its children, which inherit the environment, would only repeat it. */
int tern_misfit_is_new(void);

#ifdef __cplusplus
}
#endif
