// SPDX-License-Identifier: BSD-3-Clause
#include "tern/connection/address_handles.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

#include "common/blocked_signals.h"
#include "tern/base/trace.h"
#include "tern/base/tunables.h"
#include "tern/verbs/queue_pair.h"

namespace tern {

void AddressHandles::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
        orders_.clear();
        again_.clear();
    }
    ordered_.notify_all();
    // The child of a fork has no threads to wait for.
    for (std::thread& thread : threads_)
        if (process_ == getpid())
            thread.join();
        else
            thread.detach();
    threads_.clear();
}

AddressHandles::State AddressHandles::get(const PortAddress& to, Handle& handle) {
    const auto found = entries_.find(to);
    if (found != entries_.end()) {
        found->second.used = ++uses_;
        handle = found->second.handle;
        return handle != nullptr ? State::kMade : State::kMaking;
    }
    if (entries_.size() >= kMostAddressHandles) (void)drop_oldest();
    if (port_.ethernet && !stopped_ && (idle_ > orders_.size() + again_.size() || start_thread())) {
        entries_[to] = {.used = ++uses_};
        (refused_.contains(to) ? again_ : orders_).push_back(to);
        ordered_.notify_one();
        return State::kMaking;
    }
    int error = 0;
    handle = make(to, error);
    if (handle == nullptr && verbs::may_lack_room(error) && drop_oldest()) handle = make(to, error);
    if (handle == nullptr) {
        owner_.on_refused(to, error);
        return State::kRefused;
    }
    entries_[to] = {.handle = handle, .used = ++uses_};
    return State::kMade;
}

// For any thread, with or without the mutex.
AddressHandles::Handle AddressHandles::make(const PortAddress& to, int& error) const {
    if (self_.unreachable(to) != nullptr) {
        error = EAFNOSUPPORT;
        return nullptr;
    }
    ibv_ah_attr address = address_vector(port_, to);
    errno = 0;
    ibv_ah* const handle = ibv_create_ah(pd_, &address);
    // Some devices refuse without a reason.
    error = handle != nullptr ? 0 : errno != 0 ? errno : EINVAL;
    return handle != nullptr ? Handle(handle, verbs::Destroyer<ibv_destroy_ah>()) : nullptr;
}

// Starts one more thread, unless there are as many as there may be. False: there is none.
bool AddressHandles::start_thread() {
    if (threads_.size() == kMostLookups) return true;
    const base::BlockedSignals blocked;
    try {
        process_ = getpid();
        threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
        TERN_DEBUG("no thread can be started for the address handle of a host");
    }
    return !threads_.empty();
}

void AddressHandles::work() {
    (void)pthread_setname_np(pthread_self(), "tern-address");
    std::unique_lock lock(mutex_);
    for (;;) {
        ++idle_;
        ordered_.wait(lock, [this] { return stopped_ || !orders_.empty() || !again_.empty(); });
        --idle_;
        if (stopped_) return;
        std::deque<PortAddress>& orders = orders_.empty() ? again_ : orders_;
        const PortAddress to = orders.front();
        orders.pop_front();
        lock.unlock();
        try {
            int error = 0;
            const Handle handle = make(to, error);
            lock.lock();
            if (!stopped_) finish(to, handle, error);
        } catch (const std::bad_alloc&) {
            if (!lock.owns_lock()) lock.lock();
            entries_.erase(to);  // the next packet to that host makes it
        }
    }
}

void AddressHandles::finish(const PortAddress& to, const Handle& handle, int error) {
    if (handle != nullptr) {
        refused_.erase(to);
        entries_[to].handle = handle;
        owner_.on_made(to, handle);
        return;
    }
    if (verbs::may_lack_room(error)) (void)drop_oldest();
    entries_.erase(to);
    if (refused_.size() >= kMostAddressHandles) refused_.clear();
    refused_.insert(to);
    owner_.on_refused(to, error);
}

// Datagrams under way keep their handle. False: there is none.
bool AddressHandles::drop_oldest() {
    if (entries_.empty()) return false;
    const auto age = [](const auto& entry) {
        return entry.second.handle != nullptr ? entry.second.used : UINT64_MAX;
    };
    const auto oldest =
        std::min_element(entries_.begin(), entries_.end(),
                         [&](const auto& a, const auto& b) { return age(a) < age(b); });
    if (age(*oldest) == UINT64_MAX) return false;
    entries_.erase(oldest);
    return true;
}
namespace {

constexpr size_t kIpv6Subnet = 8;  // bytes; the kernel makes addresses from prefixes of this length

// In host order.
uint32_t ipv4_of(const std::array<uint8_t, 16>& gid) {
    uint32_t address = 0;
    memcpy(&address, &gid[12], sizeof(address));
    return ntohl(address);
}

uint32_t address_of(const sockaddr* address) {
    sockaddr_in ipv4{};
    memcpy(&ipv4, address, sizeof(ipv4));
    return ntohl(ipv4.sin_addr.s_addr);
}

}  // namespace

unsigned Routes::subnet_bits(uint32_t address) {
    constexpr unsigned kUsual = 24;
    unsigned bits = kUsual;
    ifaddrs* all = nullptr;
    if (getifaddrs(&all) != 0) return bits;
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
        if (each->ifa_addr == nullptr || each->ifa_netmask == nullptr ||
            each->ifa_addr->sa_family != AF_INET || address_of(each->ifa_addr) != address)
            continue;
        bits = static_cast<unsigned>(std::countl_one(address_of(each->ifa_netmask)));
        break;
    }
    freeifaddrs(all);
    return bits != 0 ? bits : kUsual;
}

bool Routes::reach(ibv_pd* pd, const verbs::Port& port, const PortAddress& to) {
    if (!port.ethernet) return true;
    const auto family = common_family(port.roce.set, to.roce);
    if (!family) return true;
    const verbs::GidKind kind = kind_of(*family);
    if (kind == verbs::GidKind::kIpv6 && port.local_subnet)
        return memcmp(&port.roce.set.of(kind), &to.roce.of(kind), kIpv6Subnet) == 0;
    if (kind != verbs::GidKind::kIpv4) return true;
    const uint32_t own = ipv4_of(port.roce.set.of(verbs::GidKind::kIpv4));
    if (bits_ == 0) bits_ = subnet_bits(own);
    const uint32_t subnet = ipv4_of(to.roce.of(verbs::GidKind::kIpv4)) >> (32 - bits_);
    if (subnet == own >> (32 - bits_)) return true;
    if (port.local_subnet) return false;
    if (reached_.contains(subnet)) return true;
    ibv_ah_attr address = address_vector(port, to);
    errno = 0;
    const verbs::AddressHandle handle(ibv_create_ah(pd, &address));
    // Any other error is not about the way.
    const bool none = !handle && (errno == ENETUNREACH || errno == EHOSTUNREACH ||
                                  errno == ENODEV || errno == EADDRNOTAVAIL);
    if (handle) reached_.insert(subnet);
    return !none;
}

}  // namespace tern
