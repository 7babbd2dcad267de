// SPDX-License-Identifier: BSD-3-Clause
// Long messages over verbs alone: RDMA writes between registered buffers, which are the limit, and
// the two naive protocols between unregistered buffers.
#include <cstring>
#include <utility>

#include "bench/measure/machine.h"
#include "bench/measure/traffic.h"
#include "bench/tern-bench/arms.h"

namespace bench {
namespace {

// The receiver recognises a message by the number in its last word. The numbers only grow.
class LargePort : public Port {
  public:
    LargePort(Peer& peer, Memory::Kind kind, const DeviceName& name, int gid_index,
              uint64_t registered)
        : peer_(peer),
          device_(name),
          memory_(kind, 2 * registered),
          link_(device_, peer, gid_index, memory_.data(), 2 * registered) {}

    Samples run(const Order& order) override {
        walk_out_.begin(order);
        walk_in_.begin(order);
        prepare(order.size);
        peer_.meet();
        Samples samples = round_trips(
            peer_, order, [&] { send(order.size); }, [&] { receive(order.size); });
        link_.reap_until(0);
        finish();
        peer_.meet();
        return samples;
    }

  protected:
    // Called before the first message of an order, and after the last one.
    virtual void prepare(uint32_t) {}
    virtual void finish() {}
    virtual void send(uint32_t size) = 0;
    virtual void receive(uint32_t size) = 0;

    void wait_for(char* last, uint64_t number) {
        // As transports do; the software HCA also places due data then.
        wait_for_word(last, number, [this] { link_.reap(); });
    }

    Peer& peer_;
    Device device_;
    Memory memory_;
    Link link_;
    Walk walk_out_;
    Walk walk_in_;
};

// RDMA writes between registered buffers: the limit.
class WritePort : public LargePort {
  public:
    WritePort(Peer& peer, Memory::Kind kind, const DeviceName& name, int gid_index)
        : LargePort(peer, kind, name, gid_index, kGround) {}

  private:
    void send(uint32_t size) override {
        const uint64_t at = walk_out_.step();
        word_at(link_.out() + at + size - kWord).store(++link_.sequence, std::memory_order_relaxed);
        link_.post(IBV_WR_RDMA_WRITE, at, size);
    }
    void receive(uint32_t size) override {
        wait_for(link_.in() + walk_in_.step() + size - kWord, ++link_.sequence);
    }
};

// Each message is copied into registered memory, written in one piece, and copied out at the
// receiver.
class CopyPort : public LargePort {
  public:
    CopyPort(Peer& peer, Memory::Kind kind, const DeviceName& name, int gid_index)
        : LargePort(peer, kind, name, gid_index, kLongest),
          out_(Memory::Kind::kPrivate, kGround),
          in_(Memory::Kind::kPrivate, kGround) {}

  private:
    void send(uint32_t size) override {
        char* const from = out_.data() + walk_out_.step();
        word_at(from + size - kWord).store(++link_.sequence, std::memory_order_relaxed);
        link_.reap_until(0);
        std::memcpy(link_.out(), from, size);
        link_.post(IBV_WR_RDMA_WRITE, 0, size);
    }
    void receive(uint32_t size) override {
        wait_for(link_.in() + size - kWord, ++link_.sequence);
        std::memcpy(in_.data() + walk_in_.step(), link_.in(), size);
    }

    Memory out_;
    Memory in_;
};

// Both sides register their buffers for each message, at the same time: the receiver sends its key
// as soon as it waits for the message.
class RegisterPort : public LargePort {
  public:
    RegisterPort(Peer& peer, Memory::Kind kind, const DeviceName& name, int gid_index)
        : LargePort(peer, Memory::Kind::kShared, name, gid_index, kControl),
          out_(kind, kGround),
          in_(kind, kGround) {}

  private:
    static constexpr uint64_t kControl = 64 << 10;
    struct Ready {
        uint64_t address;
        uint64_t key;
        uint64_t number;
    };

    void prepare(uint32_t size) override {
        offer_next_ = false;
        if (!peer_.measures()) offer(size);
    }
    void finish() override {
        mine_.reset();
        from_.reset();
    }
    // Registers the buffer of the next message and sends its key. No other message is outstanding
    // in this direction.
    void offer(uint32_t size) {
        into_ = in_.data() + walk_in_.step();
        mine_ = device_.register_memory(into_, size);
        const Ready ready{reinterpret_cast<uint64_t>(into_), mine_->rkey, ++offers_};
        std::memcpy(link_.out(), &ready, sizeof ready);
        link_.post(IBV_WR_RDMA_WRITE, 0, sizeof ready);
    }
    void send(uint32_t size) override {
        char* const from = out_.data() + walk_out_.step();
        word_at(from + size - kWord).store(++link_.sequence, std::memory_order_relaxed);
        from_ = device_.register_memory(from, size);
        wait_for(link_.in() + sizeof(Ready) - kWord, ++accepts_);
        Ready ready;
        std::memcpy(&ready, link_.in(), sizeof ready);
        link_.post_write(
            {from, from_->lkey, ready.address, static_cast<uint32_t>(ready.key), size});
        offer_next_ = true;
    }
    void receive(uint32_t size) override {
        if (std::exchange(offer_next_, false)) offer(size);
        wait_for(into_ + size - kWord, ++link_.sequence);
        mine_.reset();
        link_.reap_until(0);
        from_.reset();
    }

    Memory out_;
    Memory in_;
    tern::verbs::MemoryRegion mine_;
    tern::verbs::MemoryRegion from_;
    char* into_ = nullptr;
    bool offer_next_ = false;
    uint64_t offers_ = 0;
    uint64_t accepts_ = 0;
};

}  // namespace

std::unique_ptr<Port> open_large_port(Peer& peer, const WorkerJob& job) {
    const DeviceName name(job.device);
    const std::string protocol = job.what;
    const auto kind = protocol.ends_with("shared") ? Memory::Kind::kShared : Memory::Kind::kPrivate;
    if (protocol.starts_with("write")) {
        return std::make_unique<WritePort>(peer, kind, name, job.gid_index);
    }
    if (protocol.starts_with("copy")) {
        return std::make_unique<CopyPort>(peer, kind, name, job.gid_index);
    }
    return std::make_unique<RegisterPort>(peer, kind, name, job.gid_index);
}

}  // namespace bench
