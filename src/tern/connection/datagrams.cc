// SPDX-License-Identifier: BSD-3-Clause
#include "tern/connection/datagrams.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tern/base/shortage.h"
#include "tern/base/trace.h"
#include "tern/base/tunables.h"
#include "tern/connection/acceptor.h"
#include "tern/verbs/async_events.h"
#include "tern/verbs/queue_pair.h"

namespace tern {

namespace {

constexpr uint64_t kSendTag = uint64_t{1} << 32;

}  // namespace

std::unique_ptr<Datagrams> Datagrams::create(const verbs::Device& device, const verbs::Port& port,
                                             std::string& why) {
    std::unique_ptr<Datagrams> datagrams(new Datagrams(port));
    if (datagrams->open(device)) return datagrams;
    const int error = errno;
    why = std::string("cannot set up the datagram queue pair: ") + strerror(error) + "; " +
          scarce::kInterface.remedy(error);
    return nullptr;
}

Datagrams::~Datagrams() {
    address_handles_.stop();
    if (aside_fd_ >= 0) close(aside_fd_);
}

bool Datagrams::open(const verbs::Device& device) {
    memory_ = verbs::RegisteredMemory(device.pd.get(), size_t{kDatagramSends} * Packet::kMaxSize,
                                      IBV_ACCESS_LOCAL_WRITE);
    if (!memory_) return false;
    aside_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (aside_fd_ < 0) return false;
    events_.reset(ibv_create_comp_channel(port_.context));
    if (!events_) return false;
    const int flags = fcntl(events_->fd, F_GETFL);
    if (flags < 0 || fcntl(events_->fd, F_SETFL, flags | O_NONBLOCK) != 0) return false;
    // Some devices cannot resize it.
    const int most =
        std::min(device.attributes.max_qp_wr, device.attributes.max_cqe - int{kDatagramSends});
    receives_.most = std::clamp(static_cast<uint32_t>(std::max(most, 0)), kDatagramReceives,
                                kMostDatagramReceives);
    cq_.reset(ibv_create_cq(port_.context, static_cast<int>(receives_.most + kDatagramSends),
                            verbs::next_identity(), events_.get(), 0));
    if (!cq_) return false;
    address_handles_.use(device.pd.get());
    ibv_qp_cap capacity{};
    qp_ = verbs::create_queue_pair(device.pd.get(), IBV_QPT_UD, cq_.get(), nullptr,
                                   {.sends = kDatagramSends, .receives = receives_.most}, capacity);
    if (!qp_) return false;
    const int error = verbs::start_datagrams(qp_.get(), port_, kKey, 0);
    if (error != 0) {
        errno = error;
        return false;
    }
    return add_receives(kDatagramReceives) && !broken_;
}

size_t Datagrams::registered_bytes() const {
    const std::lock_guard lock(mutex_);
    return memory_.size() + size_t{receives_.count()} * kReceiveSize;
}

DatagramCounts Datagrams::counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
}

bool Datagrams::add_receives(uint32_t count) {
    for (; count != 0; count -= kDatagramReceives) {
        verbs::RegisteredMemory memory(qp_->pd, size_t{kDatagramReceives} * kReceiveSize,
                                       IBV_ACCESS_LOCAL_WRITE);
        if (!memory) return false;
        receives_.memory.push_back(std::move(memory));
        for (uint32_t slot = receives_.count() - kDatagramReceives; slot < receives_.count();
             ++slot)
            if (!post_receive(slot)) on_failed(false, slot);
    }
    return true;
}

// Many packets have come between two looks. The device has dropped others, or nearly so.
void Datagrams::grow() {
    receives_.in_a_row = 0;
    const uint32_t more = std::min(receives_.count(), receives_.most - receives_.count());
    if (more < kDatagramReceives || !add_receives(more / kDatagramReceives * kDatagramReceives))
        receives_.most = receives_.count();
    TERN_DEBUG("there are %u receives for handshakes", receives_.count());
}

bool Datagrams::post_receive(uint32_t slot) {
    ibv_sge piece{.addr = reinterpret_cast<uint64_t>(receive_slot(slot)),
                  .length = kReceiveSize,
                  .lkey = receives_.memory[slot / kDatagramReceives].lkey()};
    ibv_recv_wr request{};
    request.wr_id = slot;
    request.sg_list = &piece;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    const int error = ibv_post_recv(qp_.get(), &request, &bad);
    // Some drivers return negative values.
    if (error != 0) errno = std::abs(error);
    return error == 0;
}

