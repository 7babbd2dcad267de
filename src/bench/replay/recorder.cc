// SPDX-License-Identifier: BSD-3-Clause
// Preloaded into the ranks of an MPI job: writes the tagged messages of UCP, what the program waits
// for, which memory of messages it unmaps, and the processor time between, to $TERN_RECORD.RANK
// (trace.h). Without that variable it does nothing. For one thread of each process.
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>
#include <ucm/api/ucm.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <utility>

#include "bench/replay/given_back.h"
#include "bench/replay/trace.h"

namespace bench::replay {
namespace {

// Between two calls of ucp_worker_progress(), less than this is a program that only waits.
constexpr int64_t kWaiting = 2000;  // ns

template <typename Function>
Function* next(Function*, const char* name) {
    return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}
#define NEXT(name) static const auto real = next(&(name), #name)

int64_t processor_time() {
    timespec time;
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

const char* rank_name() {
    static const std::string pid = std::to_string(::getpid());
    for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"})
        if (const char* rank = std::getenv(variable)) return rank;
    return pid.c_str();
}

class Recorder {
  public:
    Recorder() {
        const char* prefix = std::getenv("TERN_RECORD");
        if (prefix == nullptr) return;
        // What a reading takes would otherwise be taken for the program's.
        reading_ = INT64_MAX;
        for (int i = 0; i < 1000; ++i) {
            const int64_t begin = processor_time();
            reading_ = std::min(reading_, processor_time() - begin);
        }
        const std::string name = std::string(prefix) + "." + rank_name();
        file_ = std::fopen(name.c_str(), "we");
        if (file_ == nullptr)
            std::fprintf(stderr, "tern-record: cannot write %s\n", name.c_str());
        else
            std::fprintf(file_, "%s\n", kTraceHeader);
    }
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    bool records() const { return file_ != nullptr && depth_ == 1; }

    void enter(bool progress) {
        if (file_ == nullptr || depth_++ != 0) return;
        if (left_ == 0) return;
        const int64_t gap = processor_time() - left_ - reading_;
        if (gap > 0 && (!progress || !left_progress_ || gap >= kWaiting)) computed_ += gap;
    }
    void leave(bool progress) {
        if (file_ == nullptr || --depth_ != 0) return;
        left_progress_ = progress;
        // What comes before the first message is not recorded.
        if (has_messages_) left_ = processor_time();
    }

    template <typename... Values>
    void write(const char* format, Values... values) {
        if (computed_ != 0) std::fprintf(file_, "c %" PRId64 "\n", std::exchange(computed_, 0));
        if (std::exchange(lost_, false))
            std::fputs("tern-record: too much memory is unmapped at a time to record it\n", stderr);
        given_back_.take([this](uint64_t address, uint64_t size) {
            std::fprintf(file_, "u %" PRIx64 " %" PRIu64 "\n", address, size);
        });
        std::fprintf(file_, format, values...);
    }
    // The event of a message with this buffer comes next.
    void uses(const void* buffer, size_t size) {
        given_back_.used(reinterpret_cast<uintptr_t>(buffer), size);
    }
    void unmapped(const void* memory, size_t size) {
        if (::pthread_equal(::pthread_self(), thread_) == 0) return;
        if (given_back_.unmapped(reinterpret_cast<uintptr_t>(memory), size)) return;
        lost_ = true;
    }
    void worker(const char* event, const void* address) {
        if (file_ == nullptr) return;
        using Identity = uint64_t(const void*);
        static auto* const identity =
            reinterpret_cast<Identity*>(::dlsym(RTLD_DEFAULT, "ucp_address_get_uuid"));
        if (identity == nullptr) {
            std::fputs("tern-record: this UCX does not tell workers apart\n", stderr);
            file_ = nullptr;
            return;
        }
        std::fprintf(file_, "%s %" PRIx64 "\n", event, identity(address));
    }
    void endpoint(ucp_ep_h made, const void* address) {
        if (file_ == nullptr) return;
        if (endpoints_.empty()) watch_memory();
        const std::string event = "e " + std::to_string(endpoints_.size());
        endpoints_[made] = endpoints_.size();
        worker(event.c_str(), address);
    }
    // One that the replay refuses, if the endpoint was not made by ucp_ep_create().
    size_t endpoint(ucp_ep_h made) const {
        const auto found = endpoints_.find(made);
        return found != endpoints_.end() ? found->second : endpoints_.size();
    }

    uint64_t begin() {
        has_messages_ = true;
        return ids_++;
    }
    // `request`: what the call has returned.
    void began(uint64_t id, void* request) {
        if (UCS_PTR_IS_PTR(request))
            requests_[request] = id;
        else
            std::fprintf(file_, "w %" PRIu64 "\n", id);
    }
    void learned(void* request) {
        const auto found = requests_.find(request);
        if (found == requests_.end()) return;
        // Within a call of UCP, it is a callback that gives the request back: nobody waits.
        if (depth_ == 1)
            write(choices_ == 0 ? "w %" PRIu64 "\n" : "t %" PRIu64 "\n", found->second);
        requests_.erase(found);
    }
    // A call of MPI that looks at requests begins (1) or ends (-1).
    void choose(int calls) { choices_ += calls; }
    void cancelled(void* request) {
        const auto found = requests_.find(request);
        if (found != requests_.end()) write("x %" PRIu64 "\n", found->second);
    }
    void flush() {
        if (file_ != nullptr) std::fflush(file_);
    }

  private:
    void watch_memory();

    std::FILE* file_ = nullptr;
    int64_t reading_ = 0;
    int64_t left_ = 0;  // when the last call returned; 0: none
    int64_t computed_ = 0;
    int depth_ = 0;    // calls of UCP that are under way
    int choices_ = 0;  // calls of MPI after which the program goes on, whatever has ended
    bool left_progress_ = false;
    bool has_messages_ = false;
    uint64_t ids_ = 0;
    std::unordered_map<ucp_ep_h, size_t> endpoints_;
    std::unordered_map<void*, uint64_t> requests_;  // not known to have ended
    const pthread_t thread_ = ::pthread_self();
    GivenBack given_back_;
    bool lost_ = false;
};

// Never destroyed: MPI may be finalized later.
Recorder& recorder() {
    static auto& made = *new Recorder;
    return made;
}

void Recorder::watch_memory() {
    static auto* const watch = reinterpret_cast<decltype(&ucm_set_event_handler)>(
        ::dlsym(RTLD_DEFAULT, "ucm_set_event_handler"));
    const auto unmaps = [](ucm_event_type_t, ucm_event_t* event, void* self) {
        const auto& [address, size] = event->vm_unmapped;
        static_cast<Recorder*>(self)->unmapped(address, size);
    };
    if (watch == nullptr || watch(UCM_EVENT_VM_UNMAPPED, 0, unmaps, this) != UCS_OK)
        std::fputs("tern-record: this UCX does not tell which memory is unmapped\n", stderr);
}

// A call of UCP.
class Call {
  public:
    explicit Call(bool progress = false) : progress_(progress) { recorder().enter(progress_); }
    ~Call() { recorder().leave(progress_); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

  private:
    bool progress_;
};

std::unordered_map<ucp_datatype_t, std::pair<ucp_generic_dt_ops_t, void*>>& generic_types() {
    static auto& made =
        *new std::unordered_map<ucp_datatype_t, std::pair<ucp_generic_dt_ops_t, void*>>;
    return made;
}

// The bytes of a message; generic types say how many they pack.
size_t bytes(const void* buffer, size_t count, ucp_datatype_t type) {
    if ((type & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_CONTIG)
        return count * (type >> UCP_DATATYPE_SHIFT);
    const auto found = generic_types().find(type);
    if (found == generic_types().end()) return 0;
    const auto& [calls, context] = found->second;
    void* const state = calls.start_pack(context, buffer, count);
    const size_t size = calls.packed_size(state);
    calls.finish(state);
    return size;
}
ucp_datatype_t type_of(const ucp_request_param_t* param) {
    return (param->op_attr_mask & UCP_OP_ATTR_FIELD_DATATYPE) != 0 ? param->datatype
                                                                   : ucp_dt_make_contig(1);
}

// A call that begins with a message, whose event is written: its identifier, and `values`.
template <typename Post, typename... Values>
void* begin(const void* buffer, size_t size, Post post, const char* format, Values... values) {
    const Call call;
    if (!recorder().records()) return post();
    const uint64_t id = recorder().begin();
    recorder().write(format, id, values...);
    recorder().uses(buffer, size);
    void* const request = post();
    recorder().began(id, request);
    return request;
}
template <typename Post>
void* send(ucp_ep_h endpoint, const void* buffer, size_t size, ucp_tag_t tag, int sync, Post post) {
    return begin(buffer, size, post, "s %" PRIu64 " %zu %" PRIx64 " %zu %" PRIxPTR " %d\n",
                 recorder().endpoint(endpoint), tag, size, reinterpret_cast<uintptr_t>(buffer),
                 sync);
}
template <typename Post>
void* receive(void* buffer, size_t size, ucp_tag_t tag, ucp_tag_t mask, Post post) {
    return begin(buffer, size, post, "r %" PRIu64 " %" PRIx64 " %" PRIx64 " %zu %" PRIxPTR "\n",
                 tag, mask, size, reinterpret_cast<uintptr_t>(buffer));
}
template <typename Post>
void* receive_message(void* buffer, size_t size, Post post) {
    return begin(buffer, size, post, "m %" PRIu64 " %zu %" PRIxPTR "\n", size,
                 reinterpret_cast<uintptr_t>(buffer));
}

}  // namespace
}  // namespace bench::replay

using namespace bench::replay;
#define RECORDED extern "C" __attribute__((visibility("default")))

RECORDED ucs_status_t ucp_worker_query(ucp_worker_h worker, ucp_worker_attr_t* attributes) {
    NEXT(ucp_worker_query);
    const ucs_status_t status = real(worker, attributes);
    if (status == UCS_OK && (attributes->field_mask & UCP_WORKER_ATTR_FIELD_ADDRESS) != 0)
        recorder().worker("a", attributes->address);
    return status;
}
RECORDED ucs_status_t ucp_worker_get_address(ucp_worker_h worker, ucp_address_t** address,
                                             size_t* size) {
    NEXT(ucp_worker_get_address);
    const ucs_status_t status = real(worker, address, size);
    if (status == UCS_OK) recorder().worker("a", *address);
    return status;
}
RECORDED ucs_status_t ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t* params,
                                    ucp_ep_h* made) {
    NEXT(ucp_ep_create);
    const ucs_status_t status = real(worker, params, made);
    if (status == UCS_OK && (params->field_mask & UCP_EP_PARAM_FIELD_REMOTE_ADDRESS) != 0)
        recorder().endpoint(*made, params->address);
    return status;
}
RECORDED ucs_status_t ucp_dt_create_generic(const ucp_generic_dt_ops_t* calls, void* context,
                                            ucp_datatype_t* made) {
    NEXT(ucp_dt_create_generic);
    const ucs_status_t status = real(calls, context, made);
    if (status == UCS_OK) generic_types()[*made] = {*calls, context};
    return status;
}

RECORDED unsigned ucp_worker_progress(ucp_worker_h worker) {
    NEXT(ucp_worker_progress);
    const Call call(true);
    return real(worker);
}

// A send must not end before its call returns, or it would not be known when the program waits for
// it.
RECORDED ucs_status_ptr_t ucp_tag_send_nbx(ucp_ep_h endpoint, const void* buffer, size_t count,
                                           ucp_tag_t tag, const ucp_request_param_t* param) {
    NEXT(ucp_tag_send_nbx);
    return send(endpoint, buffer, bytes(buffer, count, type_of(param)), tag, 0, [&] {
        ucp_request_param_t changed = *param;
        if (recorder().records()) changed.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        return real(endpoint, buffer, count, tag, &changed);
    });
}
RECORDED ucs_status_ptr_t ucp_tag_send_sync_nbx(ucp_ep_h endpoint, const void* buffer, size_t count,
                                                ucp_tag_t tag, const ucp_request_param_t* param) {
    NEXT(ucp_tag_send_sync_nbx);
    return send(endpoint, buffer, bytes(buffer, count, type_of(param)), tag, 1,
                [&] { return real(endpoint, buffer, count, tag, param); });
}
RECORDED ucs_status_ptr_t ucp_tag_send_nb(ucp_ep_h endpoint, const void* buffer, size_t count,
                                          ucp_datatype_t type, ucp_tag_t tag,
                                          ucp_send_callback_t callback) {
    NEXT(ucp_tag_send_nb);
    return send(endpoint, buffer, bytes(buffer, count, type), tag, 0,
                [&] { return real(endpoint, buffer, count, type, tag, callback); });
}
RECORDED ucs_status_ptr_t ucp_tag_send_sync_nb(ucp_ep_h endpoint, const void* buffer, size_t count,
                                               ucp_datatype_t type, ucp_tag_t tag,
                                               ucp_send_callback_t callback) {
    NEXT(ucp_tag_send_sync_nb);
    return send(endpoint, buffer, bytes(buffer, count, type), tag, 1,
                [&] { return real(endpoint, buffer, count, type, tag, callback); });
}
RECORDED ucs_status_ptr_t ucp_tag_recv_nbx(ucp_worker_h worker, void* buffer, size_t count,
                                           ucp_tag_t tag, ucp_tag_t mask,
                                           const ucp_request_param_t* param) {
    NEXT(ucp_tag_recv_nbx);
    return receive(buffer, bytes(buffer, count, type_of(param)), tag, mask,
                   [&] { return real(worker, buffer, count, tag, mask, param); });
}
RECORDED ucs_status_ptr_t ucp_tag_recv_nb(ucp_worker_h worker, void* buffer, size_t count,
                                          ucp_datatype_t type, ucp_tag_t tag, ucp_tag_t mask,
                                          ucp_tag_recv_callback_t callback) {
    NEXT(ucp_tag_recv_nb);
    return receive(buffer, bytes(buffer, count, type), tag, mask,
                   [&] { return real(worker, buffer, count, type, tag, mask, callback); });
}
RECORDED ucs_status_ptr_t ucp_tag_msg_recv_nb(ucp_worker_h worker, void* buffer, size_t count,
                                              ucp_datatype_t type, ucp_tag_message_h message,
                                              ucp_tag_recv_callback_t callback) {
    NEXT(ucp_tag_msg_recv_nb);
    return receive_message(buffer, bytes(buffer, count, type),
                           [&] { return real(worker, buffer, count, type, message, callback); });
}
RECORDED ucs_status_ptr_t ucp_tag_msg_recv_nbx(ucp_worker_h worker, void* buffer, size_t count,
                                               ucp_tag_message_h message,
                                               const ucp_request_param_t* param) {
    NEXT(ucp_tag_msg_recv_nbx);
    return receive_message(buffer, bytes(buffer, count, type_of(param)),
                           [&] { return real(worker, buffer, count, message, param); });
}

RECORDED ucp_tag_message_h ucp_tag_probe_nb(ucp_worker_h worker, ucp_tag_t tag, ucp_tag_t mask,
                                            int remove, ucp_tag_recv_info_t* info) {
    NEXT(ucp_tag_probe_nb);
    const Call call(true);  // a program that waits calls it again and again
    ucp_tag_message_h found = real(worker, tag, mask, remove, info);
    if (found != nullptr && recorder().records())
        recorder().write("p %" PRIx64 " %" PRIx64 " %d\n", tag, mask, remove);
    return found;
}
RECORDED ucs_status_t ucp_request_check_status(void* request) {
    NEXT(ucp_request_check_status);
    const Call call(true);
    const ucs_status_t status = real(request);
    if (status != UCS_INPROGRESS) recorder().learned(request);
    return status;
}
RECORDED ucs_status_t ucp_request_test(void* request, ucp_tag_recv_info_t* info) {
    NEXT(ucp_request_test);
    const Call call(true);
    const ucs_status_t status = real(request, info);
    if (status != UCS_INPROGRESS) recorder().learned(request);
    return status;
}
RECORDED void ucp_request_free(void* request) {
    NEXT(ucp_request_free);
    const Call call;
    recorder().learned(request);
    real(request);
}
RECORDED void ucp_request_cancel(ucp_worker_h worker, void* request) {
    NEXT(ucp_request_cancel);
    const Call call;
    if (recorder().records()) recorder().cancelled(request);
    real(worker, request);
}

// What the program does next depends on what has ended. Requests and statuses are pointers.
#define CHOOSES(name, parameters, arguments) \
    RECORDED int name parameters {           \
        NEXT(name);                          \
        recorder().choose(1);                \
        const int error = real arguments;    \
        recorder().choose(-1);               \
        return error;                        \
    }
// NOLINTBEGIN(readability-identifier-naming): MPI's names
CHOOSES(MPI_Test, (void* request, int* flag, void* status), (request, flag, status))
CHOOSES(MPI_Testall, (int count, void* all, int* flag, void* statuses),
        (count, all, flag, statuses))
CHOOSES(MPI_Testany, (int count, void* all, int* index, int* flag, void* status),
        (count, all, index, flag, status))
CHOOSES(MPI_Testsome, (int count, void* all, int* ended, int* indices, void* statuses),
        (count, all, ended, indices, statuses))
CHOOSES(MPI_Waitany, (int count, void* all, int* index, void* status), (count, all, index, status))
CHOOSES(MPI_Waitsome, (int count, void* all, int* ended, int* indices, void* statuses),
        (count, all, ended, indices, statuses))
// NOLINTEND(readability-identifier-naming)

RECORDED void ucp_worker_destroy(ucp_worker_h worker) {
    NEXT(ucp_worker_destroy);
    recorder().flush();
    real(worker);
}
