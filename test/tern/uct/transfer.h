// SPDX-License-Identifier: BSD-3-Clause
// Long messages: puts and gets of declared memory.
#pragma once

#include <sys/mman.h>

#include <deque>
#include <string>
#include <vector>

#include "message.h"

namespace uct_test {

inline constexpr unsigned kRma = UCT_MD_MEM_ACCESS_RMA;

// Fills `bytes` with the pattern of `seed` from `offset` on. The pattern does not repeat.
void fill(std::span<std::byte> bytes, uint64_t seed, uint64_t offset = 0);
// The first place where `bytes` differs from the pattern; the length if there is none.
std::size_t first_difference(Bytes bytes, uint64_t seed, uint64_t offset = 0);
inline testing::AssertionResult filled(Bytes bytes, uint64_t seed, uint64_t offset = 0) {
    const std::size_t at = first_difference(bytes, seed, offset);
    if (at == bytes.size()) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "wrong at " << at << " of " << bytes.size();
}

// Pages that are declared with `rights` while the object lives. The key is packed as for a
// rendezvous, so that Tern does not open the memory, unless the rights include atomic operations.
class Declared {
  public:
    Declared(Host& host, std::size_t size, unsigned rights = kRma);
    ~Declared();
    Declared(const Declared&) = delete;
    Declared& operator=(const Declared&) = delete;

    std::byte* data() const { return data_; }
    std::size_t size() const { return size_; }
    std::span<std::byte> part(std::size_t at, std::size_t length) const {
        return {data_ + at, length};
    }
    uct_iov_t iov(std::size_t at, std::size_t length) const {
        return {data_ + at, length, handle_, 0, 1};
    }
    const Remote& remote() const { return remote_; }
    void protect(int protection);
    // Ends the declaration early.
    void undeclare();
    // Also invalidates the memory. The completion is called when nobody accesses the memory any
    // more.
    void invalidate(Completion& completion);
    // Unmaps the memory early.
    void unmap();

  private:
    std::byte* data_ = nullptr;
    std::size_t size_;
    uct_md_h md_;
    uct_mem_h handle_ = nullptr;
    Remote remote_;
};

// Divides `bytes` bytes from `at` on into `count` pieces, some of them empty.
std::vector<uct_iov_t> pieces(const Declared& memory, std::size_t at, std::size_t bytes,
                              std::size_t count);

// Puts or gets, waits for the end, and returns the status.
ucs_status_t put_wait(const Group& who, const Endpoint& ep, std::span<const uct_iov_t> from,
                      uint64_t to, const RemoteKey& key);
ucs_status_t get_wait(const Group& who, const Endpoint& ep, std::span<const uct_iov_t> to,
                      uint64_t from, const RemoteKey& key);

testing::AssertionResult flush_wait(const Group& who, const Endpoint& ep,
                                    ucs_status_t* result = nullptr);

}  // namespace uct_test
