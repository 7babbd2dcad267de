// SPDX-License-Identifier: BSD-3-Clause
/* Says what a process has while it uses UCX, and after that: threads, descriptors, mapped files,
 * signals, environment. One line for each, STAGE KIND ..., for docs/tern/process.md's test. Two
 * workers of the process exchange short and long messages. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alone.h"

enum { kLong = 4 << 20, kRounds = 64 };
extern char** environ;

/* Prints the lines of a status file that begin like one of these names. */
static void print_status(const char* stage, const char* kind, const char* path,
                         const char* const* names) {
    FILE* file = fopen(path, "r");
    char line[512];
    if (file == NULL) return; /* a thread that has ended */
    printf("%s %s", stage, kind);
    while (fgets(line, sizeof line, file) != NULL)
        for (const char* const* name = names; *name != NULL; ++name)
            if (strncmp(line, *name, strlen(*name)) == 0) {
                line[strcspn(line, "\n")] = '\0';
                for (char* at = line; *at != '\0'; ++at)
                    if (*at == '\t') *at = ' ';
                printf(" %s", line);
            }
    printf("\n");
    fclose(file);
}

static void print_threads(const char* stage) {
    static const char* const names[] = {"Name:", "SigBlk:", NULL};
    DIR* folder = opendir("/proc/self/task");
    struct dirent* entry;
    char path[PATH_MAX];
    while ((entry = readdir(folder)) != NULL) {
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        print_status(stage, "thread", path, names);
    }
    closedir(folder);
}

static void print_descriptors(const char* stage) {
    DIR* folder = opendir("/proc/self/fd");
    struct dirent* entry;
    char link[PATH_MAX];
    while ((entry = readdir(folder)) != NULL) {
        ssize_t length;
        if (!isdigit((unsigned char)entry->d_name[0]) || atoi(entry->d_name) == dirfd(folder))
            continue;
        length = readlinkat(dirfd(folder), entry->d_name, link, sizeof link - 1);
        if (length <= 0) continue;
        link[length] = '\0';
        link[strcspn(link, "0123456789")] = '\0'; /* of a socket, a fabric, a folder of a test */
        printf("%s fd %s\n", stage, link);
    }
    closedir(folder);
}

static void print_mappings(const char* stage) {
    FILE* file = fopen("/proc/self/maps", "r");
    char line[PATH_MAX + 128];
    char last[PATH_MAX] = "";
    while (fgets(line, sizeof line, file) != NULL) {
        char* name = strchr(line, '/');
        if (name == NULL) continue;
        name[strcspn(name, "\n")] = '\0';
        if (strcmp(name, last) == 0) continue;
        snprintf(last, sizeof last, "%s", name);
        printf("%s mapping %s\n", stage, name);
    }
    fclose(file);
}

static void print_all(const char* stage) {
    static const char* const signals[] = {"SigBlk:", "SigIgn:", "SigCgt:", NULL};
    static const char* const memory[] = {"VmLck:", NULL};
    print_threads(stage);
    print_descriptors(stage);
    print_mappings(stage);
    print_status(stage, "signals", "/proc/self/status", signals);
    print_status(stage, "locked", "/proc/self/status", memory);
    for (char** variable = environ; *variable != NULL; ++variable)
        printf("%s environ %.*s\n", stage, (int)strcspn(*variable, "="), *variable);
    fflush(stdout);
}

int main(void) {
    char* data = calloc(2, kLong);

    print_all("start");
    open_workers();
    for (int i = 0; i < kRounds; ++i) {
        exchange(data, data + kLong, 8);
        if (i % 8 == 0) exchange(data, data + kLong, kLong);
    }
    print_all("used");
    close_workers();
    print_all("ended");
    free(data);
    return 0;
}
