// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/transport/transport.h"

#include <dlfcn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "rwapi/base/log.h"
#include "rwapi/base/settings.h"
#include "rwapi/core/messages.h"
#include "rwapi/include/rwapi.h"

namespace rwapi {
namespace {

constexpr uint64_t kNeeded = UCT_IFACE_FLAG_AM_SHORT | UCT_IFACE_FLAG_AM_BCOPY |
                             UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_PUT_BCOPY |
                             UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_GET_BCOPY |
                             UCT_IFACE_FLAG_GET_ZCOPY | UCT_IFACE_FLAG_PENDING;
constexpr uint64_t kConnects = UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_CONNECT_TO_EP;
constexpr unsigned kEvents = UCT_EVENT_SEND_COMP | UCT_EVENT_RECV;

// What to do if no resource can be used.
const char* remedy(const std::vector<Resource>& all) {
    const bool tern_has_device = std::any_of(
        all.begin(), all.end(), [](const Resource& each) { return each.transport == "tern"; });
    if (!tern_has_device && has_component("tern"))
        return "Tern is loaded and uses no device of this node; tern-run --check says why";
    return "start the program by tern-run, or choose one that ucx_info -d lists";
}

bool set_handlers(uct_iface_h iface, const TransportEvents& events) {
    for (size_t id = 0; id < std::size(events.on_message); ++id) {
        const auto& [function, argument] = events.on_message[id];
        if (function != nullptr && uct_iface_set_am_handler(iface, static_cast<uint8_t>(id),
                                                            function, argument, 0) != UCS_OK)
            return false;
    }
    uct_iface_progress_enable(iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    return true;
}

// A function of uct/put_am.h. UCX loads transports with RTLD_LOCAL, so it is looked up in the
// library that has the interface's functions. False: there is none.
template <class Function>
bool find_of_tern(Function& function, uct_iface_h iface, const char* name) {
    Dl_info library;
    if (dladdr(reinterpret_cast<void*>(iface->ops.ep_put_short), &library) == 0) return false;
    void* const handle = dlopen(library.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr) return false;
    function = reinterpret_cast<Function>(dlsym(handle, name));
    dlclose(handle);
    return function != nullptr;
}

}  // namespace

Transport::~Transport() {
    // Until the wireup interface is closed, UCX's thread may use wake_fd_.
    wireup_.reset();
    if (event_fd_ >= 0) ::close(event_fd_);
    if (wake_fd_ >= 0) ::close(wake_fd_);
}

int Transport::open(const TransportEvents& events, int threads) {
    if (!read_setting("RWAPI_MAX_TRANSFER", 1, UINT64_MAX, max_transfer_)) return RWAPI_ERR_INVALID;
    if (const std::string reason = worker_progress_.misfit("librwapi"); !reason.empty()) {
        log_error("%s", reason.c_str());
        return RWAPI_ERR_TRANSPORT;
    }
    wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd_ < 0) return RWAPI_ERR_MEMORY;
    ucs_async_context_t* async = nullptr;
    if (ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &async) != UCS_OK)
        return RWAPI_ERR_MEMORY;
    async_.reset(async);
    uct_worker_h worker = nullptr;
    // With RWAPI_THREAD_MULTIPLE, a lock around each call serialises the threads.
    if (uct_worker_create(
            async,
            threads == RWAPI_THREAD_MULTIPLE ? UCS_THREAD_MODE_SERIALIZED : UCS_THREAD_MODE_SINGLE,
            &worker) != UCS_OK)
        return RWAPI_ERR_MEMORY;
    worker_.reset(worker);
    const char* transports = std::getenv("RWAPI_TLS");
    const char* device = std::getenv("RWAPI_DEVICE");
    const std::vector<Resource> all = list_resources();
    for (const Resource& resource : choose_resources(all, transports, device)) {
        if (!open_resource(resource, events)) continue;
        if (connects_endpoints_ && !open_wireup(all, resource, events)) continue;
        transport_ = resource.transport;
        return RWAPI_OK;
    }
    log_error("no transport has put, get and active messages (RWAPI_TLS=%s, RWAPI_DEVICE=%s): %s",
              transports ? transports : RWAPI_BEST_TRANSPORTS ",any", device ? device : "any",
              remedy(all));
    return RWAPI_ERR_TRANSPORT;
}

