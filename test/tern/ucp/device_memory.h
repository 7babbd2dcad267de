/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory as that of a GPU, for tests: device_memory.cc. Programs find these functions in the
 * library that is preloaded. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Device memory, which the processor can neither read nor write (SIGSEGV), or managed memory, which
 * it can. NULL: there is none. It lives as long as the process. */
void* device_memory_allocate(size_t length, int managed);

/* A copy as by the GPU: each end may be memory of the device or of the host. */
void device_memory_copy(void* to, const void* from, size_t length);

/* How often UCX had the GPU copy. */
unsigned long device_memory_copies(void);

#ifdef __cplusplus
}
#endif
