// SPDX-License-Identifier: BSD-3-Clause
#include "transfer.h"

#include <ucp/api/ucp_version.h>
#include <uct/api/v2/uct_v2.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace uct_test {
namespace {

uint64_t word(uint64_t seed, uint64_t number) {
    uint64_t value = (number + 1) * 0x9e3779b97f4a7c15u + seed * 0xd1b54a32d192ed03u;
    value = (value ^ value >> 31) * 0xbf58476d1ce4e5b9u;
    return value ^ value >> 29;
}

// Calls `each` for every 8-byte word, with the part of the word in range, until it returns false.
template <class Each>
void for_words(std::size_t length, uint64_t seed, uint64_t offset, Each&& each) {
    for (std::size_t at = 0; at < length;) {
        const uint64_t value = word(seed, (offset + at) / 8);
        const std::size_t begin = (offset + at) % 8;
        const std::size_t part = std::min(length - at, 8 - begin);
        if (!each(at, reinterpret_cast<const std::byte*>(&value) + begin, part)) return;
        at += part;
    }
}

ucs_status_t wait_for(const Group& who, const std::function<ucs_status_t(Completion*)>& operation) {
    auto completion = std::make_unique<Completion>();
    ucs_status_t status = UCS_OK;
    const auto begun = [&] {
        return (status = operation(completion.get())) != UCS_ERR_NO_RESOURCE;
    };
    if (!eventually(who, begun)) return UCS_ERR_NO_RESOURCE;
    if (status != UCS_INPROGRESS) return status;
    if (!eventually(who, [&] { return completion->calls != 0; })) {
        (void)completion.release();  // it is called when the interface ends
        fail("an operation does not end");
    }
    return completion->status;
}

}  // namespace

void fill(std::span<std::byte> bytes, uint64_t seed, uint64_t offset) {
    for_words(bytes.size(), seed, offset,
              [&](std::size_t at, const std::byte* value, std::size_t length) {
                  std::memcpy(bytes.data() + at, value, length);
                  return true;
              });
}

std::size_t first_difference(Bytes bytes, uint64_t seed, uint64_t offset) {
    std::size_t first = bytes.size();
    for_words(bytes.size(), seed, offset,
              [&](std::size_t at, const std::byte* value, std::size_t length) {
                  if (std::memcmp(bytes.data() + at, value, length) == 0) return true;
                  first = at;
                  return false;
              });
    return first;
}

// Packs a key as UCX does from 1.15 on for a rendezvous: inside a message. The message has an
// interface of its own: another thread may be using the memory's worker.
static void pack_in_message(uct_md_h md, uct_mem_h handle, std::byte* key) {
    Entity self;
    self.handle(0, [](Bytes) {});
    const Endpoint ep = self.connect(self);
    const auto pack = [&] { check(uct_md_mkey_pack(md, handle, key), "uct_md_mkey_pack"); };
    const bool sent = accepted({&self}, [&] {
        const ssize_t length = uct_ep_am_bcopy(
            ep.get(), 0,
            [](void*, void* packs) -> std::size_t {
                (*static_cast<decltype(pack)*>(packs))();
                return 0;
            },
            const_cast<void*>(static_cast<const void*>(&pack)), 0);
        return length < 0 ? static_cast<ucs_status_t>(length) : UCS_OK;
    });
    if (!sent || !flush_wait({&self}, ep)) fail("no message to pack a key in");
}

Declared::Declared(Host& host, std::size_t size, unsigned rights) : size_(size), md_(host.md()) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) conformance::fail_errno("mmap");
    data_ = static_cast<std::byte*>(memory);
    check(uct_md_mem_reg(md_, data_, size, rights, &handle_), "uct_md_mem_reg");
    remote_.address = reinterpret_cast<uintptr_t>(data_);
    if (is_tern() && UCP_API_VERSION >= UCP_VERSION(1, 15) &&
        (rights & UCT_MD_MEM_ACCESS_REMOTE_ATOMIC) == 0)
        pack_in_message(md_, handle_, remote_.key.data());
    else
        check(uct_md_mkey_pack(md_, handle_, remote_.key.data()), "uct_md_mkey_pack");
}

Declared::~Declared() {
    undeclare();
    unmap();
}

void Declared::undeclare() {
    if (handle_ == nullptr) return;
    EXPECT_STATUS(UCS_OK, uct_md_mem_dereg(md_, handle_));
    handle_ = nullptr;
}

void Declared::invalidate(Completion& completion) {
    uct_md_mem_dereg_params_t params{};
    params.field_mask = UCT_MD_MEM_DEREG_FIELD_MEMH | UCT_MD_MEM_DEREG_FIELD_FLAGS |
                        UCT_MD_MEM_DEREG_FIELD_COMPLETION;
    params.flags = UCT_MD_MEM_DEREG_FLAG_INVALIDATE;
    params.memh = std::exchange(handle_, nullptr);
    params.comp = &completion;
    EXPECT_STATUS(UCS_OK, uct_md_mem_dereg_v2(md_, &params));
}

void Declared::unmap() {
    if (data_ != nullptr) munmap(std::exchange(data_, nullptr), size_);
}

void Declared::protect(int protection) {
    if (mprotect(data_, size_, protection) != 0) conformance::fail_errno("mprotect");
}

std::vector<uct_iov_t> pieces(const Declared& memory, std::size_t at, std::size_t bytes,
                              std::size_t count) {
    std::vector<uct_iov_t> list;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < count; ++i) {
        // The first two pieces are empty, unless a piece is the last; the others do not get
        // shorter.
        const std::size_t end = i + 1 == count ? bytes
                                : i == 1       ? begin
                                               : bytes * (i + 1) * i / count / count;
        list.push_back(memory.iov(at + begin, std::max(end, begin) - begin));
        begin = std::max(end, begin);
    }
    return list;
}

ucs_status_t put_wait(const Group& who, const Endpoint& ep, std::span<const uct_iov_t> from,
                      uint64_t to, const RemoteKey& key) {
    return wait_for(
        who, [&](Completion* completion) { return put_zcopy(ep, from, to, key, completion); });
}

ucs_status_t get_wait(const Group& who, const Endpoint& ep, std::span<const uct_iov_t> to,
                      uint64_t from, const RemoteKey& key) {
    return wait_for(
        who, [&](Completion* completion) { return get_zcopy(ep, to, from, key, completion); });
}

testing::AssertionResult flush_wait(const Group& who, const Endpoint& ep, ucs_status_t* result) {
    auto completion = std::make_unique<Completion>();
    ucs_status_t status = UCS_OK;
    const auto begun = [&] {
        status = uct_ep_flush(ep.get(), UCT_FLUSH_FLAG_LOCAL, completion.get());
        return status != UCS_ERR_NO_RESOURCE;
    };
    testing::AssertionResult done = eventually(who, begun);
    if (done && status == UCS_INPROGRESS) {
        done = eventually(who, [&] { return completion->calls == 1; });
        status = completion->status;
        if (!done) (void)completion.release();  // it is called when the interface ends
    }
    if (result != nullptr) *result = status;
    if (done && result == nullptr && status != UCS_OK)
        return testing::AssertionFailure() << ucs_status_string(status);
    return done;
}

}  // namespace uct_test
