/* SPDX-License-Identifier: BSD-3-Clause */
#include "tern/loader/releases.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether `name` is a release, and its numbers. */
static int numbers_of(const char* name, unsigned numbers[3]) {
    int length = 0;
    const int found = sscanf(name, "%u.%u.%u%n", &numbers[0], &numbers[1], &numbers[2], &length);

    return found == 3 && (size_t)length == strlen(name) && length < kReleaseBytes;
}

static int compare(const void* one, const void* other) {
    unsigned left[3];
    unsigned right[3];
    int i;

    numbers_of(one, left);
    numbers_of(other, right);
    for (i = 0; i < 3; ++i)
        if (left[i] != right[i]) return left[i] < right[i] ? -1 : 1;
    return 0;
}

void tern_transport_path(char* path, size_t size, const char* folder, const char* release) {
    snprintf(path, size, "%s/%s/libuct_tern.so.0", folder, release);
}

void tern_releases_in(struct tern_releases* releases, const char* folder) {
    DIR* const entries = opendir(folder);
    const struct dirent* entry;
    unsigned numbers[3];
    char path[PATH_MAX];

    releases->count = 0;
    if (entries == NULL) return;
    while (releases->count < kReleasesMost && (entry = readdir(entries)) != NULL) {
        if (!numbers_of(entry->d_name, numbers)) continue;
        tern_transport_path(path, sizeof path, folder, entry->d_name);
        if (access(path, R_OK) == 0) strcpy(releases->names[releases->count++], entry->d_name);
    }
    closedir(entries);
    qsort(releases->names, releases->count, kReleaseBytes, compare);
}

void tern_releases_text(const struct tern_releases* releases, char* text, size_t size) {
    size_t length = 0;
    unsigned i;

    text[0] = '\0';
    for (i = 0; i < releases->count && length < size; ++i) {
        const char* between = i == 0 ? "" : i + 1 == releases->count ? " and " : ", ";
        length +=
            (size_t)snprintf(text + length, size - length, "%s%s", between, releases->names[i]);
    }
}

int tern_releases_misfit(const struct tern_releases* releases, const char* loaded, char* text,
                         size_t size) {
    static const char kPrefix[] = "transport tern is not available: it is installed for";
    char names[kReleasesTextBytes];
    unsigned i;

    for (i = 0; i < releases->count; ++i)
        if (strcmp(releases->names[i], loaded) == 0) return 0;
    if (releases->count == 0) {
        snprintf(text, size,
                 "%s no release of UCX; install it for %s (configure --with-ucx=PREFIX)", kPrefix,
                 loaded);
        return 1;
    }
    tern_releases_text(releases, names, sizeof names);
    snprintf(text, size,
             "%s UCX %s, and this is UCX %s; build it for this one too (configure "
             "--with-ucx=PREFIX:PREFIX) or run with UCX %s",
             kPrefix, names, loaded, releases->names[releases->count - 1]);
    return 1;
}

int tern_misfit_is_new(void) {
    static const char kTold[] = "TERN_MISFIT_TOLD";

    if (getenv(kTold) != NULL) return 0;
    setenv(kTold, "1", 0);
    return 1;
}
