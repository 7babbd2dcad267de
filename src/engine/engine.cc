// SPDX-License-Identifier: BSD-3-Clause
#include "engine/engine.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <random>

#include "engine/engine_send.h"

namespace tern {

namespace {

constexpr uint32_t kLeastReceives = 16;

uint64_t random_instance() {
    std::random_device random;
    return (uint64_t{random()} << 32 | random()) & 0xffffffffff;
}

}  // namespace

Engine::ShortWrite::ShortWrite() {
    piece.addr = address_of(frame);
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_INLINE;
}

Engine::Access::Access() {
    request.sg_list = &piece;
    request.num_sge = 1;
}

Engine::Engine(const verbs::Device& device, const verbs::Port& port, const EngineSettings& settings,
               EngineOwner& owner)
    : port_(port),
      settings_(settings),
      owner_(owner),
      pd_(device.pd.get()),
      // Room for a payload with its words, or for the padding and the tail of a gathered frame.
      pool_(device.pd.get(), padded(settings.segment_size) + 2 * BlockWriter::kOverhead,
            settings.send_buffers),
      promotion_(settings.promotion),
      writer_words_(device.pd.get()) {}

std::unique_ptr<Engine> Engine::create(const verbs::Device& device, const verbs::Port& port,
                                       const EngineSettings& settings, EngineOwner& owner,
                                       std::string& why) {
    std::unique_ptr<Engine> engine(new Engine(device, port, settings, owner));
    if (!engine->open(device, why)) return nullptr;
    return engine;
}

bool Engine::open(const verbs::Device& device, std::string& why) {
    const auto refuse = [&why](const char* what) {
        why = std::string(what) + ": " + strerror(errno);
        if (errno == ENOMEM) why += "; raise the limit of locked memory (ulimit -l)";
        return false;
    };
    if (device.events) device_events_ = std::make_unique<verbs::AsyncEvents::Inbox>(*device.events);
    max_cqe_ = static_cast<uint32_t>(device.attributes.max_cqe);
    events_.reset(ibv_create_comp_channel(port_.context));
    if (!events_) return refuse("cannot create a completion channel");
    const int flags = fcntl(events_->fd, F_GETFL);
    if (flags < 0 || fcntl(events_->fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return refuse("cannot make the completion channel non-blocking");
    const auto entries = static_cast<int>(settings_.receive_queue + settings_.send_queue * 4);
    cq_.reset(ibv_create_cq(port_.context, std::min(entries, device.attributes.max_cqe), nullptr,
                            events_.get(), 0));
    if (!cq_) return refuse("cannot create a completion queue");
    if (!watch_.open()) return refuse("cannot create an event descriptor");
    if (!pool_.open()) return refuse("cannot register the send pool");
    auto datagrams = Datagrams::create(device, port_, why);
    if (!datagrams) return false;
    if (!open_receives()) return refuse("cannot set up the shared receive queue");

    self_.port.lid = port_.attributes.lid;
    self_.port.has_lid = !port_.ethernet && port_.attributes.lid != 0;
    self_.port.ethernet = port_.ethernet;
    self_.port.has_gid = port_.global;
    if (port_.global)
        std::copy(std::begin(port_.gid.raw), std::end(port_.gid.raw), self_.port.gid.begin());
    self_.interface = {.qp_num = datagrams->qp_num(), .instance = random_instance()};

    datagrams->set_self(self_);

    const ConnectorSettings connector{
        .queues = {.sends = settings_.send_queue,
                   .inline_bytes = std::clamp(settings_.inline_bytes,
                                              uint32_t{sizeof(Word)} + kMaxControl, kInlineLimit),
                   .pieces = kPieces},
        .retry = settings_.retry,
        .times = settings_.handshake};
    // The interface must report its inline size before it connects: a temporary queue pair shows
    // it.
    ibv_qp_cap capacity{};
    if (!verbs::create_queue_pair(pd_, IBV_QPT_RC, cq_.get(), receives_->srq(), connector.queues,
                                  capacity))
        return refuse("cannot create a reliable queue pair");
    // Frames in blocks are padded to whole units.
    max_inline_ = std::min(capacity.max_inline_data, kInlineLimit) & ~(Word::kUnit - 1);
    connector_.reset(new Connector(device, port_, connector, std::move(datagrams), cq_.get(),
                                   receives_->srq(), self_, *this));
    return true;
}

// Called after all other registrations, since the receive queue works with fewer buffers too.
bool Engine::open_receives() {
    const uint32_t wanted = settings_.receive_queue;
    const auto size = static_cast<uint32_t>(sizeof(Word)) + settings_.segment_size;
    for (;;) {
        receives_ = ReceiveQueue::create(pd_, settings_.receive_queue, size);
        if (receives_ || errno != ENOMEM || settings_.receive_queue / 2 < kLeastReceives) break;
        settings_.receive_queue /= 2;
    }
    if (receives_ && settings_.receive_queue < wanted)
        owner_.warn("memory for only " + std::to_string(settings_.receive_queue) + " of " +
                    std::to_string(wanted) +
                    " receive buffers can be registered: raise the limit of locked memory "
                    "(ulimit -l)");
    return receives_ != nullptr;
}

Engine::~Engine() {
    (void)watch_.withdraw();
    if (epoll_fd_ >= 0) close(epoll_fd_);
    if (timer_fd_ >= 0) close(timer_fd_);
}

Channel* Engine::attach(const PeerAddress& peer, void* user, std::string& why) {
    if (broken_) {
        why = "the device has failed";
        return nullptr;
    }
    auto* channel = static_cast<Channel*>(connector_->connect(peer, why));
    if (channel == nullptr) return nullptr;
    channel->users.push_back(user);
    channel->closing = false;
    return channel;
}

void Engine::leave(Channel* channel, void* user) {
    connector_->forget_probe(user);
    if (channel == nullptr) return;
    std::erase(channel->users, user);
    if (!channel->users.empty() || channel->failed) return;
    if (!channel->sends.last_is_signaled()) (void)nop(*channel, false);
    connector_->disconnect(*channel);
}

void Engine::cancel(Channel& channel, const void* user) {
    if (channel.users.size() != 1 || channel.users.front() != user) return;
    connector_->fail(channel, Status::kCanceled, "the endpoint is flushed by force");
}

uint64_t Engine::registered_bytes() const {
    return receives_->registered_bytes() + pool_.registered_bytes() +
           connector_->datagrams().registered_bytes() + counters_.block_bytes +
           writer_words_.registered_bytes();
}

Status Engine::refused_post(Channel& channel) {
    connector_->fail(channel, Status::kDevice, "the device refuses a work request");
    return Status::kDevice;
}

Status Engine::no_room(Channel& channel) {
    if (channel.up() && !channel.failed) ++counters_.queue_stalls;
    return Status::kNoResource;
}

// All buffers are in work requests. The last work request of a connection may be unsignaled; only a
// later signaled one reports its completion, so each such connection gets one.
Status Engine::no_buffer() {
    ++counters_.queue_stalls;
    if (pool_.refused() && !told_pool_) {
        told_pool_ = true;
        owner_.warn(
            "cannot register more memory for the send pool: raise the limit of locked memory "
            "(ulimit -l) or lower "
            "UCX_TERN_TX_BUFFERS");
    }
    connector_->for_each([this](Connection& connection) {
        auto& channel = static_cast<Channel&>(connection);
        if (channel.up() && !channel.sends.last_is_signaled()) (void)nop(channel, false);
    });
    return Status::kNoResource;
}

Status Engine::stalled(Channel& channel) {
    if (!channel.stalled) {
        channel.stalled = true;
        channel.stalls = 0;
        channel.called = false;
        if (!channel.listed_stalled) {
            channel.listed_stalled = true;
            stalled_channels_.push_back(&channel);
        }
        ++counters_.credit_stalls;
        if (channel.tx.stalled()) schedule_control(channel, Channel::kReleaseDue);
    } else if (++channel.stalls % kStallCheck == 0 && !channel.sends.reports()) {
        // No outstanding work request would report the peer's death.
        (void)nop(channel, true);
    }
    return Status::kNoResource;
}

// There is no room, the connection is being made, a completion is due, or the put is empty.
Status Engine::put_short_otherwise(Channel& channel, const void* data, uint32_t length, uint64_t to,
                                   uint32_t rkey) {
    if (!channel.sends.takes_data())
        return write_to_wait(channel, to, rkey, [&](std::byte* at) {
            if (length != 0) memcpy(at, data, length);
            return length;
        });
    ++counters_.puts;
    return write_inline(channel, data, length, to, rkey, true) ? Status::kOk : Status::kDevice;
}

// Sends the reader to the block's high end, since the next frame does not fit below.
bool Engine::post_wrap(Channel& channel, uint32_t at) {
    const uint64_t word = channel.tx.block_word(FrameKind::kWrap, 0, 0, 0).raw();
    return write_inline(channel, &word, sizeof(word), channel.block_address + at,
                        channel.block_rkey, false);
}

// Posts an RDMA write of no bytes, whose completion reports all work requests before it.
bool Engine::nop(Channel& channel, bool users) {
    if (channel.failed || channel.sends.room() == 0) return false;
    ibv_send_wr request{};
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    return post(channel, request, users);
}

// A work request of a channel that ends has completed. A control frame may have been posted after
// the last signaled one.
void Engine::sent_last(Channel& channel) {
    if (!channel.sends.idle() && !channel.sends.last_is_signaled()) (void)nop(channel, false);
    connector_->finish_if_idle(channel);
}

bool Engine::fence(Channel& channel) {
    if (!channel.sends.takes_data()) return fence_to_wait(channel);
    return !channel.failed && post_fence(channel);
}

bool Engine::post_fence(Channel& channel) {
    ibv_send_wr request{};
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_FENCE;
    return post(channel, request, false);
}

void Engine::request_report(Channel& channel) {
    if (channel.carries() && !channel.sends.reports()) (void)nop(channel, true);
}

Status Engine::flush(Channel& channel, const Waiter& waiter) {
    if (!channel.backlog.empty()) {
        if (waiter.cookie != nullptr) flush_to_wait(channel, waiter);
        return Status::kInProgress;
    }
    // The losses of a failed channel are known once its send queue is idle.
    if (channel.failed && channel.sends.idle()) return channel.outcome();
    if (!channel.failed && channel.sends.users_idle()) return Status::kOk;
    if (!channel.sends.last_is_signaled() && !channel.failed && !nop(channel, false))
        return Status::kNoResource;
    if (waiter.cookie != nullptr) channel.sends.wait(waiter);
    patience_ = 0;  // the completion will not be found in a block
    return Status::kInProgress;
}

void Engine::last_transfer_over(Channel& channel) {
    if (channel.carries() && !channel.up() && !channel.sends.last_is_signaled()) (void)nop(channel, false);
    connector_->finish_if_idle(channel);
}

Status Engine::flush_all() {
    Status status = Status::kOk;
    connector_->for_each([&](Connection& connection) {
        if (flush(static_cast<Channel&>(connection), {}) != Status::kOk)
            status = Status::kInProgress;
    });
    return status;
}

Status Engine::check_peer(Channel* channel, const PeerAddress& peer, void* user) {
    if (channel == nullptr || !channel->up())
        connector_->probe(peer, user);
    else if (channel->sends.takes_data())
        (void)nop(*channel, true);
    return Status::kOk;
}

Status Engine::check_channel(Channel& channel, const Waiter& waiter) {
    if (channel.failed) return channel.status;
    if (!channel.established) {
        flush_to_wait(channel, waiter);
        return Status::kInProgress;
    }
    // An outstanding work request that will be reported serves as well.
    if (!channel.sends.reports() && !nop(channel, true)) return Status::kNoResource;
    channel.sends.wait(waiter);
    return Status::kInProgress;
}

std::unique_ptr<Connection> Engine::make_connection(uint32_t index, const PeerAddress& peer,
                                                    const Handshake& handshake) {
    auto channel = std::make_unique<Channel>(index, peer, handshake);
    channel->activity.owner = channel.get();
    return channel;
}

bool Engine::reserve_completions(uint32_t sends) {
    errno = EIO;
    if (broken_) return false;
    const uint64_t needed = uint64_t{settings_.receive_queue} + sends;
    if (static_cast<uint64_t>(cq_->cqe) >= needed) return true;
    errno = ENOMEM;
    if (needed > max_cqe_) return false;
    const int error =
        ibv_resize_cq(cq_.get(), static_cast<int>(std::min<uint64_t>(needed * 2, max_cqe_)));
    if (error == 0) return true;
    errno = error;
    return false;
}

void Engine::refused(const PeerAddress& peer, const std::string& why) {
    owner_.warn("a connection of " + peer.to_string() + " is refused: " + why +
                "; fewer peers, or a smaller UCX_TERN_TX_QUEUE_LEN or UCX_TERN_RX_QUEUE_LEN, need "
                "less of the device");
}

bool Engine::wanted(const Connection& connection) const {
    return !static_cast<const Channel&>(connection).backlog.empty() || connection.transfers != 0;
}

void Engine::established(Connection& connection) {
    auto& channel = static_cast<Channel&>(connection);
    channel.sends.reserve(kReserve);
    channel.transfer_reserve = kReserve;
    channel.polls_memory =
        settings_.poll == PollMode::kMemory ||
        (settings_.poll == PollMode::kAuto && verbs::writes_in_order(channel.qp.get()));
    send_backlog(channel);
}

void Engine::draining(Connection& connection) {
    auto& channel = static_cast<Channel&>(connection);
    if (!channel.sends.last_is_signaled()) (void)nop(channel, false);
}

void Engine::post_marker(Connection& connection) {
    auto& channel = static_cast<Channel&>(connection);
    ibv_send_wr request{};
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr_id = channel.tag | channel.sends.next();
    ibv_send_wr* refused = nullptr;
    if (ibv_post_send(channel.qp.get(), &request, &refused) == 0) channel.sends.posted(true, false);
}

void Engine::closed(Connection& connection, Status status, const std::string& why) {
    auto& channel = static_cast<Channel&>(connection);
    if (channel.rx.block() != ReceivePath::Block::kNone) drop_block(channel);
    if (channel.activity.hot) promotion_.demoted(channel.activity);
    std::erase(due_channels_, &channel);
    std::erase(stalled_channels_, &channel);
    if (channel.words.at != nullptr) writer_words_.give(channel.words);
    status = drop_backlog(channel, owner_.ended(channel, status));
    void* cookie = nullptr;
    while (channel.sends.take_waiter(cookie)) owner_.completed(cookie, status);
    // A timeout is not logged if no endpoint uses the connection; all other errors are.
    if (!broken_ && status != Status::kOk &&
        (!channel.users.empty() || status != Status::kTimedOut))
        owner_.lost(channel.peer, status, why);
    // closed() may remove other endpoints from the list.
    while (!channel.users.empty()) {
        void* user = channel.users.back();
        channel.users.pop_back();
        owner_.closed(user, status);
    }
}

uint64_t Engine::now() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace tern
