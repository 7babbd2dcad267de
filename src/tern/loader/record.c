/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "tern/loader/record.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tern/base/rank_variables.h"

enum { kEnd = 2 }; /* bytes of what ends a line */

static void add_byte(struct tern_record* record, char byte) {
    if (record->length + kEnd < sizeof record->bytes) record->bytes[record->length++] = byte;
}

static void add_quoted(struct tern_record* record, const char* text) {
    add_byte(record, '"');
    /* Room for the other quotation mark. */
    for (; *text != '\0' && record->length + kEnd + 3 < sizeof record->bytes; ++text) {
        if (*text == '"' || *text == '\\') add_byte(record, '\\');
        add_byte(record, (unsigned char)*text < ' ' ? ' ' : *text);
    }
    add_byte(record, '"');
}

/* Whether there is room for a value of some bytes; then its name is added. */
static int add_name(struct tern_record* record, const char* name, size_t bytes) {
    if (record->length + strlen(name) + bytes + 8 > sizeof record->bytes) return 0;
    add_byte(record, record->length == 0 ? '{' : ',');
    add_quoted(record, name);
    add_byte(record, ':');
    return 1;
}

static void get_host(char host[256]) {
    memset(host, 0, 256);
    (void)gethostname(host, 255);
}

const char* tern_record_folder(void) {
    const char* folder = getenv("TERN_EXPLAIN");

    return folder != NULL && *folder != '\0' ? folder : NULL;
}

void tern_record_begin(struct tern_record* record, const char* event) {
    static const char* const kVariables[] = {TERN_RANK_VARIABLES};
    char host[256];
    char pid[12];
    size_t i;

    record->length = 0;
    if (tern_record_folder() == NULL) return;
    if (add_name(record, "event", 0)) add_quoted(record, event);
    get_host(host);
    tern_record_add(record, "host", host);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    tern_record_add_json(record, "pid", pid);
    for (i = 0; i < sizeof kVariables / sizeof kVariables[0]; ++i) {
        const char* rank = getenv(kVariables[i]);
        if (rank == NULL) continue;
        tern_record_add(record, "rank", rank);
        tern_record_add(record, "rank_by", kVariables[i]);
        return;
    }
}

void tern_record_add(struct tern_record* record, const char* name, const char* text) {
    if (record->length != 0 && text != NULL && add_name(record, name, 0)) add_quoted(record, text);
}

void tern_record_add_json(struct tern_record* record, const char* name, const char* json) {
    if (record->length == 0 || !add_name(record, name, strlen(json))) return;
    for (; *json != '\0'; ++json) add_byte(record, *json);
}

/* A process whose folder has gone has nobody to explain anything to. */
void tern_record_write(struct tern_record* record) {
    const char* folder = tern_record_folder();
    char path[PATH_MAX];
    char host[256];
    ssize_t written;
    int fd;

    if (record->length == 0 || folder == NULL) return;
    record->bytes[record->length++] = '}';
    record->bytes[record->length++] = '\n';
    get_host(host);
    snprintf(path, sizeof path, "%s/%s.%d.json", folder, host, (int)getpid());
    fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    written = write(fd, record->bytes, record->length);
    (void)written;
    close(fd);
}
