// SPDX-License-Identifier: BSD-3-Clause
#include "verbs_faults.h"

#include <dlfcn.h>

#include <array>
#include <cerrno>
#include <climits>
#include <map>
#include <mutex>

namespace tern::test {
namespace verbs_faults {

struct Fault {
    std::atomic<unsigned> calls = 0;
    std::atomic<unsigned> first = 0;  // 0: no call fails
    std::atomic<unsigned> times = 0;
    std::atomic<int> error = 0;
};

std::array<Fault, kVerbs> faults;
std::function<int(const ibv_ah_attr&)> before_handle;
std::atomic<ibv_qp*> datagram_qp = nullptr;
std::atomic<uint32_t> max_inline = UINT32_MAX;
std::atomic<bool> resizes = true;
std::atomic<int> list_error = 0;  // of queue pairs with a list of operations; 0: they are made
std::atomic<bool> last_receives = true;
std::atomic<int> queue_pairs = 0;

// Reliable queue pairs by their completion queue, and how many there may be.
std::mutex reliable_mutex;
std::map<const ibv_cq*, unsigned> reliable;
unsigned most_reliable = UINT_MAX;
unsigned refused_reliable = 0;

bool add_reliable(const ibv_cq* cq) {
    const std::lock_guard lock(reliable_mutex);
    if (reliable[cq] < most_reliable) return ++reliable[cq] != 0;
    ++refused_reliable;
    return false;
}
void remove_reliable(const ibv_cq* cq) {
    const std::lock_guard lock(reliable_mutex);
    if (--reliable[cq] == 0) reliable.erase(cq);
}

// Counts a call. Returns the error with which it must fail, or 0.
int take(Verb verb) {
    Fault& fault = faults[static_cast<size_t>(verb)];
    const unsigned call = ++fault.calls;
    const unsigned first = fault.first;
    const bool fails = first != 0 && call >= first && call - first < fault.times;
    return fails ? fault.error.load() : 0;
}

// Registrations, while they are listed.
std::mutex registered_mutex;
bool lists_registrations = false;
std::vector<RegistrationList::Entry> registered;

// A registration. `add` makes it.
template <class Add>
ibv_mr* register_memory(const void* address, size_t length, unsigned access, Add&& add) {
    if (const int error = take(Verb::kRegMr); error != 0) {
        errno = error;
        return nullptr;
    }
    ibv_mr* const region = add();
    const std::lock_guard lock(registered_mutex);
    if (region != nullptr && lists_registrations) registered.push_back({address, length, access});
    return region;
}

int (*library_post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr**) = nullptr;
int (*library_post_recv)(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**) = nullptr;
int (*library_post_srq_recv)(ibv_srq*, ibv_recv_wr*, ibv_recv_wr**) = nullptr;

int post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) {
    const int error = take(Verb::kPostSend);
    if (error == 0) return library_post_send(qp, requests, bad);
    *bad = requests;
    return error;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr** bad) {
    const int error = take(Verb::kPostRecv);
    if (error == 0) return library_post_recv(qp, requests, bad);
    *bad = requests;
    return error;
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* requests, ibv_recv_wr** bad) {
    const int error = take(Verb::kPostSrqRecv);
    if (error == 0) return library_post_srq_recv(srq, requests, bad);
    *bad = requests;
    return error;
}

std::atomic<const void*> completion_queue = nullptr;

struct RaisedEvent {
    ibv_cq cq{};
    ibv_srq srq{};
    ibv_qp qp{};
    ibv_async_event event{};
    std::atomic<bool> waits = false;
} raised;

template <class Function>
Function* library(const char* name, Function*) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Makes a queue pair by `real`, unless it must fail.
template <class Real>
ibv_qp* create_qp(ibv_qp_type type, const ibv_cq* cq, ibv_qp_cap& cap, Real&& real) {
    const auto refuse = [](int error) {
        errno = error;
        return nullptr;
    };
    if (const int error = take(Verb::kCreateQp); error != 0) return refuse(error);
    const uint32_t asked = cap.max_inline_data;
    if (asked > max_inline) return refuse(EINVAL);
    const bool limited = type == IBV_QPT_RC;
    if (limited && !add_reliable(cq)) return refuse(ENOMEM);
    ibv_qp* const qp = real();
    if (limited && qp == nullptr) remove_reliable(cq);
    // Some devices return what was asked for, not what fits.
    if (qp != nullptr && max_inline != UINT32_MAX) cap.max_inline_data = asked;
    if (qp != nullptr && type == IBV_QPT_UD) datagram_qp = qp;
    if (qp != nullptr) ++queue_pairs;
    return qp;
}

ibv_qp* (*library_create_qp_ex)(ibv_context*, ibv_qp_init_attr_ex*) = nullptr;

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes) {
    if ((attributes->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) == 0)
        return library_create_qp_ex(context, attributes);
    if (list_error != 0) {
        errno = list_error;
        return nullptr;
    }
    return create_qp(attributes->qp_type, attributes->send_cq, attributes->cap,
                     [&] { return library_create_qp_ex(context, attributes); });
}

}  // namespace verbs_faults

