// SPDX-License-Identifier: BSD-3-Clause
// `tern-bench order`: whether the bytes of RDMA writes appear in memory in their order, within a
// request and between requests, and whether they are right. On two machines.
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>

#include "bench/measure/link.h"
#include "bench/measure/mark.h"
#include "bench/series/options.h"
#include "bench/tern-bench/command.h"
#include "common/command.h"

namespace bench::order {
namespace {

constexpr uint64_t kSlots = 1024;     // more than Link::kDepth: what a slot held is done
constexpr uint32_t kMostWords = 512;  // of a request
constexpr uint32_t kSlotBytes = (kMostWords + 8) * kWord;
constexpr size_t kCreditAt = kSlots * kSlotBytes;  // where the reader says what it has taken
constexpr uint64_t kCreditEach = kSlots / 4;
constexpr uint64_t kMostAtOnce = 16;  // requests that the reader judges together
constexpr size_t kBytes = 2 * (kCreditAt + 4096);
constexpr uint64_t kLateNs = 2'000'000'000;  // what comes later than that does not come
constexpr uint64_t kJoinNs = 3 * kPatienceNs;

struct OrderOptions {
    std::string host;
    std::string device;
    int gid_index = 0;
    int port = 18600;
    uint64_t count = 1'000'000;
    uint64_t seed = 0;
};

// What the connecting side says first.
struct Hello {
    char name[16] = "tern-order 1";
    uint64_t count = 0;
    uint64_t seed = 0;
};

// What a reader has seen.
struct Seen {
    uint64_t requests = 0;
    uint64_t late_within = 0;   // requests whose end was there before another byte
    uint64_t late_between = 0;  // requests that were not there when a later one was
    bool promised = false;      // the order within a request
    double seconds = 0;
};

uint64_t mixed(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
}

// A request: its place, its length and its words follow from its number and the seed, so that no
// word is one that the place has held.
struct Written {
    Written(uint64_t seed, uint64_t number) : key(mixed(seed + number * 0x9e3779b97f4a7c15)) {
        const uint64_t length = key >> 8;
        words = key % 8 < 4   ? 1 + length % 8  // inline
                : key % 8 < 7 ? 1 + length % 32
                              : 1 + length % kMostWords;
        offset = number % kSlots * kSlotBytes + (key >> 5) % 8 * kWord;
    }
    uint64_t word(uint64_t i) const { return (key + i) * 0x9e3779b97f4a7c15; }
    uint32_t bytes() const { return static_cast<uint32_t>(words * kWord); }
    std::atomic_ref<uint64_t> end(char* memory) const {
        return word_at(memory + offset + (words - 1) * kWord);
    }
    // The first word that is not there; `words` if all are.
    uint64_t missing(const char* memory) const {
        for (uint64_t i = 0; i < words; ++i) {
            uint64_t found;
            std::memcpy(&found, memory + offset + i * kWord, kWord);
            if (found != word(i)) return i;
        }
        return words;
    }

    uint64_t key;
    uint64_t words;
    size_t offset;
};

void write_all(Link& link, const Hello& hello) {
    const auto taken = word_at(link.in() + kCreditAt);
    for (uint64_t number = 1; number <= hello.count; ++number) {
        wait_until(
            "the reader", [&] { return number <= taken.load(std::memory_order_acquire) + kSlots; },
            [&] { link.reap(); });
        const Written request(hello.seed, number);
        for (uint64_t i = 0; i < request.words; ++i) {
            const uint64_t word = request.word(i);
            std::memcpy(link.out() + request.offset + i * kWord, &word, kWord);
        }
        link.write(request.offset, request.bytes(), number == hello.count);
    }
    link.reap_until(0);
}

// A word that is missing for good is wrong.
void wait_for(const Hello& hello, char* memory, uint64_t number, const Written& request) {
    for (const uint64_t end = now_ns() + kLateNs; now_ns() < end;) {
        std::atomic_thread_fence(std::memory_order_acquire);
        if (request.missing(memory) == request.words) return;
    }
    const uint64_t i = request.missing(memory);
    uint64_t found;
    std::memcpy(&found, memory + request.offset + i * kWord, kWord);
    throw Failure(formatted(
        "wrong byte: request %llu of seed %llu, %u bytes at offset %zu of the region: its word "
        "%llu is 0x%016llx, not 0x%016llx, %g s after a later word had come",
        static_cast<unsigned long long>(number), static_cast<unsigned long long>(hello.seed),
        request.bytes(), request.offset, static_cast<unsigned long long>(i),
        static_cast<unsigned long long>(found), static_cast<unsigned long long>(request.word(i)),
        static_cast<double>(kLateNs) / 1e9));
}

// Waits for the end of the last of a few requests, and then looks at all of them.
Seen read_all(Link& link, const Hello& hello) {
    Seen seen{.requests = hello.count, .promised = link.in_order()};
    const uint64_t begin = now_ns();
    uint64_t credit = 0;
    for (uint64_t first = 1; first <= hello.count;) {
        const uint64_t last =
            std::min(hello.count, first + mixed(first ^ hello.seed) % kMostAtOnce);
        const Written awaited(hello.seed, last);
        const uint64_t end = awaited.word(awaited.words - 1);
        wait_until(
            "requests",
            [&] { return awaited.end(link.in()).load(std::memory_order_acquire) == end; },
            [&] { link.reap(); });
        for (uint64_t number = last; number >= first; --number) {
            const Written request(hello.seed, number);
            if (request.missing(link.in()) == request.words) continue;
            ++(number == last ? seen.late_within : seen.late_between);
            wait_for(hello, link.in(), number, request);
        }
        first = last + 1;
        if (last - credit < kCreditEach && last != hello.count) continue;
        credit = last;
        // The place is the source of an earlier request that may still be under way.
        link.reap_until(0);
        word_at(link.out() + kCreditAt).store(credit, std::memory_order_relaxed);
        link.write(kCreditAt, kWord);
    }
    link.reap_until(0);
    seen.seconds = us_since(begin) / 1e6;
    return seen;
}

// A connection to the host, or without one the first that comes to this machine. IPv6 takes IPv4 as
// well, but a machine may have none.
int meet(const std::string& host, int port) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = host.empty() ? AI_PASSIVE : 0;
    addrinfo* found = nullptr;
    const int error = ::getaddrinfo(host.empty() ? nullptr : host.c_str(),
                                    std::to_string(port).c_str(), &hints, &found);
    if (error != 0) throw Failure(host + ": " + ::gai_strerror(error));
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
    std::vector<const addrinfo*> addresses;
    for (const addrinfo* at = found; at != nullptr; at = at->ai_next) addresses.push_back(at);
    if (host.empty())
        std::ranges::stable_partition(addresses,
                                      [](auto* at) { return at->ai_family == AF_INET6; });
    for (const addrinfo* at : addresses) {
        const int fd = ::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (!host.empty() && ::connect(fd, at->ai_addr, at->ai_addrlen) == 0) return fd;
        const tools::Descriptor socket(fd);
        if (!host.empty()) continue;
        const int yes = 1, no = 0;
        ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
        if (::bind(socket.get(), at->ai_addr, at->ai_addrlen) != 0) continue;
        if (::listen(socket.get(), 1) != 0) throw call_failed("listen");
        pollfd ready{socket.get(), POLLIN, 0};
        if (::poll(&ready, 1, static_cast<int>(kJoinNs / 1'000'000)) <= 0)
            throw Failure("no other side has connected");
        return ::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC);
    }
    throw call_failed(host.empty() ? "bind" : "connect to " + host);
}

