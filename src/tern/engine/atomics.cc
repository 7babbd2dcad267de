// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/atomics.h"

#include <new>
#include <utility>

namespace tern {

void* Atomics::done(void* cookie, bool good) {
    auto& operation = owner_of<Operation>(cookie);
    if (good && operation.result != nullptr) *operation.result = *operation.word;
    --operation.channel->replies;
    --under_way_;
    void* const users = operation.cookie;
    give(operation);
    return users;
}

bool Atomics::grow() noexcept try {
    if (pages_.size() == kMostPages) return false;
    constexpr size_t kWords = kPage / sizeof(uint64_t);
    Page page;
    page.words = verbs::RegisteredMemory(pd_, kPage, IBV_ACCESS_LOCAL_WRITE);
    page.operations.reset(new (std::nothrow) Operation[kWords]);
    if (!page.words || !page.operations) return false;
    // The pages and all of their operations find room before anything is entered.
    pages_.reserve(kMostPages);
    free_.reserve(free_.size() + kWords * (pages_.size() + 1));
    for (size_t i = 0; i < kWords; ++i) {
        Operation& operation = page.operations[i];
        operation.word = reinterpret_cast<uint64_t*>(page.words.data()) + i;
        operation.lkey = page.words.lkey();
        free_.push_back(&operation);
    }
    pages_.push_back(std::move(page));
    return true;
} catch (const std::bad_alloc&) {
    return false;
}

}  // namespace tern