std::string verb_name(const testing::TestParamInfo<Verb>& verb) {
    constexpr const char* kNames[kVerbs] = {"CreateQp", "CreateCq", "CreateSrq",
                                            "CreateAh", "ModifyQp", "RegMr",
                                            "PostSend", "PostRecv", "PostSrqRecv"};
    return kNames[static_cast<size_t>(verb.param)];
}

VerbsFault::VerbsFault(Verb verb, unsigned nth, int error, unsigned times) : verb_(verb) {
    verbs_faults::Fault& fault = verbs_faults::faults[static_cast<size_t>(verb)];
    fault.calls = 0;
    fault.times = times;
    fault.error = error;
    fault.first = nth;
}

VerbsFault::~VerbsFault() {
    verbs_faults::faults[static_cast<size_t>(verb_)].first = 0;
}

unsigned VerbsFault::calls() const {
    return verbs_faults::faults[static_cast<size_t>(verb_)].calls;
}

AddressHandleHook::AddressHandleHook(std::function<int(const ibv_ah_attr&)> before) {
    verbs_faults::before_handle = std::move(before);
}

AddressHandleHook::~AddressHandleHook() {
    verbs_faults::before_handle = nullptr;
}

PoorDevice::PoorDevice(uint32_t max_inline, bool resizes) {
    verbs_faults::max_inline = max_inline;
    verbs_faults::resizes = resizes;
}

PoorDevice::~PoorDevice() {
    verbs_faults::max_inline = UINT32_MAX;
    verbs_faults::resizes = true;
}

NoOperationLists::NoOperationLists(int error) {
    verbs_faults::list_error = error;
}

NoOperationLists::~NoOperationLists() {
    verbs_faults::list_error = 0;
}

QueuePairLimit::QueuePairLimit(unsigned most) {
    const std::lock_guard lock(verbs_faults::reliable_mutex);
    verbs_faults::most_reliable = most;
    verbs_faults::refused_reliable = 0;
}

QueuePairLimit::~QueuePairLimit() {
    const std::lock_guard lock(verbs_faults::reliable_mutex);
    verbs_faults::most_reliable = UINT_MAX;
}

unsigned QueuePairLimit::refused() const {
    const std::lock_guard lock(verbs_faults::reliable_mutex);
    return verbs_faults::refused_reliable;
}

RegistrationList::RegistrationList() {
    const std::lock_guard lock(verbs_faults::registered_mutex);
    verbs_faults::lists_registrations = true;
}

RegistrationList::~RegistrationList() {
    const std::lock_guard lock(verbs_faults::registered_mutex);
    verbs_faults::lists_registrations = false;
    verbs_faults::registered.clear();
}

std::vector<RegistrationList::Entry> RegistrationList::entries() {
    const std::lock_guard lock(verbs_faults::registered_mutex);
    return verbs_faults::registered;
}

NoLastReceive::NoLastReceive() {
    verbs_faults::last_receives = false;
}

NoLastReceive::~NoLastReceive() {
    verbs_faults::last_receives = true;
}

int queue_pairs() {
    return verbs_faults::queue_pairs;
}

void watch_posts(ibv_context* context) {
    if (verbs_faults::library_post_send != nullptr) return;
    verbs_faults::library_post_send = context->ops.post_send;
    context->ops.post_send = verbs_faults::post_send;
    verbs_faults::library_post_recv = context->ops.post_recv;
    context->ops.post_recv = verbs_faults::post_recv;
    verbs_faults::library_post_srq_recv = context->ops.post_srq_recv;
    context->ops.post_srq_recv = verbs_faults::post_srq_recv;
}

void raise_event(ibv_event_type type, const void* identity, uint32_t qp_num) {
    verbs_faults::RaisedEvent& raised = verbs_faults::raised;
    raised.cq.cq_context = raised.srq.srq_context = raised.qp.qp_context =
        const_cast<void*>(identity);
    raised.qp.qp_num = qp_num;
    raised.event.event_type = type;
    if (type == IBV_EVENT_CQ_ERR)
        raised.event.element.cq = &raised.cq;
    else if (type == IBV_EVENT_SRQ_ERR)
        raised.event.element.srq = &raised.srq;
    else
        raised.event.element.qp = &raised.qp;
    raised.waits = true;
}

bool event_waits() {
    return verbs_faults::raised.waits;
}