Peer join(const OrderOptions& options) {
    const int fd = meet(options.host, options.port);
    if (fd < 0) throw call_failed("accept");
    const int yes = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return {Channel(fd, "the other side"), !options.host.empty()};
}

void print(const char* where, const Seen& seen) {
    std::printf(
        "order %s: %llu requests of 8 to %u bytes, %.2f million a second, all bytes right; late "
        "within a request: %llu, between requests: %llu; the device promises %s\n",
        where, static_cast<unsigned long long>(seen.requests), kMostWords * kWord,
        static_cast<double>(seen.requests) / seen.seconds / 1e6,
        static_cast<unsigned long long>(seen.late_within),
        static_cast<unsigned long long>(seen.late_between),
        seen.promised ? "the order within a request" : "no order");
    if (seen.promised && seen.late_within != 0)
        throw Failure("wrong order: the device promises the order of bytes, and did not keep it");
}

void run(const OrderOptions& options) {
    Peer peer = join(options);
    Hello hello{.count = options.count, .seed = options.seed};
    if (peer.measures() && hello.seed == 0) hello.seed = std::random_device()();
    const Hello other = peer.exchange(hello);
    if (std::memcmp(other.name, hello.name, sizeof hello.name) != 0)
        throw Failure("the other side is no tern-bench order of this version");
    if (!peer.measures()) hello = other;
    std::printf("seed %llu\n", static_cast<unsigned long long>(hello.seed));
    Device device(DeviceName(options.device), options.gid_index);
    const auto memory = std::make_unique<char[]>(kBytes);
    Link link(device, peer, memory.get(), kBytes);
    Seen here;
    Seen there;
    // First the connecting side writes, and then the other one.
    for (const bool writes : {peer.measures(), !peer.measures()}) {
        if (writes) {
            write_all(link, hello);
            there = peer.channel().take<Seen>();
        } else {
            here = read_all(link, hello);
            peer.channel().put(here);
        }
    }
    print("there", there);
    print("here", here);
}

}  // namespace
}  // namespace bench::order

int bench::run_order(int argc, char** argv) {
    using namespace order;
    CLI::App app(
        "Writes to the memory of another machine by RDMA, and back, and looks whether the bytes\n"
        "appear in their order, within a request and between requests, and are right. Start it\n"
        "without HOST on one machine, and with that machine's name on the other one.\n"
        "Exit status: 1: a byte was wrong, or late although the device promises the order.",
        "tern-bench order");
    OrderOptions options;
    app.add_option("HOST", options.host, "where the other side waits [wait for it here]");
    app.add_option("--device", options.device, "HCA and port as UCX names them [the first HCA]");
    add_gid_index(app, &options.gid_index, "GID table entry, if addresses are GIDs");
    app.add_option("--port", options.port, "TCP port at which the sides meet")
        ->check(CLI::Range(1, 65535))
        ->capture_default_str();
    app.add_option("--count", options.count, "with HOST: requests in each direction")
        ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40))
        ->capture_default_str();
    app.add_option("--seed", options.seed, "with HOST: repeats a run [a new one]");
    return tools::run_command(&app, argc - 1, argv + 1, [&] {
        run(options);
        return 0;
    });
}
