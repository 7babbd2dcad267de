// SPDX-License-Identifier: BSD-3-Clause
// XRC domains of the fabric, and the handles of XRC receivers that processes share.
#pragma once

#include <cstdint>

#include "fabric/host.h"

namespace softhca {

/// The file that names a shared domain.
struct DomainFile {
    bool named = false;
    uint64_t device = 0;
    uint64_t inode = 0;
};

/// Opens the domain of a file, or an anonymous one; its id in *domain. 0, ENOENT, EEXIST, or ENOMEM
/// when there are too many.
int open_xrc_domain(Host& host, uint32_t device, const DomainFile& file, bool create,
                    bool exclusive, uint32_t* domain);
/// This process lets go of a domain. A domain ends when its last process does so or dies.
void close_xrc_domain(Host& host, uint32_t domain);

/// Counts one more handle of an XRC receiver (the first is its creator's).
void open_xrc_receiver(Host& host, QpShared& qp, uint32_t number);
/// One handle less. True if no living process has one any more.
bool close_xrc_receiver(Host& host, QpShared& qp, uint32_t number);

}  // namespace softhca
