// SPDX-License-Identifier: BSD-3-Clause
// Requests to send that are UCP's own: the transport only carries them, but makes early copies of
// the messages that they announce.
#pragma once

#include <span>

#include "tern/uct/iface.h"

namespace tern {

// To be called before a message with the id compat::kUcpRequestToSend is packed.
void request_begins();
// To be called when the message has been sent. Copies the beginning of the message that it
// announces, if it is a request to send of UCP with the one key that has been packed since it
// began.
void request_sent(TernIface& iface, Channel& channel);
// The same for a message that UCP packed before the call: it must contain the key.
void request_sent(TernIface& iface, Channel& channel, std::span<const std::byte> message);

}  // namespace tern
