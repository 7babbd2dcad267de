// SPDX-License-Identifier: BSD-3-Clause
// Handshake packets on the wire.
#include "tern/connection/packet.h"

#include <gtest/gtest.h>

#include <vector>

#include "schedules.h"

namespace tern {
namespace {

using Wire = std::vector<std::byte>;

Wire packed(const Packet& packet) {
    std::array<std::byte, Packet::kMaxSize> bytes;
    bytes.fill(std::byte{0xee});
    const size_t size = packet.pack(bytes);
    EXPECT_TRUE(size == Packet::kSize || size == Packet::kMaxSize) << size;
    return Wire(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
}

bool same(const Packet& a, const Packet& b) {
    return a.type == b.type && a.ready == b.ready && a.knows_ready == b.knows_ready &&
           a.token == b.token && a.peer_token == b.peer_token && a.from == b.from && a.to == b.to &&
           a.qp == b.qp && a.refusal == b.refusal && a.sent == b.sent;
}

uint32_t not_zero(Random& random) {
    return static_cast<uint32_t>(random()) | 1;
}
uint32_t bits24(Random& random) {
    return static_cast<uint32_t>(random.below(1 << 24));
}

PortAddress lid_port(Random& random) {
    PortAddress port;
    port.has_lid = true;
    port.lid = static_cast<uint16_t>(random.between(1, 0xbfff));
    port.has_gid = random.chance(50);
    if (port.has_gid) port.gid = {0xfe, 0x80, 1, 2, 3, 4, 5, 6, 7};
    return port;
}
PortAddress roce_port(Random& random) {
    PortAddress port;
    port.ethernet = true;
    port.roce.families = static_cast<uint8_t>(random.between(1, 63));
    if (port.roce.has(verbs::GidKind::kIpv4))
        port.roce.gids[0] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
    if (port.roce.has(verbs::GidKind::kIpv6)) port.roce.gids[1] = {0x20, 1, 0x0d, 0xb8, 1};
    if (port.roce.has(verbs::GidKind::kLinkLocal))
        port.roce.gids[2] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3};
    return port;
}

Packet random_packet(Random& random) {
    Packet packet;
    packet.type = static_cast<PacketType>(random.between(1, 7));
    const bool left = packet.type == PacketType::kLeft;
    packet.token = left ? 0 : not_zero(random);
    packet.peer_token = left ? 0 : not_zero(random);
    packet.from.port = random.chance(50) ? lid_port(random) : roce_port(random);
    packet.from.interface = {bits24(random), random.below(uint64_t{1} << 40)};
    if (!left && packet.type != PacketType::kPing)
        packet.from.path = static_cast<uint8_t>(random.below(16));
    packet.to = {bits24(random), random.below(uint64_t{1} << 40)};
    if (packet.type == PacketType::kDisconnect ||
        (packet.type == PacketType::kGone && random.chance(50)))
        packet.sent = {static_cast<uint16_t>(random()), static_cast<uint16_t>(random())};
    else if (packet.type == PacketType::kGone && random.chance(50)) {
        packet.refusal = static_cast<Refusal>(random.between(1, 255));
        if (random.chance(50)) packet.token = 0;
    }
    if (packet.type != PacketType::kConnect) return packet;
    packet.ready = random.chance(50);
    packet.knows_ready = packet.ready && random.chance(50);
    if (!packet.ready && random.chance(50)) packet.peer_token = 0;
    packet.qp = {bits24(random), static_cast<uint8_t>(random.between(1, 5)),
                 static_cast<uint8_t>(random()), static_cast<uint8_t>(random.between(1, 16)),
                 static_cast<uint8_t>(random.below(8))};
    return packet;
}

// Empty if `wire` is refused, or all fields of its packet are valid; otherwise the error.
std::string check(std::span<const std::byte> wire) {
    const auto packet = Packet::unpack(wire);
    if (!packet) return {};
    const auto type = static_cast<unsigned>(packet->type);
    if (type < 1 || type > 7) return "an unknown type";
    if (packet->from.interface.qp_num >> 24 != 0 || packet->to.qp_num >> 24 != 0 ||
        packet->qp.qp_num >> 24 != 0)
        return "more than 24 bits";
    if (packet->type == PacketType::kConnect) {
        if (packet->qp.mtu < 1 || packet->qp.mtu > 5) return "no MTU";
        if (packet->qp.reads > 16) return "more reads than there may be";
        if (packet->qp.lmc > 7) return "more LIDs than there may be";
    } else if (packet->qp != QpParameters{} || packet->ready || packet->knows_ready) {
        return "a queue pair that nobody offers";
    }
    if (packet->from.path >= 16) return "an unknown path";
    if (packet->sent && packet->type != PacketType::kDisconnect &&
        packet->type != PacketType::kGone)
        return "frames of a connection that does not end";
    const Wire again = packed(*packet);
    return std::ranges::equal(again, wire) ? "" : "a packet that would be sent differently";
}

TEST(Packet, HasTheDocumentedLayout) {
    Packet packet;
    packet.ready = true;
    packet.token = 0x01020304;
    packet.peer_token = 0x05060708;
    packet.to = {0x0a0b0c, 0x1112131415};
    packet.from.interface = {0x0d0e0f, 0x2122232425};
    packet.from.port.has_lid = true;
    packet.from.port.lid = 0x3132;
    packet.qp = {0x414243, 5, 0x61, 9, 7};
    packet.from.path = 11;
    const uint8_t expected[Packet::kSize] = {
        'T',  'E',  'R',  'N',  1,    1,    1,    0,     // magic, version, type, flags
        4,    3,    2,    1,    8,    7,    6,    5,     // tokens
        0x0c, 0x0b, 0x0a, 0x15, 0x14, 0x13, 0x12, 0x11,  // to
        0x0f, 0x0e, 0x0d, 0x25, 0x24, 0x23, 0x22, 0x21,  // from
        0x43, 0x42, 0x41, 5,    9,    7,    11,   0x61,  // queue pair, path
        193,  0x32, 0x31};
    const Wire wire = packed(packet);
    ASSERT_EQ(wire.size(), sizeof(expected));
    for (size_t i = 0; i < wire.size(); ++i)
        EXPECT_EQ(std::to_integer<int>(wire[i]), expected[i]) << "byte " << i;
}

TEST(Packet, IsLongerForAPortWithManyGids) {
    Packet packet;
    packet.token = packet.qp.mtu = 1;
    packet.from.port.ethernet = true;
    packet.from.port.roce.families = 1;
    packet.from.port.roce.gids[0] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
    EXPECT_EQ(packed(packet).size(), 64u);
    packet.from.port.roce.families = 7;
    packet.from.port.roce.gids[1] = {0x20, 1, 0x0d, 0xb8, 1};
    packet.from.port.roce.gids[2] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1};
    Wire wire = packed(packet);
    EXPECT_EQ(wire.size(), 72u);
    EXPECT_TRUE(Packet::unpack(wire));
    wire.resize(64);
    EXPECT_FALSE(Packet::unpack(wire)) << "cut within the address";
}

TEST(Packet, ComesBackAsItWas) {
    each_schedule(50'000, [](Random random) -> std::string {
        const Packet packet = random_packet(random);
        const auto back = Packet::unpack(packed(packet));
        return back && same(*back, packet) ? "" : "not the same";
    });
}

