// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tern/connection/little_endian.h"
#include "tern/engine/engine.h"
#include "tern/tupleq/xrc/messages.h"

namespace tern {

// Sends a control frame. False: there is no room now, or the channel is not up.
template <class Frame>
bool send_frame(Engine& engine, Channel& channel, TupleControlId id, const Frame& frame) {
    return channel.up() &&
           engine.send_control(channel, static_cast<ControlId>(id), &frame, sizeof(frame));
}

// Whether a peer's frame has values that the protocol allows at any time. The receiver of the frame
// checks it against the state of the tuple or link.
bool is_valid(const WireBind& frame);
bool is_valid(const WireBound& frame);
bool is_valid(const WireClose& frame);
bool is_valid(const WireClosed& frame);
bool is_valid(const WireConnect& frame);
bool is_valid(const WireConnected& frame);

// The frame in the payload of a control frame. Empty if it is malformed.
template <class Frame>
std::optional<Frame> read_frame(const std::byte* data, uint32_t length) {
    Frame frame;
    if (!unpack(frame, data, length) || !is_valid(frame)) return {};
    return frame;
}

}  // namespace tern