Interface Transport::open_interface(uct_md_h md, const Resource& resource,
                                    const TransportEvents& events, bool is_wireup) const {
    uct_iface_config_t* settings = nullptr;
    if (uct_md_iface_config_read(md, resource.transport.c_str(), nullptr, nullptr, &settings) !=
        UCS_OK)
        return nullptr;
    const Owner<uct_iface_config_t, uct_config_release> owner(settings);
    uct_iface_params_t parameters{};
    parameters.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE |
                            UCT_IFACE_PARAM_FIELD_RX_HEADROOM | UCT_IFACE_PARAM_FIELD_ERR_HANDLER |
                            UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG |
                            UCT_IFACE_PARAM_FIELD_ERR_HANDLER_FLAGS |
                            UCT_IFACE_PARAM_FIELD_FEATURES;
    parameters.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
    parameters.mode.device.tl_name = resource.transport.c_str();
    parameters.mode.device.dev_name = resource.device.c_str();
    parameters.err_handler = events.on_error;
    parameters.err_handler_arg = events.on_error_argument;
    parameters.features = UCT_IFACE_FEATURE_AM | UCT_IFACE_FEATURE_PUT | UCT_IFACE_FEATURE_GET;
    if (is_wireup) {
        parameters.field_mask |=
            UCT_IFACE_PARAM_FIELD_ASYNC_EVENT_ARG | UCT_IFACE_PARAM_FIELD_ASYNC_EVENT_CB;
        parameters.async_event_arg = const_cast<Transport*>(this);
        parameters.async_event_cb = on_wireup_event;
    }
    uct_iface_h iface = nullptr;
    if (uct_iface_open(md, worker_.get(), &parameters, settings, &iface) != UCS_OK) return nullptr;
    return Interface(iface);
}

// Whether the transport has the atomic operations of rwapi.
bool atomics_of(const uct_iface_attr_t& attributes) {
    constexpr uint64_t kOperations = UCS_BIT(UCT_ATOMIC_OP_ADD) | UCS_BIT(UCT_ATOMIC_OP_CSWAP);
    return (attributes.cap.flags & (UCT_IFACE_FLAG_ATOMIC_DEVICE | UCT_IFACE_FLAG_ATOMIC_CPU)) &&
           (attributes.cap.atomic64.fop_flags & kOperations) == kOperations;
}

bool Transport::open_resource(const Resource& resource, const TransportEvents& events) {
    wireup_.reset();
    wireup_domain_.reset();
    interface_.reset();
    domain_ = SharedDomain::open(resource);
    if (!domain_) return false;
    log_debug("memory domain %s: %s", resource.domain.c_str(),
              domain_.use_count() > 1 ? "is shared" : "is opened");
    uct_md_attr_t memory;
    if (uct_md_query(domain(), &memory) != UCS_OK || !(memory.cap.flags & UCT_MD_FLAG_REG) ||
        !(memory.cap.flags & UCT_MD_FLAG_NEED_RKEY) || memory.rkey_packed_size > Key::kMaxRkey)
        return false;
    interface_ = open_interface(domain(), resource, events, false);
    uct_iface_attr_t attributes;
    if (!interface_ || uct_iface_query(interface_.get(), &attributes) != UCS_OK) return false;
    const auto& cap = attributes.cap;
    if ((cap.flags & kNeeded) != kNeeded || !(cap.flags & kConnects) ||
        cap.am.max_short < sizeof(Header) + sizeof(Notification) ||
        cap.am.max_bcopy <
            sizeof(Header) + sizeof(GatheredPart) + sizeof(rwapi_net) + Key::kMaxBytes)
        return false;
    component_ = resource.component;
    rkey_length_ = memory.rkey_packed_size;
    endpoint_length_ = attributes.ep_addr_len;
    connects_endpoints_ = !(cap.flags & UCT_IFACE_FLAG_CONNECT_TO_IFACE);
    can_check_ = cap.flags & UCT_IFACE_FLAG_EP_CHECK;
    put_functions_ = {};
    if (PutFunctions found;
        find_of_tern(found.put_am, interface_.get(), "tern_uct_ep_put_am_short") &&
        find_of_tern(found.put_am_copy, interface_.get(), "tern_uct_ep_put_am_bcopy") &&
        find_of_tern(found.put_am_in_place, interface_.get(), "tern_uct_ep_put_am_zcopy") &&
        find_of_tern(found.put_word, interface_.get(), "tern_uct_ep_put_word_short") &&
        find_of_tern(found.put_word_copy, interface_.get(), "tern_uct_ep_put_word_bcopy") &&
        find_of_tern(found.put_word_in_place, interface_.get(), "tern_uct_ep_put_word_zcopy"))
        put_functions_ = found;
    limits_ = {.put_short = cap.put.max_short,
               .put_bcopy = cap.put.max_bcopy,
               .put_zcopy = std::min(cap.put.max_zcopy, max_transfer_),
               .get_bcopy = cap.get.max_bcopy,
               .get_zcopy_min = cap.get.min_zcopy,
               .get_zcopy = std::min(cap.get.max_zcopy, std::max(cap.get.min_zcopy, max_transfer_)),
               .am_bcopy = cap.am.max_bcopy,
               .atomics = atomics_of(attributes)};
    return set_handlers(interface_.get(), events);
}