TEST(Packet, RefusesEveryOtherLength) {
    Random random(1);
    const Wire wire = packed(random_packet(random));
    for (size_t size = 0; size < 2 * Packet::kMaxSize; ++size) {
        Wire other = wire;
        other.resize(size);
        EXPECT_EQ(Packet::unpack(other).has_value(), size == wire.size()) << size;
    }
}

TEST(Packet, RefusesWhatNobodySends) {
    Packet good;
    good.token = 1;
    good.peer_token = 2;
    good.from.port.has_lid = true;
    good.from.port.lid = 1;
    good.qp = {.mtu = 3, .version = QpParameters::kVersion, .reads = 16};
    ASSERT_TRUE(Packet::unpack(packed(good)));

    const auto refuses = [&](auto change) {
        Packet packet = good;
        change(packet);
        return !Packet::unpack(packed(packet));
    };
    EXPECT_TRUE(refuses([](Packet& packet) { packet.token = 0; }));
    EXPECT_TRUE(refuses([](Packet& packet) { packet.knows_ready = true; })) << "and is not ready";
    EXPECT_TRUE(refuses([](Packet& packet) {
        packet.ready = true;
        packet.peer_token = 0;
    })) << "ready for whom?";
    EXPECT_TRUE(refuses([](Packet& packet) { packet.qp.mtu = 0; }));
    EXPECT_TRUE(refuses([](Packet& packet) { packet.qp.mtu = 6; }));
    EXPECT_TRUE(refuses([](Packet& packet) { packet.qp.reads = 0; }));
    EXPECT_FALSE(refuses([](Packet& packet) {
        packet.qp.reads = 0;
        packet.qp.version = QpParameters::kVersion - 1;
    })) << "it must learn that the versions differ";
    EXPECT_TRUE(refuses([](Packet& packet) { packet.qp.reads = 17; }));
    EXPECT_TRUE(refuses([](Packet& packet) { packet.qp.lmc = 8; }));
    EXPECT_FALSE(refuses([](Packet& packet) { packet.from.path = 15; }));
    EXPECT_TRUE(refuses([](Packet& packet) { packet.from.path = 16; }));
    EXPECT_TRUE(refuses([](Packet& packet) {
        packet.type = PacketType::kPing;
        packet.from.path = 1;
    })) << "it is of no connection";
    EXPECT_TRUE(refuses([](Packet& packet) { packet.from.port.lid = 0; }));
    for (const auto type : {PacketType::kDisconnect, PacketType::kSpare, PacketType::kGone}) {
        const auto of_type = [&](Packet& packet) {
            packet.type = type;
            if (type == PacketType::kDisconnect) packet.sent = SentFrames{};
        };
        EXPECT_FALSE(refuses(of_type));
        EXPECT_TRUE(refuses([&](Packet& packet) {
            of_type(packet);
            packet.token = 0;
        }));
        EXPECT_TRUE(refuses([&](Packet& packet) {
            of_type(packet);
            packet.peer_token = 0;
        }));
    }
    EXPECT_TRUE(refuses([](Packet& packet) { packet.type = PacketType::kDisconnect; }))
        << "what has been sent?";
    EXPECT_TRUE(refuses([](Packet& packet) {
        packet.type = PacketType::kSpare;
        packet.sent = SentFrames{};
    })) << "the connection does not end";

    // A closed interface has no connections to name.
    for (const std::pair<uint32_t, uint32_t> tokens : {std::pair(0, 0), {1, 0}, {0, 2}})
        EXPECT_EQ(refuses([&](Packet& packet) {
                      packet = {.type = PacketType::kLeft,
                                .token = tokens.first,
                                .peer_token = tokens.second,
                                .from = good.from};
                  }),
                  tokens.first + tokens.second != 0);
    EXPECT_TRUE(refuses([&](Packet& packet) {
        packet = {.type = PacketType::kLeft, .from = good.from.on_path(1)};
    }));

    const auto refuses_byte = [&](size_t at, int value) {
        Wire wire = packed(good);
        wire[at] = static_cast<std::byte>(value);
        return !Packet::unpack(wire);
    };
    EXPECT_TRUE(refuses_byte(0, 't')) << "magic";
    EXPECT_TRUE(refuses_byte(4, 2)) << "version";
    EXPECT_TRUE(refuses_byte(5, 0)) << "type";
    EXPECT_TRUE(refuses_byte(5, 8)) << "type";
    EXPECT_TRUE(refuses_byte(6, 4)) << "flags";
    EXPECT_TRUE(refuses_byte(7, 1)) << "padding";
    EXPECT_TRUE(refuses_byte(43, 1)) << "behind the port";
    EXPECT_TRUE(refuses_byte(63, 1)) << "the end";
}

