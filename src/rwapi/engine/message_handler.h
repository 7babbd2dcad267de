// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <exception>
#include <span>

#include "rwapi/base/log.h"
#include "rwapi/transport/transport.h"

namespace rwapi {

inline void log_lost_message(const std::exception& error) {
    log_error("a message is lost: %s", error.what());
}

// Makes a member function `void Object::handler(std::span<const std::byte> message)` UCT's callback
// for messages. No exception leaves it. The function may also return UCT's status, if it throws
// nothing.
template <auto Handler, class Object>
MessageHandler handler_of(Object& object) {
    const auto call = [](void* argument, void* data, size_t length, unsigned) {
        auto& receiver = *static_cast<Object*>(argument);
        const std::span message(static_cast<const std::byte*>(data), length);
        if constexpr (noexcept((receiver.*Handler)(message))) {
            return (receiver.*Handler)(message);
        } else {
            try {
                (receiver.*Handler)(message);
            } catch (const std::exception& error) {
                log_lost_message(error);
            }
            return UCS_OK;
        }
    };
    return {call, &object};
}

}  // namespace rwapi
