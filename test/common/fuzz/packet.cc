// SPDX-License-Identifier: BSD-3-Clause
// Datagrams of the handshake: what is understood has one form only.
#include "tern/connection/packet.h"

#include <algorithm>
#include <array>

#include "fuzz.h"
#include "tern/connection/handshake.h"

using namespace tern;
using fuzz::require;

namespace {

void expect_one_form(const Packet& packet) {
    std::array<std::byte, Packet::kMaxSize> bytes;
    const size_t size = packet.pack(bytes);
    const auto again = Packet::unpack(std::span(bytes).first(size));
    require(again.has_value(), "a packet of this side is not understood");
    std::array<std::byte, Packet::kMaxSize> bytes_again;
    require(again->pack(bytes_again) == size && std::ranges::equal(bytes, bytes_again),
            "a packet changes on its way");
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::Input input(data, size);
    std::vector<std::byte> copy;
    if (input.chance(4)) {
        const auto bytes = input.rest();
        copy.assign(bytes.begin(), bytes.end());
    } else {
        // Of a length that packets have, and with the magic number and the version; the input goes
        // over the rest, which is zeros.
        copy.resize(input.chance(2) ? Packet::kSize : Packet::kMaxSize);
        const uint32_t magic = Packet::kMagic;
        memcpy(copy.data(), &magic, sizeof magic);
        copy[4] = std::byte{Packet::kVersion};
        const auto fields = input.take_bytes(copy.size() - 5);
        std::ranges::copy(fields, copy.begin() + 5);
    }
    size = copy.size();
    const auto packet = Packet::unpack(copy);
    if (!packet) return 0;
    std::array<std::byte, Packet::kMaxSize> packed;
    require(packet->pack(packed) == size && std::equal(copy.begin(), copy.end(), packed.begin()),
            "two packets mean the same");
    if (packet->type == PacketType::kConnect && packet->qp.version == QpParameters::kVersion)
        require(packet->qp.reads >= 1 && packet->qp.reads <= verbs::kMostReads,
                "a queue pair without reads, or with too many");
    require(refusal_text(packet->refusal) != nullptr, "a refusal has no text");

    // What a side without a connection answers is understood, and asks for nothing.
    const PeerAddress self{packet->from.port, packet->to};
    if (const auto answer = answer_stray(*packet, self)) {
        expect_one_form(*answer);
        require(!answer_stray(*answer, packet->from), "answers are answered for ever");
    }
    expect_one_form(alive(*packet, self));
    if (packet->type == PacketType::kConnect)
        expect_one_form(refuse(*packet, self, Refusal::kResources));
    return 0;
}
