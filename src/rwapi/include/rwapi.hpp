// SPDX-License-Identifier: BSD-3-Clause
#ifndef RWAPI_HPP
#define RWAPI_HPP

// rwapi.h for C++20. The comments there say what the calls do; here is only what differs:
// - Contexts, memory and registrations are objects. Their destructors give back what they
//   have, and ignore errors; close() throws them. An exception that leaves the scope of a context
//   ends the process with a message, and so the job: other processes would wait for it.
// - Errors are exceptions, because most calls fail only if something is wrong, and constructors
//   cannot return anything.
// - Buffers are spans of bytes. bytes_of() and writable_bytes_of() make them of other things. They
//   must exist until the operation is complete.
// - Times are std::chrono's. A wait whose time has passed throws, as the C call returns an error.
// Each function is one call of C, and the objects have only what it needs. `id` may be null; then
// the next flush returns the error.

#include <rwapi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace rwapi {

using Bytes = std::span<const std::byte>;
using WritableBytes = std::span<std::byte>;
using Time = std::chrono::microseconds;

inline constexpr Time kForever{-1};

// The category of the codes RWAPI_ERR_*.
inline const std::error_category& category() {
    class Category : public std::error_category {
      public:
        const char* name() const noexcept override { return "rwapi"; }
        std::string message(int error) const override { return ::rwapi_strerror(error); }
    };
    static const Category the_category;
    return the_category;
}

// code().value() is the RWAPI_ERR_*, what() the library's text.
class Error : public std::system_error {
  public:
    explicit Error(int error) : std::system_error(error, category()) {}
};

// The result of a call, or its error as an exception.
template <class Result>
inline Result check(Result result) {
    if (result < 0) [[unlikely]]
        throw Error(static_cast<int>(result));
    return result;
}

// A range that does not end with the expression: a span, or a container with a name.
template <class T>
concept Lasting = std::is_lvalue_reference_v<T> || std::ranges::borrowed_range<T>;
// What is contiguous and can be copied byte by byte.
template <class T>
concept PlainRange = std::ranges::contiguous_range<T> && std::ranges::sized_range<T> &&
    Lasting<T> && std::is_trivially_copyable_v<std::ranges::range_value_t<T>>;
template <class T>
concept PlainObject =
    !std::ranges::range<T> && !std::is_pointer_v<T> && std::is_trivially_copyable_v<T>;

template <PlainRange T>
Bytes bytes_of(T&& range) {
    return std::as_bytes(std::span(range));
}
template <PlainObject T>
Bytes bytes_of(T& object) {
    return std::as_bytes(std::span<T, 1>(&object, 1));
}
template <PlainRange T>
WritableBytes writable_bytes_of(T&& range) {
    return std::as_writable_bytes(std::span(range));
}
template <PlainObject T>
WritableBytes writable_bytes_of(T& object) {
    return std::as_writable_bytes(std::span<T, 1>(&object, 1));
}

// An element of a list. Those of a get have writable memory.
inline rwapi_element element(rwapi_net net, std::uint64_t offset, Bytes local) {
    return {net, offset, local.data(), local.size()};
}

inline rwapi_net net_add(rwapi_net net, std::size_t bytes) {
    return ::rwapi_net_add(net, bytes);
}
inline int net_node(rwapi_net net) {
    return ::rwapi_net_node(net);
}
inline std::uint64_t signal_read(const std::uint64_t& word) {
    return ::rwapi_signal_read(&word);
}

// Parameters, all of which have their defaults at first.
struct Params : rwapi_params {
    Params() : rwapi_params() { size = sizeof(rwapi_params); }
};

// A registration of Context::register_memory(). The address, by which it is given back, is that of
// one context only.
class Registration {
  public:
    Registration() = default;
    Registration(Registration&& other) noexcept
        : context_(other.context_), net_(other.net_), owned_(std::exchange(other.owned_, false)) {}
    Registration& operator=(Registration&& other) noexcept {
        Registration old(std::move(*this));
        context_ = other.context_;
        net_ = other.net_;
        owned_ = std::exchange(other.owned_, false);
        return *this;
    }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;
    ~Registration() {
        if (owned_) ::rwapi_deregister(context_, net_);
    }

    rwapi_net net() const { return net_; }
    // After an error (RWAPI_ERR_BUSY), the object has it still.
    void close() {
        if (!owned_) return;
        check(::rwapi_deregister(context_, net_));
        owned_ = false;
    }
    explicit operator bool() const { return owned_; }

