/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "tern/loader/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tern/base/rank_variables.h"

struct line {
    char bytes[4096];
    size_t length;
};

static void add_byte(struct line* line, char byte) {
    if (line->length < sizeof line->bytes) line->bytes[line->length++] = byte;
}

static void add_quoted(struct line* line, const char* text) {
    add_byte(line, '"');
    for (; *text != '\0'; ++text) {
        /* Room for the end of the line. */
        if (line->length + 8 > sizeof line->bytes) break;
        if (*text == '"' || *text == '\\') add_byte(line, '\\');
        add_byte(line, (unsigned char)*text < ' ' ? ' ' : *text);
    }
    add_byte(line, '"');
}

static void add(struct line* line, const char* name, const char* value) {
    if (line->length + 64 > sizeof line->bytes) return;
    add_byte(line, line->length == 0 ? '{' : ',');
    add_quoted(line, name);
    add_byte(line, ':');
    add_quoted(line, value);
}

static void add_rank(struct line* line) {
    static const char* const kVariables[] = {TERN_RANK_VARIABLES};
    size_t i;

    for (i = 0; i < sizeof kVariables / sizeof kVariables[0]; ++i) {
        const char* rank = getenv(kVariables[i]);
        if (rank == NULL) continue;
        add(line, "rank", rank);
        add(line, "rank_by", kVariables[i]);
        return;
    }
}

/* A process whose folder has gone has nobody to explain anything to. */
void tern_record(const char* event, const char* why) {
    const char* folder = getenv("TERN_EXPLAIN");
    char path[PATH_MAX];
    char host[256] = "";
    struct line line = {.length = 0};
    ssize_t written;
    int fd;

    if (folder == NULL || *folder == '\0') return;
    (void)gethostname(host, sizeof host - 1);
    add(&line, "event", event);
    add(&line, "host", host);
    line.length += (size_t)snprintf(line.bytes + line.length, sizeof line.bytes - line.length,
                                    ",\"pid\":%d", (int)getpid());
    add_rank(&line);
    add(&line, "program", program_invocation_short_name);
    if (why != NULL) add(&line, "why", why);
    add_byte(&line, '}');
    add_byte(&line, '\n');
    snprintf(path, sizeof path, "%s/%s.%d.json", folder, host, (int)getpid());
    fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    written = write(fd, line.bytes, line.length);
    (void)written;
    close(fd);
}
