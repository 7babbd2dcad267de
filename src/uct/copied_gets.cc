// SPDX-License-Identifier: BSD-3-Clause
#include "uct/copied_gets.h"

#include <new>

#include "engine/engine_send.h"

namespace tern {

Status CopiedGets::get(Channel& channel, size_t length, uint64_t from, uint32_t rkey, Unpack unpack,
                       void* argument, void* cookie) {
    Get* get = take();
    if (get == nullptr) return Status::kNoResource;
    get->unpack = unpack;
    get->argument = argument;
    get->cookie = cookie;
    return post(*get, channel, length, from, rkey);
}

Status CopiedGets::get(Channel& channel, std::span<const Buffers::Piece> to, uint64_t from,
                       uint32_t rkey, void* cookie) {
    Get* get = take();
    if (get == nullptr) return Status::kNoResource;
    get->unpack = nullptr;
    get->to = Buffers(to);
    get->cookie = cookie;
    return post(*get, channel, static_cast<size_t>(get->to.length()), from, rkey);
}

// Null: no memory.
CopiedGets::Get* CopiedGets::take() {
    if (free_.empty()) {
        try {
            free_.reserve(gets_.size() + 1);  // so that done() does not allocate
            free_.push_back(&gets_.emplace_back());
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
    }
    Get* get = free_.back();
    free_.pop_back();
    return get;
}

Status CopiedGets::post(Get& get, Channel& channel, size_t length, uint64_t from, uint32_t rkey) {
    get.channel = &channel;
    get.length = static_cast<uint32_t>(length);
    const Status posted = engine_.read_copy(channel, get.length, from, rkey,
                                            make_cookie(CookieKind::kCopiedGet, &get), get.buffer);
    if (posted == Status::kOk) {
        ++under_way_;
        return Status::kInProgress;
    }
    free_.push_back(&get);
    return posted;
}

void* CopiedGets::done(void* cookie, bool good) {
    auto& get = owner_of<Get>(cookie);
    --get.channel->replies;
    --under_way_;
    if (good && get.unpack != nullptr)
        get.unpack(get.argument, get.buffer->data, get.length);
    else if (good)
        get.to.write(get.buffer->data, get.length);
    engine_.give_back(get.buffer);
    void* const users = get.cookie;
    free_.push_back(&get);
    return users;
}

}  // namespace tern
