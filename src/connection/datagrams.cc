// SPDX-License-Identifier: BSD-3-Clause
#include "connection/datagrams.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "connection/acceptor.h"
#include "verbs/queue_pair.h"

namespace tern {

namespace {

constexpr uint64_t kSendTag = uint64_t{1} << 32;

}  // namespace

std::unique_ptr<Datagrams> Datagrams::create(const verbs::Device& device, const verbs::Port& port,
                                             std::string& why) {
    std::unique_ptr<Datagrams> datagrams(new Datagrams(port));
    if (datagrams->open(device)) return datagrams;
    why = std::string("cannot set up the datagram queue pair: ") + strerror(errno);
    if (errno == ENOMEM) why += "; raise the limit of locked memory (ulimit -l)";
    return nullptr;
}

Datagrams::~Datagrams() {
    if (aside_fd_ >= 0) close(aside_fd_);
}

bool Datagrams::open(const verbs::Device& device) {
    memory_ = verbs::RegisteredMemory(
        device.pd.get(), size_t{kReceives} * kReceiveSize + size_t{kSends} * Packet::kMaxSize,
        IBV_ACCESS_LOCAL_WRITE);
    if (!memory_) return false;
    aside_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (aside_fd_ < 0) return false;
    events_.reset(ibv_create_comp_channel(port_.context));
    if (!events_) return false;
    const int flags = fcntl(events_->fd, F_GETFL);
    if (flags < 0 || fcntl(events_->fd, F_SETFL, flags | O_NONBLOCK) != 0) return false;
    cq_.reset(ibv_create_cq(port_.context, kReceives + kSends, nullptr, events_.get(), 0));
    if (!cq_) return false;
    ibv_qp_cap capacity{};
    qp_ = verbs::create_queue_pair(device.pd.get(), IBV_QPT_UD, cq_.get(), nullptr,
                                   {.sends = kSends, .receives = kReceives}, capacity);
    if (!qp_) return false;
    const int error = verbs::start_datagrams(qp_.get(), port_, kKey, 0);
    if (error != 0) {
        errno = error;
        return false;
    }
    for (uint32_t slot = 0; slot < kReceives; ++slot)
        if (!post_receive(slot)) return false;
    return true;
}

bool Datagrams::post_receive(uint32_t slot) {
    ibv_sge piece{.addr = reinterpret_cast<uint64_t>(receive_slot(slot)),
                  .length = kReceiveSize,
                  .lkey = memory_.lkey()};
    ibv_recv_wr request{};
    request.wr_id = slot;
    request.sg_list = &piece;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp_.get(), &request, &bad) == 0;
}

void Datagrams::send(const Packet& packet, const PortAddress& to, uint32_t to_qp_num) {
    const std::lock_guard lock(mutex_);
    send_locked(packet, to, to_qp_num);
}

void Datagrams::send_locked(const Packet& packet, const PortAddress& to, uint32_t to_qp_num) {
    auto free_handle = std::find(handles_.begin(), handles_.end(), nullptr);
    if (free_handle == handles_.end()) {
        // Polling frees the places of completed sends.
        Packet packet_of_peer;
        while (poll(packet_of_peer)) put_aside(packet_of_peer);
        free_handle = std::find(handles_.begin(), handles_.end(), nullptr);
    }
    if (free_handle == handles_.end()) return;
    const auto slot = static_cast<uint32_t>(free_handle - handles_.begin());
    ibv_ah_attr address = address_vector(port_, to);
    free_handle->reset(ibv_create_ah(qp_->pd, &address));
    if (!*free_handle) return;

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
    request.wr.ud.ah = free_handle->get();
    request.wr.ud.remote_qpn = to_qp_num;
    request.wr.ud.remote_qkey = kKey;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp_.get(), &request, &bad) != 0) free_handle->reset();
}

void Datagrams::complete_sends() {
    const auto under_way = [this] {
        return std::any_of(handles_.begin(), handles_.end(),
                           [](const auto& handle) { return handle != nullptr; });
    };
    const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
    const std::lock_guard lock(mutex_);
    Packet dropped;
    while (under_way() && std::chrono::steady_clock::now() < limit) (void)poll(dropped);
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

// A kGone gets more room: it is sent once, others are repeated.
void Datagrams::put_aside(const Packet& packet) {
    const size_t most = packet.type == PacketType::kGone ? 2 * kMostAside : kMostAside;
    if (aside_.size() < most) aside_.push_back(packet);
}

bool Datagrams::arm() {
    const std::lock_guard lock(mutex_);
    take_events();
    if (!aside_.empty()) return false;
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
                send_locked(reply, packet.from.port, packet.from.interface.qp_num);
                accepted = true;
                continue;
            }
        }
        if (packet.type != PacketType::kGone && packet.type != PacketType::kAlive) {
            Packet alive;
            alive.type = PacketType::kAlive;
            alive.peer_token = packet.token;
            alive.from = self_;
            alive.to = packet.from.interface;
            send_locked(alive, packet.from.port, packet.from.interface.qp_num);
        }
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
        if ((completion.wr_id & kSendTag) != 0) {
            handles_[slot].reset();
            continue;
        }
        if (completion.status != IBV_WC_SUCCESS) continue;
        const uint32_t size = completion.byte_len > kGrh ? completion.byte_len - kGrh : 0;
        const auto unpacked = Packet::unpack({receive_slot(slot) + kGrh, size});
        (void)post_receive(slot);
        if (unpacked) {
            packet = *unpacked;
            return true;
        }
    }
    if (count < 0) failed_.store(true, std::memory_order_relaxed);
    return false;
}

}  // namespace tern
