// SPDX-License-Identifier: BSD-3-Clause

// Completion, progress and the state of peers.

#include "rwapi/api/context.h"

using namespace rwapi;

extern "C" {

int rwapi_test(rwapi_context* context, rwapi_id id, int* complete) {
    if (complete == nullptr) return RWAPI_ERR_INVALID;
    return answer(test(context, [=](Engine& engine) { return engine.test(id); }), *complete);
}

int rwapi_wait(rwapi_context* context, rwapi_id id, int64_t timeout) {
    return success_of(
        wait_until(context, timeout, [=](Engine& engine) { return engine.test(id); }));
}

int rwapi_wait_all(rwapi_context* context, const rwapi_id* ids, size_t n, int64_t timeout) {
    if (ids == nullptr && n > 0) return RWAPI_ERR_INVALID;
    size_t over = 0;
    const int result = wait_until(context, timeout, [&](Engine& engine) {
        while (over < n && (ids[over] == RWAPI_ID_NONE || engine.look(ids[over]) != 0)) ++over;
        return over == n ? 1 : 0;
    });
    if (result != 1) return result;
    // Errors of later ones stay to be asked for.
    return with(context, [=](Engine& engine) {
        for (size_t i = 0; i < n; ++i) {
            const int each = ids[i] != RWAPI_ID_NONE ? engine.test(ids[i]) : 1;
            if (each < 0) return each;
        }
        return static_cast<int>(RWAPI_OK);
    });
}

int rwapi_wait_any(rwapi_context* context, const rwapi_id* ids, size_t n, size_t* index,
                   int64_t timeout) {
    if (ids == nullptr || n == 0 || index == nullptr) return RWAPI_ERR_INVALID;
    return success_of(wait_until(context, timeout, [=](Engine& engine) {
        bool any = false;
        for (size_t i = 0; i < n; ++i) {
            if (ids[i] == RWAPI_ID_NONE) continue;
            any = true;
            const int result = engine.test(ids[i]);
            if (result == 0) continue;
            *index = i;
            return result;
        }
        return any ? 0 : static_cast<int>(RWAPI_ERR_INVALID);
    }));
}

int rwapi_flush(rwapi_context* context, int node, rwapi_id* id) {
    return with_room(context, [=](Engine& engine) {
        return store_id(
            engine.flushes().start(Task::kFlush, static_cast<uint32_t>(node), id != nullptr), id);
    });
}

int rwapi_flush_all(rwapi_context* context, rwapi_id* id) {
    return with_room(context, [=](Engine& engine) {
        return store_id(engine.flushes().flush_all(id != nullptr), id);
    });
}

int rwapi_fence(rwapi_context* context, int node) {
    return with_room(context, [=](Engine& engine) {
        return store_id(engine.flushes().start(Task::kFence, static_cast<uint32_t>(node), false),
                        nullptr);
    });
}

int rwapi_progress(rwapi_context* context) {
    return with(context, [](Engine& engine) { return static_cast<int>(engine.progress()); });
}

int rwapi_event_fd(rwapi_context* context, int* fd) {
    if (fd == nullptr) return RWAPI_ERR_INVALID;
    return with(context, [=](Engine& engine) {
        *fd = engine.event_fd();
        return *fd >= 0 ? RWAPI_OK : RWAPI_ERR_UNSUPPORTED;
    });
}

int rwapi_arm(rwapi_context* context) {
    return with(context, [](Engine& engine) { return engine.arm(); });
}

int rwapi_peer_status(rwapi_context* context, int node) {
    return with(context,
                [=](Engine& engine) { return engine.peer_status(static_cast<uint32_t>(node)); });
}

}  // extern "C"