TEST(Packet, AnEndNamesTheFramesThatWereSent) {
    Packet packet;
    packet.type = PacketType::kDisconnect;
    packet.token = 1;
    packet.peer_token = 2;
    packet.from.port.has_lid = true;
    packet.from.port.lid = 3;
    packet.sent = {.hot = 0x1234, .cold = 0xfedc};
    const Wire wire = packed(packet);
    EXPECT_EQ(wire[6], std::byte{4});
    const std::array expected{std::byte{0x34}, std::byte{0x12}, std::byte{0xdc}, std::byte{0xfe}};
    EXPECT_TRUE(std::ranges::equal(std::span(wire).subspan(32, 4), expected));
    EXPECT_EQ(Packet::unpack(wire)->sent, packet.sent);
}

TEST(Packet, BitFlipsAreRefusedOrSayWhatTheySay) {
    each_schedule(2'000, [](Random random) -> std::string {
        const Wire good = packed(random_packet(random));
        for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
            Wire wire = good;
            wire[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
            const std::string wrong = check(wire);
            if (!wrong.empty()) return wrong + ", bit " + std::to_string(bit);
        }
        return {};
    });
}

TEST(Packet, RandomBytesAreRefusedOrSayWhatTheySay) {
    unsigned taken = 0;
    each_schedule(200'000, [&](Random random) -> std::string {
        // Starts from a good packet, because random bytes would never be accepted.
        Wire wire = packed(random_packet(random));
        for (unsigned count = static_cast<unsigned>(random.below(12)); count > 0; --count)
            wire[random.below(wire.size())] = static_cast<std::byte>(random());
        if (random.chance(10))
            for (std::byte& byte : wire) byte = static_cast<std::byte>(random());
        if (Packet::unpack(wire)) ++taken;
        return check(wire);
    });
    if (number_from_environment("TERN_SCHEDULES", 0) == 0) {
        EXPECT_GT(taken, 10'000u / kShareOfSchedules);
    }
}

}  // namespace
}  // namespace tern
