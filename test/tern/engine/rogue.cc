// SPDX-License-Identifier: BSD-3-Clause
#include "rogue.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>
#include <ctime>

#include "node.h"

namespace tern::test {

Rogue::Rogue() {
    const EngineSettings settings = quick_settings();
    cq_.reset(ibv_create_cq(port().context, 1024, nullptr, nullptr, 0));
    receives_ = ReceiveQueue::create(device().pd.get(), {.first = 128, .most = 128, .bytes = 8200});
    memory_ = verbs::RegisteredMemory(device().pd.get(), 65536, IBV_ACCESS_LOCAL_WRITE);
    window_ = verbs::RegisteredMemory(
        device().pd.get(), 256 * 1024,
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    std::string why;
    auto datagrams = Datagrams::create(device(), port(), why);
    self_.port = port_address(port());
    // A device may give the number of a rogue that has gone to the next one.
    static uint64_t instance = 0;
    self_.interface = {.qp_num = datagrams->qp_num(), .instance = ++instance};
    datagrams->set_self(self_);
    connector_.reset(new Connector(
        {.pd = device().pd.get(), .port = port(), .cq = cq_.get(), .srq = receives_->srq()},
        {.queues = {.sends = 256, .inline_bytes = 64, .pieces = 1},
         .retry = settings.retry,
         .times = settings.handshake},
        std::move(datagrams), self_, *this));
}

bool Rogue::begin(const PeerAddress& peer) {
    std::string why;
    connection_ = connector_->connect(peer, why);
    return connection_ != nullptr;
}

void Rogue::say_left(const PeerAddress& peer) {
    Packet packet;
    packet.type = PacketType::kLeft;
    packet.from = self_;
    packet.to = peer.interface;
    connector_->datagrams().send(packet, peer.port);
}

void Rogue::drop() {
    if (connection_ != nullptr && !over_)
        connector_->fail(*connection_, Status::kConnectionReset, "the test wants it");
    (void)until([this] { poll(); }, [this] { return connection_ == nullptr || over_; });
    connection_ = nullptr;
    up_ = over_ = false;
}

void Rogue::poll() {
    connector_->inbox().gather();
    connector_->progress();
    ibv_wc completion{};
    while (ibv_poll_cq(cq_.get(), 1, &completion) > 0) {
        if (!work_request_id::is_receive(completion.wr_id)) {
            Connection* connection = connector_->table().find_send(completion.wr_id);
            if (connection != nullptr)
                connection->sends.complete(work_request_id::number(completion.wr_id));
            continue;
        }
        const uint32_t index = work_request_id::number(completion.wr_id);
        if (completion.status != IBV_WC_SUCCESS) {
            receives_->release(index);
            continue;
        }
        Word word;
        memcpy(&word, receives_->buffer(index), sizeof(word));
        if (word.kind() == FrameKind::kControl &&
            word.id() == static_cast<uint32_t>(ControlId::kOffer)) {
            grant_.emplace();
            memcpy(&*grant_, receives_->buffer(index) + sizeof(word), sizeof(*grant_));
        }
        if (word.kind() == FrameKind::kControl &&
            word.id() == static_cast<uint32_t>(ControlId::kWriterWords)) {
            words_.emplace();
            memcpy(&*words_, receives_->buffer(index) + sizeof(word), sizeof(*words_));
        }
        if (word.kind() == FrameKind::kControl &&
            word.id() == static_cast<uint32_t>(ControlId::kCredit))
            ++credit_frames_;
        if (completion.opcode == IBV_WC_RECV && word.kind() == FrameKind::kControl &&
            word.id() >= static_cast<uint32_t>(ControlId::kFirstTransfer))
            controls.push_back(
                {static_cast<TransferId>(word.id()),
                 std::string(reinterpret_cast<const char*>(receives_->buffer(index)) + sizeof(word),
                             word.length())});
        if (!deaf) receives_->release(index);
    }
    connector_->destroy_closed();
}

void Rogue::send(const void* data, size_t size) {
    post(IBV_WR_SEND, data, size, 0, 0);
}

void Rogue::write(const void* data, size_t size, uint32_t at) {
    post(IBV_WR_RDMA_WRITE, data, size, grant_->address + at, grant_->rkey);
}

void Rogue::write_to(const void* data, size_t size, uint64_t address, uint32_t rkey,
                     uint32_t immediate) {
    post(immediate != 0 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, data, size, address, rkey,
         immediate);
}

void Rogue::send_frame(FrameKind kind, uint32_t id, const std::string& payload, uint16_t sequence,
                       uint16_t credit) {
    const Word word(kind, id, static_cast<uint32_t>(payload.size()), credit, sequence);
    std::string frame(reinterpret_cast<const char*>(&word), sizeof(word));
    frame += payload;
    send(frame.data(), frame.size());
    ++cold_;
}

void Rogue::post(ibv_wr_opcode opcode, const void* data, size_t size, uint64_t to, uint32_t rkey,
                 uint32_t immediate) {
    if (over_ || connection_->failed) return;
    memcpy(memory_.data(), data, size);
    ibv_sge piece{.addr = address_of(memory_.data()),
                  .length = static_cast<uint32_t>(size),
                  .lkey = memory_.lkey()};
    ibv_send_wr request{};
    request.wr_id = connection_->tag | connection_->sends.next();
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = opcode;
    request.imm_data = htonl(immediate);
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = to;
    request.wr.rdma.rkey = rkey;
    ibv_send_wr* refused = nullptr;
    if (ibv_post_send(connection_->qp.get(), &request, &refused) == 0)
        connection_->sends.posted(true, false);
    // The next post uses the same memory.
    const auto wait = [this] {
        poll();
        meanwhile();
    };
    (void)until(wait, [this] { return over_ || connection_->sends.idle(); });
}

void Rogue::post_marker(Connection& connection) {
    if (connection.sends.room() == 0) return;
    ibv_send_wr request{};
    request.wr_id = connection.tag | connection.sends.next();
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* refused = nullptr;
    if (ibv_post_send(connection.qp.get(), &request, &refused) == 0)
        connection.sends.posted(true, false);
}

uint64_t Rogue::now() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace tern::test