bool Transport::open_wireup(const std::vector<Resource>& all, const Resource& resource,
                            const TransportEvents& events) {
    for (const Resource& other : all) {
        if (other.transport != "ud_verbs" || other.device != resource.device) continue;
        TransportEvents wireup_events{};
        wireup_events.on_error = events.on_error;
        wireup_events.on_error_argument = events.on_error_argument;
        wireup_events.on_message[kWireupMessage] = events.on_wireup;
        wireup_domain_ = SharedDomain::open(other);
        if (!wireup_domain_) continue;
        wireup_ = open_interface(wireup_domain_->get(), other, wireup_events, true);
        uct_iface_attr_t attributes;
        if (wireup_ && uct_iface_query(wireup_.get(), &attributes) == UCS_OK &&
            attributes.cap.am.max_short >= 2 * sizeof(uint64_t) + endpoint_length_) {
            can_check_wireup_ = attributes.cap.flags & UCT_IFACE_FLAG_EP_CHECK;
            return set_handlers(wireup_.get(), wireup_events);
        }
    }
    return false;
}

InterfaceAddress Transport::address_of(uct_iface_h iface) const {
    InterfaceAddress address;
    uct_iface_attr_t attributes;
    if (iface == nullptr || uct_iface_query(iface, &attributes) != UCS_OK) return address;
    address.device.resize(attributes.device_addr_len);
    if (uct_iface_get_device_address(
            iface, reinterpret_cast<uct_device_addr_t*>(address.device.data())) != UCS_OK)
        address.device.clear();
    if (!(attributes.cap.flags & UCT_IFACE_FLAG_CONNECT_TO_IFACE)) return address;
    address.interface.resize(attributes.iface_addr_len);
    if (uct_iface_get_address(
            iface, reinterpret_cast<uct_iface_addr_t*>(address.interface.data())) != UCS_OK)
        address.interface.clear();
    return address;
}

Endpoint Transport::create(uct_iface_h iface, const InterfaceAddress* peer) const {
    uct_ep_params_t parameters{};
    parameters.field_mask = UCT_EP_PARAM_FIELD_IFACE;
    parameters.iface = iface;
    if (peer != nullptr) {
        parameters.field_mask |= UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
        parameters.dev_addr = reinterpret_cast<const uct_device_addr_t*>(peer->device.data());
        parameters.iface_addr = reinterpret_cast<const uct_iface_addr_t*>(peer->interface.data());
    }
    uct_ep_h endpoint = nullptr;
    if (uct_ep_create(&parameters, &endpoint) != UCS_OK) return nullptr;
    return Endpoint(endpoint);
}

std::vector<std::byte> Transport::address_of(const Endpoint& endpoint) const {
    std::vector<std::byte> address(endpoint_length_);
    if (uct_ep_get_address(endpoint.get(), reinterpret_cast<uct_ep_addr_t*>(address.data())) !=
        UCS_OK)
        address.clear();
    return address;
}

ucs_status_t Transport::connect_to(const Endpoint& endpoint, const InterfaceAddress& peer,
                                   std::span<const std::byte> endpoint_address) const {
    if (endpoint_address.size() != endpoint_length_) return UCS_ERR_INVALID_ADDR;
    return uct_ep_connect_to_ep(endpoint.get(),
                                reinterpret_cast<const uct_device_addr_t*>(peer.device.data()),
                                reinterpret_cast<const uct_ep_addr_t*>(endpoint_address.data()));
}

// UCX's thread calls it.
void Transport::on_wireup_event(void* transport, unsigned) {
    static_cast<Transport*>(transport)->wake();
}

void Transport::wake() const {
    const uint64_t one = 1;
    if (::write(wake_fd_, &one, sizeof one) < 0) {
        // The counter is full, so the descriptor is readable already.
    }
}

int Transport::event_fd() {
    if (event_fd_ >= 0) return event_fd_;
    int fd = -1;
    if (uct_iface_event_fd_get(interface_.get(), &fd) != UCS_OK) return -1;
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) return -1;
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0 ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, wake_fd_, &event) != 0) {
        ::close(epoll);
        return -1;
    }
    return event_fd_ = epoll;
}

ucs_status_t Transport::arm() {
    uint64_t count;
    if (::read(wake_fd_, &count, sizeof count) > 0) return UCS_ERR_BUSY;
    for (uct_iface_h iface : {interface_.get(), wireup_.get()}) {
        if (iface == nullptr) continue;
        const ucs_status_t status = uct_iface_event_arm(iface, kEvents);
        if (status != UCS_OK) return status;
    }
    return UCS_OK;
}

}  // namespace rwapi
