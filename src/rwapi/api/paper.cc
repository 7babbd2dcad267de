// SPDX-License-Identifier: BSD-3-Clause

// The calls of the paper, and those for small messages.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "rwapi/api/context.h"

using namespace rwapi;

namespace {

constexpr size_t kHugePage = 2 << 20;

}  // namespace

extern "C" {

int rwapi_size() {
    return rwapi_context_size(nullptr);
}

int rwapi_rank() {
    return rwapi_context_rank(nullptr);
}

void* rwapi_context_alloc(rwapi_context* context, size_t size, rwapi_net* net) {
    if (size == 0 || net == nullptr || size > NetAddress::kMaxOffset) return nullptr;
    void* memory = nullptr;
    with(context, [&](Engine& engine) -> int {
        const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        const size_t length = (size + page - 1) / page * page;
        void* const mapped =
            mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED) return RWAPI_ERR_MEMORY;
        if (length >= kHugePage) madvise(mapped, length, MADV_HUGEPAGE);
        const int error =
            engine.regions().add(static_cast<std::byte*>(mapped), size, RWAPI_ALL, true, *net);
        if (error != RWAPI_OK) {
            munmap(mapped, length);
            return error;
        }
        memory = mapped;
        return RWAPI_OK;
    });
    return memory;
}

rwapi_net rwapi_net_add(rwapi_net net, size_t bytes) {
    // An offset that does not fit becomes one that is outside of any region.
    const uint64_t sum = std::min(NetAddress::offset_of(net, bytes), NetAddress::kMaxOffset);
    net.word[1] = (net.word[1] & ~NetAddress::kMaxOffset) | sum;
    return net;
}

int rwapi_net_node(rwapi_net net) {
    return static_cast<int>(NetAddress::unpack(net).node);
}

int rwapi_context_send(rwapi_context* context, int node, const rwapi_small* small) {
    if (small == nullptr) return RWAPI_ERR_INVALID;
    const auto send = [=](Engine& engine) {
        return engine.send(static_cast<uint32_t>(node), *small);
    };
    const int sent = with(context, send);
    // Only this process could receive what it has sent to itself.
    if (sent != RWAPI_ERR_AGAIN || node == rwapi_context_rank(context)) return sent;
    return wait_for_room(context, send);
}

int rwapi_context_receive(rwapi_context* context, int* node, rwapi_small* small) {
    if (node == nullptr || small == nullptr) return RWAPI_ERR_INVALID;
    return test(context, [=](Engine& engine) {
        uint32_t from;
        if (!engine.receive(from, *small)) return 0;
        *node = static_cast<int>(from);
        return 1;
    });
}

int rwapi_send(int node, const rwapi_small* small) {
    return rwapi_context_send(nullptr, node, small);
}

int rwapi_receive(int* node, rwapi_small* small) {
    return rwapi_context_receive(nullptr, node, small);
}

void* rwapi_alloc(size_t size, rwapi_net* net) {
    return rwapi_context_alloc(nullptr, size, net);
}

int rwapi_free(void* memory) {
    return with(nullptr, [=](Engine& engine) {
        OwnRegion* const own = engine.regions().find_allocated(memory);
        return own != nullptr ? engine.regions().remove(*own) : RWAPI_ERR_INVALID;
    });
}

rwapi_id rwapi_write(int node, rwapi_net from, rwapi_net to, size_t size) {
    return with_room(nullptr, [&](Engine& engine) {
        return engine.write(static_cast<uint32_t>(node), from, to, size);
    });
}

int rwapi_issent(rwapi_id id) {
    return test(nullptr, [=](Engine& engine) { return engine.test(id); });
}

}  // extern "C"
