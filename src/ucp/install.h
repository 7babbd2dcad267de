/* SPDX-License-Identifier: BSD-3-Clause */
/* How Tern's protocols get into UCP, and what must be so that they may. */
#ifndef TERN_UCP_INSTALL_H_
#define TERN_UCP_INSTALL_H_

#include "ucp/versions.h"

/* Compares the size of requests with that in the headers of the build, which depends on how UCX was configured. Returns
 * null, or what does not agree, in `text`. */
const char *install_request_misfit(ucp_worker_h worker, char *text, size_t size);

/* Whether UCX_PROTOS, whose value is `list` or null, admits a protocol of this name. */
int install_admits(const char *list, const char *name);

#endif
