// SPDX-License-Identifier: BSD-3-Clause
// Where direct tuples come in.
#pragma once

#include "fastpath/channel.h"
#include "matching/posted_receives.h"

namespace tern {

/// Asked before a tagged message takes the ordinary path, and told of every receive that may match
/// one. This one lets all take the ordinary path.
class DirectPath {
  public:
    /// Whether messages with this tag over this channel are a tuple's: numbered, or sent direct.
    static bool bound(const Channel&, uint64_t) { return false; }
    /// A receive is in the table: the device may have it.
    static void posted(PostedReceive&) {}
    /// It has been taken out, by a message or because it is canceled.
    static void removed(PostedReceive&) {}
};

}  // namespace tern
