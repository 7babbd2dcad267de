// SPDX-License-Identifier: BSD-3-Clause
// Short active messages of UCT to a hot peer, atomics, and polls that find nothing.
#include <memory>
#include <vector>

#include "counted.h"
#include "uct_node.h"

INSTRUCTIONS_SAMPLE(send)
INSTRUCTIONS_SAMPLE(receive)
INSTRUCTIONS_SAMPLE(receive_1)
INSTRUCTIONS_SAMPLE(atomic)
INSTRUCTIONS_SAMPLE(copy)
INSTRUCTIONS_SAMPLE(append)
INSTRUCTIONS_SAMPLE(append_64)
INSTRUCTIONS_SAMPLE(append_copy)
INSTRUCTIONS_SAMPLE(receive_batch)

// `polls` polls, with as little as possible between them: valgrind is slow, and a poll that comes
// some microseconds after the last one looks at more than the blocks (engine/poll_gap.h).
#define SAMPLE_POLLS(name)                                                                   \
    extern "C"                                                                               \
        [[gnu::noinline, gnu::used]] void sample_##name(uct_iface_h iface, unsigned polls) { \
        for (unsigned i = 0; i < polls; ++i) uct_iface_progress(iface);                      \
        asm volatile("" ::: "memory");                                                       \
    }
SAMPLE_POLLS(polls)
SAMPLE_POLLS(poll_1)
SAMPLE_POLLS(poll_16)

namespace instructions {
namespace {

constexpr unsigned kMessages = 16;  // of a sample; one poll takes them
constexpr unsigned kFewer = 8;      // longer ones, which fit into one frame
constexpr unsigned kWarmUp = 300;   // messages after which the peer is hot
constexpr unsigned kPolls = 5;      // of a sample; at most four only look at the blocks
constexpr unsigned kPollSamples = 100;

// Sends one message after the other until the sender is hot.
void warm_up(UctNode& sender, UctNode& receiver) {
    sender.connect(receiver);
    const unsigned before = receiver.received();
    unsigned sent = 0;
    until([&] { return sent == kWarmUp; },
          [&] {
              // The first ones wait for the connection, and cold ones until the peer allows more.
              if (receiver.received() - before == sent && sender.try_send()) ++sent;
              sender.progress();
              receiver.progress();
          },
          "the first messages");
    until([&] { return receiver.received() - before == kWarmUp; },
          [&] {
              sender.progress();
              receiver.progress();
          },
          "the first messages");
}

void settle(UctNode& node) {
    for (int i = 0; i < 200; ++i) node.progress();
}

}  // namespace

void messages() {
    UctNode sender, receiver;
    warm_up(sender, receiver);
    for (unsigned i = 0; i < kSamples; ++i) {
        const unsigned before = receiver.received();
        settle(sender);
        settle(receiver);
        sample_send(kMessages, [&] { sender.send(); });
        sample_receive(1, [&] { receiver.progress(); });
        require(receiver.received() - before == kMessages, "a poll that takes all messages");
    }
    for (unsigned i = 0; i < kSamples; ++i) {
        const unsigned before = receiver.received();
        settle(sender);
        settle(receiver);
        sender.send();
        sample_receive_1(1, [&] { receiver.progress(); });
        require(receiver.received() - before == 1, "a poll that takes the message");
    }
    for (unsigned i = 0; i < kSamples; ++i) {
        settle(sender);
        settle(receiver);
        sample_copy(2, [&] { sender.send_packed(200); });
    }
    receiver.share(sender);
    for (unsigned i = 0; i < kSamples; ++i) {
        settle(sender);
        sample_atomic(kMessages, [&] { sender.add(); });
        until([&] { return sender.adding() == 0; }, [&] { sender.progress(); }, "atomics");
    }
}

// Every message is held back: the first one begins a frame, and the others are appended.
void batches() {
    UctNode sender, receiver;
    warm_up(sender, receiver);
    for (unsigned i = 0; i < kSamples; ++i) {
        const unsigned before = receiver.received();
        settle(sender);
        settle(receiver);
        sender.send();
        sample_append(kMessages - 1, [&] { sender.send(); });
        settle(sender);
        sample_receive_batch(1, [&] { receiver.progress(); });
        require(receiver.received() - before == kMessages, "a poll that takes all messages");
    }
    for (unsigned i = 0; i < kSamples; ++i) {
        settle(sender);
        settle(receiver);
        sender.send();
        sample_append_64(kFewer, [&] { sender.send(56); });
    }
    for (unsigned i = 0; i < kSamples; ++i) {
        settle(sender);
        settle(receiver);
        sender.send();
        sample_append_copy(2, [&] { sender.send_packed(200); });
    }
}

// Before each sample callgrind writes a file, so the first poll of a sample looks at everything.
void polls() {
    UctNode receiver;
    std::vector<std::unique_ptr<UctNode>> senders;
    const auto settle_with = [&](unsigned peers) {
        while (senders.size() < peers) {
            senders.push_back(std::make_unique<UctNode>());
            warm_up(*senders.back(), receiver);
        }
        settle(receiver);
    };
    settle_with(1);
    for (unsigned i = 0; i < kSamples; ++i) sample_poll_1(receiver.iface(), 1);
    for (unsigned i = 0; i < kPollSamples; ++i) sample_polls(receiver.iface(), kPolls);
    settle_with(16);
    for (unsigned i = 0; i < kSamples; ++i) sample_poll_16(receiver.iface(), 1);
}

}  // namespace instructions
