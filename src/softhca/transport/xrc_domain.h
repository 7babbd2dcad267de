// SPDX-License-Identifier: BSD-3-Clause
// XRC domains of the fabric, and this process's handles of XRC receivers.
#pragma once

#include <cstdint>

#include "softhca/fabric/host.h"

namespace softhca {

// The file that names a shared domain; not `named`: an anonymous domain.
struct DomainFile {
    bool named = false;
    uint64_t device = 0;
    uint64_t inode = 0;
};

// Opens the domain of a file, or an anonymous one; *domain is its id. 0, ENOENT, EEXIST, or ENOMEM
// if there are too many.
int open_xrc_domain(Host& host, uint32_t device, const DomainFile& file, bool create,
                    bool exclusive, uint32_t* domain);
// Closes one handle of a domain. A domain ends when its last process closes it or dies.
void close_xrc_domain(Host& host, uint32_t domain);

// Adds a handle of an XRC receiver; the creator has the first one.
void open_xrc_receiver(Host& host, QpShared& qp, uint32_t number);
// Removes a handle. True if no living process has one.
bool close_xrc_receiver(Host& host, QpShared& qp, uint32_t number);

}  // namespace softhca
