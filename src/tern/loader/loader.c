/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads the transport that fits the UCX of the process. UCX may be there from the beginning (the
 * program is linked with it), come later (an MPI library loads a component that is), or have loaded
 * this library as a plug-in. When this library is loaded, it looks for UCX. As long as there is
 * none, it waits for the function by which every user of UCX asks for the transports; preloaded, it
 * comes before libuct, and calls reach it first. Processes without UCX get nothing but this file,
 * which needs the C library only: a run-time library of C++ would come before the program's own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tern/loader/record.h"
#include "tern/loader/releases.h"

/* ucs_status_t uct_query_components(uct_component_h** components_p, unsigned* num_components_p).
 * The status is one byte; this passes on the whole register. */
__attribute__((visibility("default"))) int uct_query_components(void* components, unsigned* count);

typedef int (*query_t)(void*, unsigned*);
typedef void (*get_version_t)(unsigned*, unsigned*, unsigned*);

enum { kNoResource = -2 }; /* UCS_ERR_NO_RESOURCE */
static const char kNotAvailable[] = "transport tern is not available";

/* A path of this process's libraries stays valid as long as the library is loaded. */
static const char* file_of(const void* address) {
    Dl_info info;

    return dladdr(address, &info) != 0 && info.dli_fname != NULL ? info.dli_fname : "";
}

/* The folder of a file, without links: UCX may find this library by one. */
static void folder_of(const char* file, char folder[PATH_MAX]) {
    char* end;

    if (realpath(file, folder) == NULL) snprintf(folder, PATH_MAX, "%s", file);
    end = strrchr(folder, '/');
    if (end != NULL)
        *end = '\0';
    else
        strcpy(folder, ".");
}

struct search {
    const char* name;   /* the beginning of the file's name */
    const char* folder; /* null: any */
    const char* path;
};

static int take_if_wanted(struct dl_phdr_info* info, size_t size, void* argument) {
    struct search* const search = argument;
    const char* const end = strrchr(info->dlpi_name, '/');
    const char* const name = end != NULL ? end + 1 : info->dlpi_name;
    char folder[PATH_MAX];

    (void)size;
    if (strncmp(name, search->name, strlen(search->name)) != 0) return 0;
    if (search->folder != NULL) {
        folder_of(info->dlpi_name, folder);
        if (strcmp(folder, search->folder) != 0) return 0;
    }
    search->path = info->dlpi_name;
    return 1;
}

/* The path of a library of this process whose file name begins like that, or null. */
static const char* find_loaded(const char* name, const char* folder) {
    struct search search = {.name = name, .folder = folder, .path = NULL};

    dl_iterate_phdr(take_if_wanted, &search);
    return search.path;
}

static void* open_library(const char* path) {
    return path != NULL ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
}

/* The libucp that belongs to a libuct: the one beside it, as a process may have two UCX. A program
 * of UCT alone may have none yet. In a build tree of UCX they are in different folders. */
static void* open_ucp(const char* libuct) {
    char folder[PATH_MAX];
    char beside[PATH_MAX + 16];
    void* handle;

    folder_of(libuct, folder);
    snprintf(beside, sizeof beside, "%s/libucp.so.0", folder);
    handle = open_library(find_loaded("libucp.so", folder));
    if (handle == NULL) handle = open_library(beside);
    if (handle == NULL) handle = open_library(find_loaded("libucp.so", NULL));
    return handle != NULL ? handle : open_library("libucp.so.0");
}

static void record_event(const char* event, const char* why) {
    struct tern_record record;

    tern_record_begin(&record, event);
    tern_record_add(&record, "program", program_invocation_short_name);
    tern_record_add(&record, "why", why);
    tern_record_write(&record);
}

static void tell(const char* reason) {
    record_event("misfit", reason);
    if (tern_misfit_is_new()) fprintf(stderr, "tern: %s\n", reason);
}

static void load(const char* libuct) {
    /* Of a variable that has no other name: in the eyes of a plug-in, the function is UCX's. */
    static const char kHere = 0;
    void* const ucp = open_ucp(libuct);
    get_version_t get_version = NULL;
    struct tern_releases releases;
    unsigned major;
    unsigned minor;
    unsigned patch;
    char release[3 * 12];
    char folder[PATH_MAX];
    char path[PATH_MAX + 64];
    char reason[PATH_MAX + kReleasesTextBytes];

    if (ucp != NULL) *(void**)&get_version = dlsym(ucp, "ucp_get_version");
    if (get_version == NULL) {
        snprintf(reason, sizeof reason, "%s: there is no libucp.so.0 with %s; install it",
                 kNotAvailable, libuct);
        tell(reason);
        return;
    }
    get_version(&major, &minor, &patch);
    snprintf(release, sizeof release, "%u.%u.%u", major, minor, patch);
    folder_of(file_of(&kHere), folder);
    tern_releases_in(&releases, folder);
    if (tern_releases_misfit(&releases, release, reason, sizeof reason)) {
        tell(reason);
        return;
    }
    /* Its constructor registers the transport, or says why it does not. */
    tern_transport_path(path, sizeof path, folder, release);
    if (open_library(path) != NULL) return;
    snprintf(reason, sizeof reason, "%s: %s", kNotAvailable, dlerror());
    tell(reason);
}

/* UCX is looked for once; what a second UCX of the process would need is not loaded. */
static void load_once(const char* libuct) {
    /* Recursive: loading runs constructors. */
    static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    static int loaded;

    pthread_mutex_lock(&mutex);
    if (!loaded) {
        loaded = 1;
        load(libuct);
    }
    pthread_mutex_unlock(&mutex);
}

/* The function of UCX that a caller would have got if this library did not stand before it: in the
 * libraries that all of the process sees, or in those that came with the caller. */
static query_t find_query(const void* caller) {
    query_t query = NULL;
    void* handle;

    *(void**)&query = dlsym(RTLD_NEXT, "uct_query_components");
    if (query != NULL) return query;
    handle = dlopen(file_of(caller), RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL) return NULL;
    *(void**)&query = dlsym(handle, "uct_query_components");
    dlclose(handle);
    return query != &uct_query_components ? query : NULL;
}

__attribute__((constructor)) static void start(void) {
    const char* libuct;

    record_event("loaded", NULL);
    /* The dynamic linker initialises UCX before the transport that depends on it, also now. */
    libuct = find_loaded("libuct.so", NULL);
    if (libuct != NULL) load_once(libuct);
}

int uct_query_components(void* components, unsigned* count) {
    const query_t query = find_query(__builtin_return_address(0));

    if (query == NULL) return kNoResource;
    load_once(file_of((const void*)(uintptr_t)query));
    return query(components, count);
}