void Datagrams::send(const Packet& packet, const PortAddress& to) {
    const std::lock_guard lock(mutex_);
    send_locked(packet, to);
}

// The owner's thread never waits for the kernel to resolve an address.
void Datagrams::send_locked(const Packet& packet, const PortAddress& to) {
    AddressHandles::Handle handle;
    switch (address_handles_.get(to, handle)) {
        case AddressHandles::State::kMade:
            return send_or_wait(packet, handle);
        case AddressHandles::State::kMaking:
            if (unsent_.size() < kMostUnsent)
                unsent_.push_back({packet, to});
            else
                ++counts_.dropped;
            return;
        case AddressHandles::State::kRefused:
            return;
    }
}

void Datagrams::send_or_wait(const Packet& packet, const AddressHandles::Handle& handle) {
    if (waiting_.empty() && post(packet, handle)) return;
    if (waiting_.size() < kMostUnsent)
        waiting_.push_back({packet, handle});
    else
        ++counts_.dropped;
}

// Sends have completed.
void Datagrams::post_waiting() {
    while (!waiting_.empty() && post(waiting_.front().packet, waiting_.front().handle))
        waiting_.pop_front();
}

void Datagrams::on_made(const PortAddress& to, const AddressHandles::Handle& handle) {
    std::erase_if(unsent_, [&](const Unsent& unsent) {
        if (unsent.to != to) return false;
        send_or_wait(unsent.packet, handle);
        return true;
    });
}

void Datagrams::on_refused(const PortAddress& to, int error) {
    std::erase_if(unsent_, [&](const Unsent& unsent) { return unsent.to == to; });
    const bool known =
        std::any_of(unreachable_.begin(), unreachable_.end(),
                    [&](const Unreachable& unreachable) { return unreachable.port == to; });
    if (!known) unreachable_.push_back({to, error});
    any_unreachable_.store(true, std::memory_order_relaxed);
    signal_aside();
}

bool Datagrams::take_unreachable(PortAddress& to, int& error) {
    if (!any_unreachable_.load(std::memory_order_relaxed)) return false;
    const std::lock_guard lock(mutex_);
    if (unreachable_.empty()) return false;
    to = unreachable_.back().port;
    error = unreachable_.back().error;
    unreachable_.pop_back();
    any_unreachable_.store(!unreachable_.empty(), std::memory_order_relaxed);
    return true;
}

bool Datagrams::post(const Packet& packet, const AddressHandles::Handle& handle) {
    const auto free_handle = std::find(handles_.begin(), handles_.end(), nullptr);
    if (free_handle == handles_.end()) return false;
    const auto slot = static_cast<uint32_t>(free_handle - handles_.begin());

    const size_t size =
        packet.pack(std::span<std::byte, Packet::kMaxSize>(send_slot(slot), Packet::kMaxSize));
    ibv_sge piece{.addr = reinterpret_cast<uint64_t>(send_slot(slot)),
                  .length = static_cast<uint32_t>(size),
                  .lkey = memory_.lkey()};
    ibv_send_wr request{};
    request.wr_id = kSendTag | slot;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
    request.wr.ud.ah = handle.get();
    request.wr.ud.remote_qpn = packet.to.qp_num;
    request.wr.ud.remote_qkey = kKey;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp_.get(), &request, &bad) == 0) {
        *free_handle = handle;
        ++counts_.sent;
    }
    return true;
}

bool Datagrams::sends_under_way() const {
    return std::any_of(handles_.begin(), handles_.end(),
                       [](const auto& handle) { return handle != nullptr; });
}

void Datagrams::complete_sends() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
    Packet dropped;
    for (;;) {
        // A thread may need the mutex to send what waits.
        const std::lock_guard lock(mutex_);
        if ((!sends_under_way() && unsent_.empty() && waiting_.empty()) ||
            std::chrono::steady_clock::now() >= limit)
            return;
        (void)poll(dropped);
    }
}

bool Datagrams::receive(Packet& packet) {
    const std::lock_guard lock(mutex_);
    if (aside_.empty()) return poll(packet);
    packet = aside_.front();
    aside_.pop_front();
    if (aside_.empty()) clear_aside();
    return true;
}

void Datagrams::signal_aside() {
    const uint64_t one = 1;
    aside_signaled_ = true;
    (void)!write(aside_fd_, &one, sizeof(one));
}

void Datagrams::clear_aside() {
    uint64_t count = 0;
    if (std::exchange(aside_signaled_, false)) (void)!read(aside_fd_, &count, sizeof(count));
}

