// SPDX-License-Identifier: BSD-3-Clause
#include "message.h"

#include <algorithm>
#include <random>

namespace uct_test {
namespace {

std::size_t copy_out(void* to, void* arg) {
    const Bytes& message = *static_cast<const Bytes*>(arg);
    if (!message.empty()) std::memcpy(to, message.data(), message.size());
    return message.size();
}

void on_completion(uct_completion_t* raw) {
    auto* completion = static_cast<Completion*>(raw);
    ++completion->calls;
    if (completion->then) completion->then();
}

ucs_status_t on_pending(uct_pending_req_t* raw) {
    return static_cast<Pending*>(raw)->body();
}

}  // namespace

const char* name(Kind kind) {
    constexpr const char* kNames[] = {"short", "bcopy", "zcopy"};
    return kNames[static_cast<int>(kind)];
}

Bytes pattern(uint64_t seed, std::size_t length) {
    constexpr std::size_t kStarts = 64 * 1024;
    static const std::vector<std::byte> table = [] {
        std::vector<std::byte> bytes(kStarts + kLongest);
        std::mt19937 random(1);
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
        return bytes;
    }();
    if (length > kLongest) fail("no pattern is as long");
    const std::size_t start = seed * 0x9e3779b97f4a7c15u >> 48;
    return {table.data() + start, length};
}

Completion::Completion(int operations) : uct_completion_t{on_completion, operations, UCS_OK} {}

Pending::Pending(std::function<ucs_status_t()> todo)
    : uct_pending_req_t{on_pending, {}}, body(std::move(todo)) {}

Memory::Memory(Host& host, std::size_t size) : bytes_(size), md_(host.md()) {
    check(uct_md_mem_reg(md_, bytes_.data(), size, UCT_MD_MEM_ACCESS_ALL, &handle_),
          "uct_md_mem_reg");
    // Tern registers open memory when its key is first packed.
    std::array<std::byte, 64> key;
    check(uct_md_mkey_pack(md_, handle_, key.data()), "uct_md_mkey_pack");
}

Memory::~Memory() {
    EXPECT_STATUS(UCS_OK, uct_md_mem_dereg(md_, handle_));
}

Remote describe(Host& host, Memory& memory) {
    uct_md_attr_t attr;
    check(uct_md_query(host.md(), &attr), "uct_md_query");
    Remote remote;
    if (attr.rkey_packed_size > remote.key.size()) fail("a key is longer than expected");
    remote.address = reinterpret_cast<uintptr_t>(memory.data());
    check(uct_md_mkey_pack(host.md(), memory.handle(), remote.key.data()), "uct_md_mkey_pack");
    return remote;
}

RemoteKey::RemoteKey(Host& host, const Remote& remote) : component_(host.component()) {
    check(uct_rkey_unpack(component_, remote.key.data(), &bundle_), "uct_rkey_unpack");
}

RemoteKey::~RemoteKey() {
    EXPECT_STATUS(UCS_OK, uct_rkey_release(component_, &bundle_));
}

ucs_status_t am_short(const Endpoint& ep, uint8_t id, Bytes message) {
    uint64_t header;
    std::memcpy(&header, message.data(), sizeof header);
    const Bytes payload = message.subspan(sizeof header);
    return uct_ep_am_short(ep.get(), id, header, payload.data(),
                           static_cast<unsigned>(payload.size()));
}

ucs_status_t am_bcopy(const Endpoint& ep, uint8_t id, Bytes message, unsigned flags) {
    const ssize_t sent = uct_ep_am_bcopy(ep.get(), id, copy_out, &message, flags);
    if (sent < 0) return static_cast<ucs_status_t>(sent);
    EXPECT_EQ(static_cast<std::size_t>(sent), message.size());
    return UCS_OK;
}

ucs_status_t am_zcopy(const Endpoint& ep, uint8_t id, Bytes header,
                      std::span<const uct_iov_t> payload, Completion* completion) {
    return uct_ep_am_zcopy(ep.get(), id, header.data(), static_cast<unsigned>(header.size()),
                           payload.data(), payload.size(), 0, completion);
}

ucs_status_t put_short(const Endpoint& ep, Bytes bytes, uint64_t to, const RemoteKey& key) {
    return uct_ep_put_short(ep.get(), bytes.data(), static_cast<unsigned>(bytes.size()), to,
                            key.get());
}

ucs_status_t put_bcopy(const Endpoint& ep, Bytes bytes, uint64_t to, const RemoteKey& key) {
    const ssize_t sent = uct_ep_put_bcopy(ep.get(), copy_out, &bytes, to, key.get());
    if (sent < 0) return static_cast<ucs_status_t>(sent);
    EXPECT_EQ(static_cast<std::size_t>(sent), bytes.size());
    return UCS_OK;
}

ucs_status_t put_zcopy(const Endpoint& ep, std::span<const uct_iov_t> from, uint64_t to,
                       const RemoteKey& key, Completion* completion) {
    return uct_ep_put_zcopy(ep.get(), from.data(), from.size(), to, key.get(), completion);
}

ucs_status_t get_zcopy(const Endpoint& ep, std::span<const uct_iov_t> to, uint64_t from,
                       const RemoteKey& key, Completion* completion) {
    return uct_ep_get_zcopy(ep.get(), to.data(), to.size(), from, key.get(), completion);
}

testing::AssertionResult deliver(const Group& who, const Endpoint& ep, Kind kind, uint8_t id,
                                 Bytes message, Memory& memory) {
    Completion completion;
    ucs_status_t status = UCS_OK;
    const testing::AssertionResult result = accepted(who, [&] {
        if (kind == Kind::kShort) return status = am_short(ep, id, message);
        if (kind == Kind::kBcopy) return status = am_bcopy(ep, id, message);
        std::ranges::copy(message, memory.data());
        const uct_iov_t iov = memory.iov(0, message.size());
        return status = am_zcopy(ep, id, {}, {&iov, 1}, &completion);
    });
    if (!result || status == UCS_OK) return result;
    return eventually(who, [&] { return completion.calls == 1; });
}

std::size_t shortest(Kind kind) {
    return kind == Kind::kShort ? sizeof(uint64_t) : 0;
}

std::size_t longest(Kind kind, const uct_iface_attr_t& attr) {
    if (kind == Kind::kShort) return attr.cap.am.max_short;
    return kind == Kind::kBcopy ? attr.cap.am.max_bcopy : attr.cap.am.max_zcopy;
}

std::size_t fill_up(const Endpoint& ep, uint8_t id, Bytes message) {
    std::size_t count = 0;
    ucs_status_t status;
    while ((status = am_bcopy(ep, id, message)) == UCS_OK) {
        if (++count > 1000000) fail("resources are without end");
    }
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, status);
    return count;
}

}  // namespace uct_test
