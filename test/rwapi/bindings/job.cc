// SPDX-License-Identifier: BSD-3-Clause

// A job of three processes with rwapi.hpp: each call once, in the right way and in the wrong one.

#include <poll.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <rwapi.hpp>
#include <string>
#include <vector>

namespace {

constexpr rwapi::Time kLimit = std::chrono::seconds(120);

[[noreturn]] void fail(int line, const std::string& what) {
    std::fprintf(stderr, "job.cc:%d: %s\n", line, what.c_str());
    std::exit(1);
}

#define EXPECT(CONDITION) \
    if (!(CONDITION)) fail(__LINE__, #CONDITION)

// The call throws this error, with the library's text.
template <class Call>
void expect_error(int line, int code, Call&& call) {
    try {
        call();
    } catch (const rwapi::Error& error) {
        if (error.code() == std::error_code(code, rwapi::category()) &&
            std::string(error.what()) == rwapi_strerror(code))
            return;
        fail(line, std::string("another error: ") + error.what());
    }
    fail(line, std::string("no error, but it should be: ") + rwapi_strerror(code));
}
#define EXPECT_ERROR(CODE, CALL) expect_error(__LINE__, CODE, [&] { CALL; })

// What each node has for the others.
struct Shared {
    std::array<char, 64> greeting;
    std::uint64_t word, sum;
    std::array<std::uint32_t, 256> numbers;
};

class Job {
  public:
    explicit Job(rwapi::Context& context)
        : context_(context),
          rank_(context.rank()),
          size_(context.size()),
          next_((rank_ + 1) % size_),
          before_((rank_ + size_ - 1) % size_),
          memory_(context.alloc(sizeof(Shared))),
          shared_(memory_.as<Shared>()[0]),
          nets_(context.share(memory_.net())) {}

    void run() {
        notify();
        signal();
        put();
        read();
        lists();
        atomics();
        messages();
        registrations();
        events();
        mistakes();
        flush();
        context_.barrier();
    }

  private:
    void wait(rwapi_id id) { context_.wait(id, kLimit); }

    void flush() {
        rwapi_id id;
        context_.flush_all(&id);
        wait(id);
        context_.flush(next_, &id);
        wait(id);
        context_.fence(next_);
    }

    void notify() {
        std::string greeting = "node " + std::to_string(rank_) + " says hello";
        rwapi_id id;
        context_.put_notify(nets_[next_], offsetof(Shared, greeting), rwapi::bytes_of(greeting), 5,
                            40 + rank_, &id);
        EXPECT(context_.notify_waitsome(0, 10, kLimit) == 5);
        EXPECT(context_.notify_wait(5, kLimit) == 40u + before_);
        EXPECT(context_.notify_test(5).value() == 40u + before_);
        EXPECT(!context_.notify_test(6));
        EXPECT(shared_.greeting.data() == "node " + std::to_string(before_) + " says hello");
        EXPECT(context_.notify_reset(5) == 1);
        EXPECT(!context_.notify_test(5));
        std::size_t index = 9;
        context_.wait_any(std::span(&id, 1), index, kLimit);
        EXPECT(index == 0 && context_.test(id));
        context_.wait_all(std::span(&id, 1), kLimit);
    }

    void signal() {
        for (int i = 0; i < 2; ++i)
            context_.put_signal(nets_[next_], 0, {}, offsetof(Shared, word), 4, RWAPI_SIGNAL_ADD);
        context_.signal_wait(shared_.word, 8, kLimit);
        EXPECT(rwapi::signal_read(shared_.word) == 8);
    }

    void put() {
        context_.barrier();
        std::vector<std::uint32_t> numbers(shared_.numbers.size());
        std::iota(numbers.begin(), numbers.end(), 1000 * rank_);
        for (std::size_t half = 0; half < 2; ++half) {
            const auto part = std::span(numbers).subspan(half * 128, 128);
            context_.put(rwapi::net_add(nets_[next_], offsetof(Shared, numbers)), half * 512,
                         rwapi::bytes_of(part));
        }
        flush();  // numbers is about to go
        context_.barrier();
        EXPECT(shared_.numbers[200] == 1000u * before_ + 200);
    }

    void read() {
        std::array<std::uint32_t, 256> numbers = {};
        rwapi_id id;
        context_.get(nets_[next_], offsetof(Shared, numbers), rwapi::writable_bytes_of(numbers),
                     &id);
        wait(id);
        EXPECT(numbers[3] == 1000u * rank_ + 3);
    }

    // The first two columns of a matrix of 8 by 8, and then two words, one by one.
    void lists() {
        const auto mine = [](int node, int i) { return 5000u * (node + 1) + i; };
        std::array<std::uint32_t, 64> matrix;
        for (int i = 0; i < 64; ++i) matrix[i] = mine(rank_, i);
        const rwapi_blocks columns{8, 8, 32, 32};
        context_.barrier();
        rwapi_id id;
        context_.put_strided(nets_[next_], offsetof(Shared, numbers), matrix.data(), columns, &id);
        notify(8);
        wait(id);
        context_.notify_wait(8, kLimit);
        EXPECT(shared_.numbers[57] == mine(before_, 57) &&
               shared_.numbers[58] != mine(before_, 58));
        const rwapi_element elements[] = {
            rwapi::element(nets_[next_], offsetof(Shared, numbers) + 400,
                           rwapi::bytes_of(matrix[1])),
            rwapi::element(nets_[next_], offsetof(Shared, numbers) + 800,
                           rwapi::bytes_of(matrix[2]))};
        context_.put_list(elements, &id);
        notify(9);
        wait(id);
        context_.notify_wait(9, kLimit);
        EXPECT(shared_.numbers[100] == mine(before_, 1) &&
               shared_.numbers[200] == mine(before_, 2));
        flush();
        std::array<std::uint32_t, 16> column = {};
        context_.get_strided(nets_[next_], offsetof(Shared, numbers), column.data(), {8, 8, 32, 8},
                             &id);
        wait(id);
        EXPECT(column[14] == matrix[56] && column[15] == matrix[57]);
        matrix[1] = matrix[2] = 0;
        context_.get_list(elements, &id);
        wait(id);
        EXPECT(matrix[1] == mine(rank_, 1) && matrix[2] == mine(rank_, 2));
    }

    void notify(std::uint32_t slot) { context_.put_notify(nets_[next_], 0, {}, slot, 1); }

    void atomics() {
        std::uint64_t found = 99;
        rwapi_id id;
        context_.fetch_add(nets_[0], offsetof(Shared, sum), rank_ + 1, &found, &id);
        wait(id);
        EXPECT(found <= 6);
        context_.barrier();
        const std::uint64_t sum = size_ * (size_ + 1) / 2;
        context_.compare_swap(nets_[0], offsetof(Shared, sum), sum, sum, &found, &id);
        wait(id);
        EXPECT(found == sum);
    }

    void messages() {
        rwapi_small small;
        static_assert(sizeof small == sizeof nets_[rank_]);
        std::memcpy(&small, &nets_[rank_], sizeof small);
        context_.send(next_, small);
        std::optional<rwapi::Context::Message> message;
        while (!(message = context_.receive())) continue;
        EXPECT(message->node == before_);
        rwapi_net net;
        std::memcpy(&net, &message->small, sizeof net);
        EXPECT(rwapi::net_node(net) == before_);
    }

    void registrations() {
        std::vector<double> numbers(100);
        rwapi::Registration registration =
            context_.register_memory(rwapi::writable_bytes_of(numbers), RWAPI_WRITE);
        const std::vector<rwapi_net> nets = context_.share(registration.net());
        const double mine = rank_ + 0.5;
        context_.put_notify(nets[next_], 8, rwapi::bytes_of(mine), 1, 1);
        context_.notify_wait(1, kLimit);
        context_.notify_reset(1);
        EXPECT(numbers[1] == before_ + 0.5);
        flush();
        context_.barrier();
        rwapi::Registration moved = std::move(registration);
        EXPECT(moved && !registration);
        moved.close();
    }

    void events() {
        pollfd fd{context_.event_fd(), POLLIN, 0};
        if (rank_ == 0) context_.put_notify(nets_[next_], 0, {}, 7, 1);
        if (rank_ == 1) {
            while (!context_.notify_test(7)) {
                if (context_.arm()) poll(&fd, 1, 1000);
                while (context_.progress() > 0) continue;
            }
        }
        EXPECT(context_.peer_status(next_) == 0);
    }

    void mistakes() {
        char byte = 1;
        EXPECT_ERROR(RWAPI_ERR_TIMEOUT, context_.notify_wait(6, std::chrono::milliseconds(1)));
        EXPECT_ERROR(RWAPI_ERR_RANGE, context_.notify_test(1u << 30));
        EXPECT_ERROR(RWAPI_ERR_RANGE,
                     (void)context_.put(nets_[next_], sizeof(Shared), rwapi::bytes_of(byte)));
        EXPECT_ERROR(RWAPI_ERR_FOREIGN, (void)context_.put({}, 0, rwapi::bytes_of(byte)));
        EXPECT_ERROR(RWAPI_ERR_NODE, (void)context_.send(size_, {}));
        EXPECT_ERROR(RWAPI_ERR_INVALID, context_.register_memory({}));
        EXPECT_ERROR(RWAPI_ERR_STATE, rwapi::Context::init());
    }

    rwapi::Context& context_;
    const int rank_, size_, next_, before_;
    rwapi::Memory memory_;
    Shared& shared_;
    std::vector<rwapi_net> nets_;
};

}  // namespace

int main() {
    EXPECT_ERROR(RWAPI_ERR_INVALID, {
        rwapi::Params params;
        params.size = 1;
        rwapi::Context context(params);
    });
    int rank;
    {
        rwapi::Params params;
        params.slots = 64;
        rwapi::Context context = rwapi::Context::init(params);
        rank = context.rank();
        EXPECT(context.handle() == nullptr);
        Job(context).run();
        params.threads = RWAPI_THREAD_MULTIPLE;
        params.wait = RWAPI_WAIT_SLEEP;
        rwapi::Context another(params);
        EXPECT(another.handle() != nullptr);
        Job(another).run();
        rwapi::Context moved = std::move(another);
        moved.close();
        EXPECT_ERROR(RWAPI_ERR_STATE, (void)moved.size());
        moved.close();
    }
    EXPECT(rwapi_size() == RWAPI_ERR_STATE);  // the destructor has ended it
    // Memory of an ended context gives back nothing of the next one, which may be at its place.
    rwapi::Memory memory;
    {
        rwapi::Context ended = rwapi::Context::init();
        memory = ended.alloc(1 << 16);
    }
    rwapi::Context next = rwapi::Context::init();
    memory = next.alloc(1 << 16);
    memory.bytes()[0] = std::byte{1};
    memory.close();
    next.close();
    std::printf("node %d: right\n", rank);
    return 0;
}