  protected:
    friend class Context;
    Registration(rwapi_context* context, rwapi_net net)
        : context_(context), net_(net), owned_(true) {}

  private:
    rwapi_context* context_ = nullptr;
    rwapi_net net_ = {};
    bool owned_ = false;
};

// Memory of Context::alloc().
class Memory : public Registration {
  public:
    Memory() = default;

    WritableBytes bytes() const { return bytes_; }
    template <class T>
    std::span<T> as() const {
        static_assert(std::is_trivially_copyable_v<T>);
        return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
    }

  private:
    friend class Context;
    Memory(rwapi_context* context, rwapi_net net, WritableBytes bytes)
        : Registration(context, net), bytes_(bytes) {}

    WritableBytes bytes_;
};

// The operations of a context on memory of peers.
class Operations {
  public:
    void put(rwapi_net net, std::uint64_t offset, Bytes local, rwapi_id* id = nullptr) {
        check(::rwapi_put(handle_, net, offset, local.data(), local.size(), id));
    }
    void get(rwapi_net net, std::uint64_t offset, WritableBytes local, rwapi_id* id = nullptr) {
        check(::rwapi_get(handle_, net, offset, local.data(), local.size(), id));
    }
    void put_list(std::span<const rwapi_element> elements, rwapi_id* id = nullptr) {
        check(::rwapi_put_list(handle_, elements.data(), elements.size(), id));
    }
    // The elements' memory is written.
    void get_list(std::span<const rwapi_element> elements, rwapi_id* id = nullptr) {
        check(::rwapi_get_list(handle_, elements.data(), elements.size(), id));
    }
    // The blocks begin at local.
    void put_strided(rwapi_net net, std::uint64_t offset, const void* local,
                     const rwapi_blocks& blocks, rwapi_id* id = nullptr) {
        check(::rwapi_put_strided(handle_, net, offset, local, &blocks, id));
    }
    void get_strided(rwapi_net net, std::uint64_t offset, void* local, const rwapi_blocks& blocks,
                     rwapi_id* id = nullptr) {
        check(::rwapi_get_strided(handle_, net, offset, local, &blocks, id));
    }
    void fetch_add(rwapi_net net, std::uint64_t offset, std::uint64_t value, std::uint64_t* result,
                   rwapi_id* id = nullptr) {
        check(::rwapi_fetch_add(handle_, net, offset, value, result, id));
    }
    void compare_swap(rwapi_net net, std::uint64_t offset, std::uint64_t compare,
                      std::uint64_t value, std::uint64_t* result, rwapi_id* id = nullptr) {
        check(::rwapi_compare_swap(handle_, net, offset, compare, value, result, id));
    }
    void put_signal(rwapi_net net, std::uint64_t offset, Bytes local, std::uint64_t signal_offset,
                    std::uint64_t value, int operation, rwapi_id* id = nullptr) {
        check(::rwapi_put_signal(handle_, net, offset, local.data(), local.size(), signal_offset,
                                 value, operation, id));
    }
    void put_notify(rwapi_net net, std::uint64_t offset, Bytes local, std::uint32_t slot,
                    std::uint64_t value, rwapi_id* id = nullptr) {
        check(
            ::rwapi_put_notify(handle_, net, offset, local.data(), local.size(), slot, value, id));
    }

  protected:
    Operations() = default;
    rwapi_context* handle_ = nullptr;
};

class Context : public Operations {
  public:
    struct Message {
        int node;
        rwapi_small small;
    };

    // As rwapi_context_create: collective.
    explicit Context(const rwapi_params& params = Params()) {
        check(::rwapi_context_create(&params, &handle_));
        open_ = true;
    }
    // The context of the process, as rwapi_init_params. Its handle is null.
    static Context init(const rwapi_params& params = Params()) {
        check(::rwapi_init_params(&params));
        return Context(nullptr);
    }
    Context(Context&& other) noexcept
        : Operations(other), open_(std::exchange(other.open_, false)) {}
    Context& operator=(Context&& other) noexcept {
        Context old(std::move(*this));
        handle_ = other.handle_;
        open_ = std::exchange(other.open_, false);
        return *this;
    }
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    // Collective, as close().
    ~Context() {
        if (!open_) return;
        if (std::uncaught_exceptions() > exceptions_ && ::rwapi_context_size(handle_) > 1) {
            std::fprintf(stderr,
                         "rwapi: node %d: an exception has left the scope of a context, which ends "
                         "this process: the others would wait for it\n",
                         ::rwapi_context_rank(handle_));
            std::fflush(nullptr);
            std::_Exit(EXIT_FAILURE);
        }
        end();
    }
    void close() {
        if (std::exchange(open_, false)) check(end());
    }

