/* SPDX-License-Identifier: BSD-3-Clause */
/* The records of a process for `tern-run --explain`: lines of JSON about this process, in a file of
 * its own in the folder that the environment names (TERN_EXPLAIN). docs/tern/running.md names the
 * records. In C, as the loader is. Nothing is allocated. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The folder, or null: nobody asks for records. */
const char* tern_record_folder(void);

/* A line; empty if nobody asks for it. What has no room is left out, or cut if it is a text. */
struct tern_record {
    size_t length;
    char bytes[16384];
};

/* Begins the record of an event, with what identifies the process. */
void tern_record_begin(struct tern_record* record, const char* event);
/* Adds a text, if it is not null. */
void tern_record_add(struct tern_record* record, const char* name, const char* text);
/* Adds a value that is JSON. */
void tern_record_add_json(struct tern_record* record, const char* name, const char* json);
void tern_record_write(struct tern_record* record);

#ifdef __cplusplus
}
#endif
