// SPDX-License-Identifier: BSD-3-Clause
#include "tern/connection/admission.h"

#include <utility>

#include "tern/base/trace.h"
#include "tern/connection/connector_owner.h"

namespace tern {

bool Admission::reserve_completions(uint32_t places) {
    return owner_.reserve_completions(table_.places() + places);
}

void Admission::on_wait(const PeerAddress& peer, const std::string& why) {
    TERN_DEBUG("the connection to %s waits for room: %s", peer.to_string().c_str(), why.c_str());
    if (!std::exchange(reported_, true)) owner_.waits(peer, why);
}

}  // namespace tern