// A kGone and a kLeft get more room: they are sent once, others are repeated.
void Datagrams::put_aside(const Packet& packet) {
    const bool once = packet.type == PacketType::kGone || packet.type == PacketType::kLeft;
    const size_t most = once ? 2 * kMostAside : kMostAside;
    if (aside_.size() < most)
        aside_.push_back(packet);
    else
        ++counts_.dropped;
}

bool Datagrams::arm() {
    const std::lock_guard lock(mutex_);
    take_events();
    if (!aside_.empty() || !unreachable_.empty()) return false;
    clear_aside();
    if (ibv_req_notify_cq(cq_.get(), 0) != 0) return false;
    Packet packet;
    if (!poll(packet)) return true;
    aside_.push_back(packet);
    return false;
}

void Datagrams::take_events() {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    while (ibv_get_cq_event(events_.get(), &cq, &context) == 0) ibv_ack_cq_events(cq, 1);
}

void Datagrams::answer(Acceptor& acceptor, uint64_t now) {
    bool accepted = false;
    std::unique_lock lock(mutex_);
    take_events();
    (void)ibv_req_notify_cq(cq_.get(), 0);
    Packet packet;
    while (poll(packet)) {
        if (packet.to != self_.interface) continue;
        if (Acceptor::opens(packet)) {
            // Unlocked: the owner need not wait while a queue pair is made.
            lock.unlock();
            Packet reply;
            const bool done = acceptor.accept(packet, now, reply);
            lock.lock();
            if (done) {
                send_locked(reply, packet.from.port);
                accepted = true;
                continue;
            }
        }
        if (packet.type != PacketType::kGone && packet.type != PacketType::kAlive &&
            packet.type != PacketType::kLeft && packet.type != PacketType::kSpare)
            send_locked(alive(packet, self_), packet.from.port);
        // The interface's thread handles all packets but pings.
        if (packet.type != PacketType::kPing) put_aside(packet);
    }
    if (accepted || !aside_.empty()) signal_aside();
}

bool Datagrams::poll(Packet& packet) {
    ibv_wc completion{};
    int count = 0;
    while ((count = ibv_poll_cq(cq_.get(), 1, &completion)) > 0) {
        const auto slot = static_cast<uint32_t>(completion.wr_id);
        const bool send = (completion.wr_id & kSendTag) != 0;
        if (send) {
            handles_[slot].reset();
            post_waiting();
        }
        if (completion.status != IBV_WC_SUCCESS) [[unlikely]]
            on_failed(send, slot);
        if (send || completion.status != IBV_WC_SUCCESS) continue;
        const uint32_t size = completion.byte_len > kGrh ? completion.byte_len - kGrh : 0;
        const auto unpacked = Packet::unpack({receive_slot(slot) + kGrh, size});
        if (!post_receive(slot)) on_failed(false, slot);
        if (!unpacked) continue;
        ++counts_.received;
        if (++receives_.in_a_row >= receives_.count() / 2 && receives_.count() < receives_.most)
            grow();
        packet = *unpacked;
        return true;
    }
    receives_.in_a_row = 0;
    if (count < 0 || (broken_ && !recover())) failed_.store(true, std::memory_order_relaxed);
    return false;
}

void Datagrams::on_failed(bool send, uint32_t slot) {
    broken_ = true;
    if (!send) receives_.not_posted.push_back(slot);
}

// After a failed send the queue pair accepts no sends, and after a failed receive it is in error.
// False: the device refuses to start it again.
bool Datagrams::recover() {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr unused{};
    if (ibv_query_qp(qp_.get(), &attributes, IBV_QP_STATE, &unused) != 0) return false;
    TERN_DEBUG("a datagram has failed; the queue pair is in state %d, %zu receives are lost",
               static_cast<int>(attributes.qp_state), receives_.not_posted.size());
    if (attributes.qp_state == IBV_QPS_ERR) {
        // The completions of all its work requests must come before it may be reset.
        if (receives_.not_posted.size() < receives_.count() || sends_under_way()) return true;
        if (verbs::restart_datagrams(qp_.get(), port_, kKey, 0) != 0) return false;
    } else if (attributes.qp_state == IBV_QPS_SQE && verbs::resume_sends(qp_.get()) != 0) {
        return false;
    }
    std::erase_if(receives_.not_posted, [this](uint32_t slot) { return post_receive(slot); });
    broken_ = !receives_.not_posted.empty();
    return true;
}

}  // namespace tern