const void* last_completion_queue() {
    return verbs_faults::completion_queue;
}

ibv_qp* last_datagram_qp() {
    return verbs_faults::datagram_qp;
}

}  // namespace tern::test

#undef ibv_reg_mr

using tern::test::Verb;
namespace verbs_faults = tern::test::verbs_faults;

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
    static const auto real = verbs_faults::library("ibv_create_qp", &ibv_create_qp);
    return verbs_faults::create_qp(attributes->qp_type, attributes->send_cq, attributes->cap,
                                   [&] { return real(pd, attributes); });
}

// ibv_create_qp_ex() is not a function of the library.
ibv_context* ibv_open_device(ibv_device* opened) {
    static const auto real = verbs_faults::library("ibv_open_device", &ibv_open_device);
    ibv_context* const context = real(opened);
    verbs_context* const extended = context != nullptr ? verbs_get_ctx(context) : nullptr;
    if (extended != nullptr && extended->create_qp_ex != verbs_faults::create_qp_ex) {
        verbs_faults::library_create_qp_ex = extended->create_qp_ex;
        extended->create_qp_ex = verbs_faults::create_qp_ex;
    }
    return context;
}

int ibv_destroy_qp(ibv_qp* qp) {
    static const auto real = verbs_faults::library("ibv_destroy_qp", &ibv_destroy_qp);
    const bool counted = qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_UD;
    const ibv_cq* const reliable = qp->qp_type == IBV_QPT_RC ? qp->send_cq : nullptr;
    const int error = real(qp);
    if (error == 0 && counted) --verbs_faults::queue_pairs;
    if (error == 0 && reliable != nullptr) verbs_faults::remove_reliable(reliable);
    return error;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context,
                      ibv_comp_channel* channel, int vector) {
    static const auto real = verbs_faults::library("ibv_create_cq", &ibv_create_cq);
    if (const int error = verbs_faults::take(Verb::kCreateCq); error != 0) {
        errno = error;
        return nullptr;
    }
    ibv_cq* const cq = real(context, entries, cq_context, channel, vector);
    if (cq != nullptr) verbs_faults::completion_queue = cq_context;
    return cq;
}

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
    static const auto real = verbs_faults::library("ibv_create_srq", &ibv_create_srq);
    if (const int error = verbs_faults::take(Verb::kCreateSrq); error != 0) {
        errno = error;
        return nullptr;
    }
    return real(pd, attributes);
}

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
    static const auto real = verbs_faults::library("ibv_create_ah", &ibv_create_ah);
    int error = verbs_faults::take(Verb::kCreateAh);
    if (error == 0 && verbs_faults::before_handle) error = verbs_faults::before_handle(*attributes);
    if (error != 0) {
        errno = error;
        return nullptr;
    }
    return real(pd, attributes);
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
    static const auto real = verbs_faults::library("ibv_modify_qp", &ibv_modify_qp);
    const int error = verbs_faults::take(Verb::kModifyQp);
    return error != 0 ? error : real(qp, attributes, mask);
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
    static const auto real = verbs_faults::library("ibv_get_async_event", &ibv_get_async_event);
    if (verbs_faults::raised.waits.exchange(false)) {
        *event = verbs_faults::raised.event;
        return 0;
    }
    for (;;) {
        const int result = real(context, event);
        if (result != 0 || event->event_type != IBV_EVENT_QP_LAST_WQE_REACHED ||
            verbs_faults::last_receives)
            return result;
        ibv_ack_async_event(event);
    }
}

void ibv_ack_async_event(ibv_async_event* event) {
    static const auto real = verbs_faults::library("ibv_ack_async_event", &ibv_ack_async_event);
    if (event->element.cq == &verbs_faults::raised.cq ||
        event->element.srq == &verbs_faults::raised.srq ||
        event->element.qp == &verbs_faults::raised.qp)
        return;
    real(event);
}

int ibv_resize_cq(ibv_cq* cq, int entries) {
    static const auto real = verbs_faults::library("ibv_resize_cq", &ibv_resize_cq);
    return verbs_faults::resizes ? real(cq, entries) : EOPNOTSUPP;
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
    static const auto real = verbs_faults::library("ibv_reg_mr", &ibv_reg_mr);
    return verbs_faults::register_memory(address, length, static_cast<unsigned>(access),
                                         [&] { return real(pd, address, length, access); });
}

// What ibv_reg_mr() becomes if the access flags are no constant.
ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                         unsigned int access) {
    static const auto real = verbs_faults::library("ibv_reg_mr_iova2", &ibv_reg_mr_iova2);
    return verbs_faults::register_memory(address, length, access,
                                         [&] { return real(pd, address, length, iova, access); });
}

}  // extern "C"
