// SPDX-License-Identifier: BSD-3-Clause
// The private headers of UCX, which are C and written for UCX's own sources. Files of src/tern/uct
// include UCX's headers by way of this file.
#pragma once

#ifndef HAVE_CONFIG_H
#error \
    "UCX's headers need HAVE_CONFIG_H, or they do not read the configuration of the installed UCX"
#endif

// UCX's headers include standard headers, which must not be included inside extern "C".
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
#include <ucm/api/ucm.h>
#include <ucp/api/ucp_version.h>
#include <ucs/arch/cpu.h>
#include <ucs/async/async.h>
#include <ucs/config/parser.h>
#include <ucs/datastruct/arbiter.h>
#include <ucs/debug/log.h>
#include <ucs/memory/memtype_cache.h>
#include <ucs/sys/math.h>
#include <ucs/sys/module.h>
#include <ucs/sys/string.h>
#include <ucs/sys/topo/base/topo.h>
#include <ucs/time/time.h>
#include <ucs/type/class.h>
#include <ucs/vfs/base/vfs_obj.h>
#include <uct/api/uct.h>
#include <uct/api/v2/uct_v2.h>
#include <uct/base/uct_component.h>
#include <uct/base/uct_iface.h>
#include <uct/base/uct_log.h>
#include <uct/base/uct_md.h>
#include <uct/base/uct_worker.h>
#include <ucs/datastruct/mpool.inl>
#include <uct/base/uct_iov.inl>
}

// Whether this is built for UCX 1.minor or later. For names that older versions lack.
#define TERN_UCX_SINCE(minor) (UCP_API_MAJOR > 1 || UCP_API_MINOR >= (minor))

// In newer versions, tables of settings refer to this symbol. Older versions lack it, and an
// undefined data symbol would end the program before a preloaded library could report the misfit.
// Clang takes the pragma only for what has been declared.
#if !defined(__clang__) || TERN_UCX_SINCE(18)
#pragma weak ucs_config_doc_nop
#endif

#ifdef __clang__
// UCX's macros compare flags with NULL.
#pragma clang diagnostic ignored "-Wnull-conversion"
#endif

#ifndef UCX_CONFIG_H
#error "UCX's headers have read a config.h that is not UCX's"
#endif
