// SPDX-License-Identifier: BSD-3-Clause
// Single operations: active messages of each kind, completions, pending requests.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "entity.h"

namespace uct_test {

enum class Kind : uint8_t { kShort, kBcopy, kZcopy };
inline constexpr Kind kKinds[] = {Kind::kShort, Kind::kBcopy, Kind::kZcopy};
const char* name(Kind kind);

// `length` bytes that depend on `seed`; kLongest at most.
inline constexpr std::size_t kLongest = 64 * 1024;
Bytes pattern(uint64_t seed, std::size_t length);
inline bool same(Bytes one, Bytes other) {
    return std::ranges::equal(one, other);
}

// The completion of one or more operations.
struct Completion : uct_completion_t {
    explicit Completion(int operations = 1);
    Completion(const Completion&) = delete;
    Completion& operator=(const Completion&) = delete;

    int calls = 0;  // calls of the callback
    std::function<void()> then;
};

// A pending request. `body` returns the status for UCT.
struct Pending : uct_pending_req_t {
    explicit Pending(std::function<ucs_status_t()> todo);
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;

    std::function<ucs_status_t()> body;
};

// Memory that is registered with all rights while the object lives.
class Memory {
  public:
    Memory(Host& host, std::size_t size);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    std::byte* data() { return bytes_.data(); }
    std::size_t size() const { return bytes_.size(); }
    uct_mem_h handle() const { return handle_; }
    uct_iov_t iov(std::size_t offset, std::size_t length) {
        return {data() + offset, length, handle_, 0, 1};
    }

  private:
    std::vector<std::byte> bytes_;
    uct_md_h md_;
    uct_mem_h handle_;
};

// A peer's memory: plain bytes that can be sent to another process.
struct Remote {
    uint64_t address = 0;
    std::array<std::byte, 64> key{};
};
Remote describe(Host& host, Memory& memory);

// The unpacked key to a peer's memory.
class RemoteKey {
  public:
    RemoteKey(Host& host, const Remote& remote);
    ~RemoteKey();
    RemoteKey(const RemoteKey&) = delete;
    RemoteKey& operator=(const RemoteKey&) = delete;

    uct_rkey_t get() const { return bundle_.rkey; }

  private:
    uct_component_h component_;
    uct_rkey_bundle_t bundle_;
};

// All return UCT's status, or UCS_OK where UCT returns a length.
// am_short: the first 8 bytes of `message` are UCT's header.
ucs_status_t am_short(const Endpoint& ep, uint8_t id, Bytes message);
ucs_status_t am_bcopy(const Endpoint& ep, uint8_t id, Bytes message, unsigned flags = 0);
ucs_status_t am_zcopy(const Endpoint& ep, uint8_t id, Bytes header,
                      std::span<const uct_iov_t> payload, Completion* completion);

ucs_status_t put_short(const Endpoint& ep, Bytes bytes, uint64_t to, const RemoteKey& key);
ucs_status_t put_bcopy(const Endpoint& ep, Bytes bytes, uint64_t to, const RemoteKey& key);

ucs_status_t put_zcopy(const Endpoint& ep, std::span<const uct_iov_t> from, uint64_t to,
                       const RemoteKey& key, Completion* completion);
ucs_status_t get_zcopy(const Endpoint& ep, std::span<const uct_iov_t> to, uint64_t from,
                       const RemoteKey& key, Completion* completion);

// Sends a message of any kind. A zcopy sends from `memory`, and deliver() waits for its completion.
testing::AssertionResult deliver(const Group& who, const Endpoint& ep, Kind kind, uint8_t id,
                                 Bytes message, Memory& memory);

// Limits of a kind's message length, header included.
std::size_t shortest(Kind kind);
std::size_t longest(Kind kind, const uct_iface_attr_t& attr);

// Sends until there are no resources for this endpoint; returns how many messages were sent.
std::size_t fill_up(const Endpoint& ep, uint8_t id, Bytes message);

}  // namespace uct_test