    rwapi_context* handle() const { return handle_; }
    int size() const { return check(::rwapi_context_size(handle_)); }
    int rank() const { return check(::rwapi_context_rank(handle_)); }

    Memory alloc(std::size_t size) {
        rwapi_net net;
        void* const memory = ::rwapi_context_alloc(handle_, size, &net);
        if (memory == nullptr) throw Error(RWAPI_ERR_MEMORY);
        return Memory(handle_, net, {static_cast<std::byte*>(memory), size});
    }
    Registration register_memory(WritableBytes memory, int rights = RWAPI_ALL) {
        rwapi_net net;
        check(::rwapi_register(handle_, memory.data(), memory.size(), rights, &net));
        return Registration(handle_, net);
    }
    std::vector<rwapi_net> share(rwapi_net local = {}) {
        std::vector<rwapi_net> peers(static_cast<std::size_t>(size()));
        check(::rwapi_share(handle_, local, peers.data()));
        return peers;
    }
    void barrier() { check(::rwapi_barrier(handle_)); }

    void send(int node, const rwapi_small& small) {
        check(::rwapi_context_send(handle_, node, &small));
    }
    std::optional<Message> receive() {
        Message message;
        const int received = ::rwapi_context_receive(handle_, &message.node, &message.small);
        if (check(received) == 0) return std::nullopt;
        return message;
    }

    void signal_wait(const std::uint64_t& word, std::uint64_t value, Time limit = kForever) {
        check(::rwapi_signal_wait(handle_, &word, value, limit.count()));
    }
    // The latest value, if the slot is set.
    std::optional<std::uint64_t> notify_test(std::uint32_t slot) {
        std::uint64_t value;
        int set;
        check(::rwapi_notify_test(handle_, slot, &set, &value));
        return set != 0 ? std::optional(value) : std::nullopt;
    }
    std::uint64_t notify_wait(std::uint32_t slot, Time limit = kForever) {
        std::uint64_t value;
        check(::rwapi_notify_wait(handle_, slot, &value, limit.count()));
        return value;
    }
    std::uint32_t notify_waitsome(std::uint32_t first, std::uint32_t n, Time limit = kForever) {
        std::uint32_t slot;
        check(::rwapi_notify_waitsome(handle_, first, n, &slot, limit.count()));
        return slot;
    }
    int notify_reset(std::uint32_t slot, std::uint64_t* value = nullptr) {
        return check(::rwapi_notify_reset(handle_, slot, value));
    }
    bool test(rwapi_id id) {
        int complete;
        check(::rwapi_test(handle_, id, &complete));
        return complete != 0;
    }
    void wait(rwapi_id id, Time limit = kForever) {
        check(::rwapi_wait(handle_, id, limit.count()));
    }
    // index is set also if the operation has failed, before the exception.
    void wait_any(std::span<const rwapi_id> ids, std::size_t& index, Time limit = kForever) {
        check(::rwapi_wait_any(handle_, ids.data(), ids.size(), &index, limit.count()));
    }
    void wait_all(std::span<const rwapi_id> ids, Time limit = kForever) {
        check(::rwapi_wait_all(handle_, ids.data(), ids.size(), limit.count()));
    }
    void flush(int node, rwapi_id* id) { check(::rwapi_flush(handle_, node, id)); }
    void flush_all(rwapi_id* id) { check(::rwapi_flush_all(handle_, id)); }
    void fence(int node) { check(::rwapi_fence(handle_, node)); }

    int progress() { return check(::rwapi_progress(handle_)); }
    int event_fd() {
        int fd;
        check(::rwapi_event_fd(handle_, &fd));
        return fd;
    }
    // false: events are waiting already.
    [[nodiscard]] bool arm() {
        const int armed = ::rwapi_arm(handle_);
        return armed != RWAPI_ERR_BUSY && check(armed) == 0;
    }
    // 0: the node works as far as is known; 1: it leaves; RWAPI_ERR_PEER: it is dead.
    int peer_status(int node) {
        const int status = ::rwapi_peer_status(handle_, node);
        return status == RWAPI_ERR_PEER ? status : check(status);
    }

  private:
    explicit Context(std::nullptr_t) : open_(true) {}
    int end() { return handle_ == nullptr ? ::rwapi_finalize() : ::rwapi_context_destroy(handle_); }

    bool open_ = false;
    int exceptions_ = std::uncaught_exceptions();  // that were under way before
};

}  // namespace rwapi

#endif
