// SPDX-License-Identifier: BSD-3-Clause
// What rwapi gets from peers and launchers: addresses, keys, network addresses, small messages with
// their credit, and values of PMI-1.
#include <algorithm>
#include <vector>

#include "fuzz.h"
#include "rwapi/bootstrap/pmi1_message.h"
#include "rwapi/core/credit.h"
#include "rwapi/core/key.h"
#include "rwapi/core/messages.h"
#include "rwapi/core/net.h"
#include "rwapi/core/published_address.h"

using namespace rwapi;
using tern::fuzz::Input;
using tern::fuzz::require;

namespace {

std::vector<std::byte> copy_of(std::span<const std::byte> bytes) {
    return {bytes.begin(), bytes.end()};
}

void keys(Input& input) {
    std::vector<std::byte> bytes = copy_of(input.rest());
    // The magic number and the sum are made right, or nothing would get any further.
    if (bytes.size() >= 8) {
        const uint32_t magic = Key::kMagic;
        memcpy(bytes.data(), &magic, sizeof magic);
        uint32_t sum = 2166136261u;
        for (size_t i = 8; i < bytes.size(); ++i)
            sum = (sum ^ std::to_integer<uint8_t>(bytes[i])) * 16777619u;
        memcpy(&bytes[4], &sum, sizeof sum);
    }
    Key key;
    if (!key.unpack(bytes)) return;
    std::vector<std::byte> again(Key::kMaxBytes);
    require(
        key.pack(again) == bytes.size() && std::equal(bytes.begin(), bytes.end(), again.begin()),
        "a key changes on its way");
    require(key.pack(std::span(again).first(bytes.size() - 1)) == 0,
            "a key is written behind its room");
}

void published(Input& input) {
    std::vector<std::byte> bytes = copy_of(input.rest());
    const uint32_t magic = AddressHeader::kMagic;
    if (bytes.size() >= sizeof magic) memcpy(bytes.data(), &magic, sizeof magic);
    PublishedAddress address;
    if (!address.unpack(bytes)) return;
    require(address.pack() == bytes || bytes[39] != std::byte{}, "an address changes on its way");
    require(address.fits(address), "an address does not fit itself");
}

void networks(Input& input) {
    const auto incarnation = input.take<uint64_t>();
    rwapi_net net{};
    memcpy(&net, input.take_bytes(sizeof net).data(), input.empty() ? 0 : sizeof net);
    const NetAddress address = NetAddress::unpack(net);
    require(address.node <= NetAddress::kMaxNode && address.offset <= NetAddress::kMaxOffset,
            "a network address outside its bounds");
    const rwapi_net again = address.pack(incarnation);
    // No region has generation 0.
    require(NetAddress::made_by(incarnation, again) == (address.generation != 0),
            "an own address is foreign, or that of no region is not");
    require(!NetAddress::made_by(incarnation, net) ||
                (again.word[0] == net.word[0] && again.word[1] == net.word[1]),
            "a network address has two forms");
}

// One side sends honestly; the other returns and sends what it likes.
void small_messages(Input& input) {
    const uint32_t credit = 1 + input.below(64);
    SmallSender sender;
    SmallReceiver receiver;
    Inbox inbox;
    sender.open(credit);
    receiver.open(credit);
    inbox.add_sender(credit);
    uint32_t held = 0;
    while (!input.empty()) {
        switch (input.below(5)) {
            case 0:
                (void)sender.spend();
                break;
            case 1:
                (void)sender.add(input.take<uint16_t>() % (input.chance(2) ? 8 : 65536));
                break;
            case 2:
                if (!receiver.on_arrival()) break;
                inbox.push({0, {}});
                ++held;
                break;
            case 3: {
                Inbox::Message message;
                require(inbox.pop(message) == (held != 0), "a message is lost, or comes twice");
                if (held == 0) break;
                --held;
                (void)receiver.on_received();
                break;
            }
            case 4:
                receiver.on_returned(std::min(receiver.owed(), uint32_t{input.take<uint8_t>()}));
                break;
        }
        require(sender.left() <= credit, "more credit than there is");
        require(held + receiver.owed() <= credit && inbox.room() <= 2 * size_t{credit},
                "more messages than there is room for");
    }
}

void lines(Input& input) {
    LineBuffer buffer;
    size_t taken = 0;
    size_t given = 0;
    while (!input.empty()) {
        const auto bytes = input.take_bytes(1 + input.below(256));
        given += bytes.size();
        if (!buffer.append({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) {
            require(!buffer.next(), "a line after one that is too long");
            return;
        }
        while (const auto line = buffer.next()) {
            taken += line->size() + 1;
            require(line->find('\n') == std::string::npos && line->size() <= kPmi1MaxLine,
                    "a line that is none");
            const auto message = Pmi1Message::parse(*line);
            if (!message) continue;
            require(message->text("cmd") == message->command(), "a message without a command");
            const auto number = message->number("rc", -5, 5);
            require(!number || (*number >= -5 && *number <= 5), "a number out of its bounds");
        }
    }
    require(taken <= given, "more lines than there were");
}

void values(Input& input) {
    std::vector<std::byte> decoded;
    if (input.chance(2)) {  // what is encoded is decoded
        const std::vector<std::byte> address = copy_of(input.rest());
        if (address.empty() || address.size() > kMaxAddress) return;
        require(decode_value(encode_value(address), decoded) && decoded == address,
                "an address changes on its way");
        return;
    }
    const auto bytes = input.rest();
    if (decode_value({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, decoded))
        require(2 * decoded.size() == bytes.size(), "an address of another length");
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input(data, size);
    constexpr void (*kParts[])(Input&) = {keys, published, networks, small_messages, lines, values};
    kParts[input.below(std::size(kParts))](input);
    return 0;
}
