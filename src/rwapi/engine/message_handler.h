// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <exception>
#include <span>

#include "rwapi/base/log.h"
#include "rwapi/transport/transport.h"

namespace rwapi {

// Makes a member function `void Object::handler(std::span<const std::byte> message)` UCT's callback
// for messages. No exception leaves it.
template <auto Handler, class Object>
MessageHandler handler_of(Object& object) {
    const auto call = [](void* argument, void* data, size_t length, unsigned) {
        try {
            (static_cast<Object*>(argument)->*Handler)(
                {static_cast<const std::byte*>(data), length});
        } catch (const std::exception& error) {
            log_error("a message is lost: %s", error.what());
        }
        return UCS_OK;
    };
    return {call, &object};
}

}  // namespace rwapi
