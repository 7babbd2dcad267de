/* SPDX-License-Identifier: BSD-3-Clause */
/* Registration of another device's memory: what UCX offers from 1.14 on, by uct_md_mem_reg_v2. For
 * programs on earlier releases, and for tests on any, which find the function at run time, in the
 * library that the memory domain's functions come from. C99. */
#pragma once

#include <uct/api/uct.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As uct_md_mem_reg, for memory at `address` that the DMA buffer `fd` has from `offset` on, and
 * that no processor can, or may, access: Tern leaves it to the device. The descriptor may be closed
 * afterwards. `md` must be Tern's. UCS_ERR_UNSUPPORTED: the device does not take DMA buffers. */
__attribute__((visibility("default"))) ucs_status_t tern_uct_md_mem_reg_dma_buffer(
    uct_md_h md, void* address, size_t length, int fd, size_t offset, uct_mem_h* memh);

#ifdef __cplusplus
}
#endif
