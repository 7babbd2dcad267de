// SPDX-License-Identifier: BSD-3-Clause
// What the data path calls for what has come and what is complete.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "tern/connection/connection.h"

namespace tern {

struct Channel;

// What takes completions: the parameter of the data path where nothing is received.
template <class Sink>
concept OperationSink = requires(Sink& sink, void* cookie, Status status) {
    sink.completed(cookie, status);
};

// What takes what comes: the parameter of the data path. `data` is valid during the call. False:
// the frame or the immediate data is malformed.
template <class Sink>
concept MessageSink = OperationSink<Sink> &&
    requires(Sink& sink, Channel& channel, uint32_t id, std::byte* data, uint32_t length) {
    sink.message(id, static_cast<const void*>(data), length);
    // A message that may stay where it is, with EngineSettings::buffers.headroom bytes before it.
    // True: it stays until give_back().
    { sink.keeps(id, data, length) } -> std::same_as<bool>;
    // A frame of kind kTag.
    { sink.tagged(channel, id, static_cast<const std::byte*>(data), length) } -> std::same_as<bool>;
    // A control frame of the layer above.
    {
        sink.control(channel, id, static_cast<const std::byte*>(data), length)
        } -> std::same_as<bool>;
    // A write with immediate data of the layer above.
    { sink.notified(channel, id) } -> std::same_as<bool>;
};

}  // namespace tern
