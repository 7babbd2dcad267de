// SPDX-License-Identifier: BSD-3-Clause
#include "engine/queue_growth.h"

#include <utility>

#include "connection/connector.h"
#include "engine/channels.h"
#include "engine/idle_channels.h"
#include "engine/owner.h"
#include "engine/settings.h"
#include "engine/work_requests.h"

namespace tern {

using Ending = Connection::Ending;

void QueueGrowth::on_full(Channel& channel) {
    if (channel.sends.depth() >= long_places_ || !channel.up() || channel.ending != Ending::kNot)
        return;
    Channel::Growth& growth = channel.growth;
    const uint32_t freed = channel.sending.path.freed();
    if (std::exchange(growth.freed, freed) == freed || ++growth.refusals < kEnough) return;
    growth.refusals = 0;
    if (!idle_.nothing_under_way(channel)) return;
    channel.ending = Ending::kGrows;
    channel.sends.reserve(SendQueue::kAllPlaces);
    requests_.report_all(channel);
}

void QueueGrowth::on_idle(Channel& channel) {
    channel.ending = Ending::kNot;
    if (channel.users.empty() || !idle_.nothing_under_way(channel) || !connector_.lengthen(channel))
        return cancel(channel);
    ++grown_;
    release_users(channel, owner_, Status::kOk);
}

void QueueGrowth::cancel(Channel& channel) {
    channel.ending = Ending::kNot;
    channel.sends.reserve(engine_limits::control_places(channel.sends.depth()));
}

}  // namespace tern
