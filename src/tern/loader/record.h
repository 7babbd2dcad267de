/* SPDX-License-Identifier: BSD-3-Clause */
/* The loader's records for `tern-run --explain`, as base/explain_record.h has them in C++. */
#pragma once

/* Writes a record of this event in this process, if the environment asks for records. `why` may be
 * null. */
void tern_record(const char* event, const char* why);
