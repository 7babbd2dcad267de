// SPDX-License-Identifier: BSD-3-Clause
#include "connection/admission.h"

#include <utility>

#include "base/trace.h"
#include "connection/connector_owner.h"

namespace tern {

bool Admission::reserve_completions(uint32_t places) {
    const bool room = owner_.reserve_completions(table_.places() + places);
    starved_ = !room;
    update();
    return room;
}

void Admission::on_refused(const PeerAddress& peer, const std::string& why) {
    TERN_DEBUG("a connection of %s is refused: %s", peer.to_string().c_str(), why.c_str());
    if (!std::exchange(reported_, true)) owner_.refused(peer, why);
}

}  // namespace tern
