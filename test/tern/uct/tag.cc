// SPDX-License-Identifier: BSD-3-Clause
#include "tag.h"

#include <algorithm>
#include <cstring>

namespace uct_test {
namespace {

constexpr auto kBlank = std::byte{0xff};

std::string text(const void* data, std::size_t length) {
    return {static_cast<const char*>(data), length};
}

std::size_t copy_out(void* to, void* argument) {
    const Bytes& message = *static_cast<const Bytes*>(argument);
    std::ranges::copy(message, static_cast<std::byte*>(to));
    return message.size();
}

Settings matching(Settings settings) {
    settings.insert({"TM_ENABLE", "y"});
    return settings;
}

}  // namespace

void Mailbox::add_to(uct_iface_params_t& params) {
    params.field_mask |= UCT_IFACE_PARAM_FIELD_HW_TM_EAGER_CB |
                         UCT_IFACE_PARAM_FIELD_HW_TM_EAGER_ARG |
                         UCT_IFACE_PARAM_FIELD_HW_TM_RNDV_CB |
                         UCT_IFACE_PARAM_FIELD_HW_TM_RNDV_ARG | UCT_IFACE_PARAM_FIELD_RX_HEADROOM;
    params.eager_cb = on_eager;
    params.rndv_cb = on_rndv;
    params.eager_arg = params.rndv_arg = this;
    params.rx_headroom = kHeadroom;
    params.features |= UCT_IFACE_FEATURE_TAG;
}

ucs_status_t Mailbox::on_eager(void* self, void* data, size_t length, unsigned flags, uct_tag_t tag,
                               uint64_t immediate, void**) {
    auto& box = *static_cast<Mailbox*>(self);
    box.messages.push_back(
        {.tag = tag, .immediate = immediate, .flags = flags, .data = text(data, length)});
    if (box.on_message) box.on_message(box.messages.back());
    if (!box.keep || (flags & UCT_CB_PARAM_FLAG_DESC) == 0) return UCS_OK;
    // The headroom belongs to the user.
    std::memset(static_cast<std::byte*>(data) - kHeadroom, 0xaa, kHeadroom);
    box.kept.push_back({static_cast<const std::byte*>(data), length});
    return UCS_INPROGRESS;
}

ucs_status_t Mailbox::on_rndv(void* self, unsigned flags, uint64_t tag, const void* header,
                              unsigned header_length, uint64_t address, size_t length,
                              const void* key) {
    auto& box = *static_cast<Mailbox*>(self);
    Unexpected message{.request = true,
                       .tag = tag,
                       .flags = flags,
                       .data = text(header, header_length),
                       .address = address,
                       .length = length};
    if (address != 0) {
        message.remote.address = address;
        std::memcpy(message.remote.key.data(), key, 16);
    }
    box.messages.push_back(message);
    if (box.on_message) box.on_message(message);
    return UCS_OK;
}

void Mailbox::release() {
    for (const Bytes& each : kept)
        uct_iface_release_desc(const_cast<std::byte*>(each.data()) - kHeadroom);
    kept.clear();
}

TagEntity::TagEntity(Settings settings)
    : entity(matching(std::move(settings)), std::make_shared<Host>(),
             [this](uct_iface_params_t& params) { mailbox->add_to(params); }) {}

Receive::Receive(TagEntity& at, std::size_t room)
    : iface_(at.entity.iface()), memory_(at.entity.host(), room + 64), room_(room) {
    std::ranges::fill(memory_.part(0, memory_.size()), kBlank);
    context_.owner = this;
    context_.tag_consumed_cb = [](uct_tag_context_t* self) { ++of(self).consumed; };
    context_.completed_cb = [](uct_tag_context_t* self, uct_tag_t stag, uint64_t imm, size_t size,
                               void* inline_data, ucs_status_t result) {
        Receive& receive = of(self);
        ++receive.completed;
        receive.tag = stag;
        receive.immediate = imm;
        receive.length = size;
        receive.status = result;
        receive.in_place = inline_data == nullptr;
        if (result == UCS_OK && inline_data != nullptr && size != 0 && size <= receive.room_)
            std::memcpy(receive.memory_.data(), inline_data, size);
        if (receive.then) receive.then();
    };
    context_.rndv_cb = [](uct_tag_context_t* self, uct_tag_t stag, const void* data, unsigned size,
                          ucs_status_t result, unsigned how) {
        Receive& receive = of(self);
        ++receive.requested;
        receive.tag = stag;
        receive.header = text(data, size);
        receive.status = result;
        receive.flags = how;
    };
}

ucs_status_t Receive::post(uct_tag_t wanted, uct_tag_t mask) {
    const uct_iov_t iov = memory_.iov(0, room_);
    return uct_iface_tag_recv_zcopy(iface_, wanted, mask, &iov, 1, &context_);
}

ucs_status_t Receive::cancel(bool force) {
    return uct_iface_tag_recv_cancel(iface_, &context_, force ? 1 : 0);
}

bool Receive::clean() const {
    const std::size_t used = status == UCS_OK ? std::min(length, room_) : 0;
    const auto rest = memory_.part(used, memory_.size() - used);
    return std::ranges::all_of(rest, [](std::byte byte) { return byte == kBlank; });
}

ucs_status_t tag_short(const Endpoint& ep, uct_tag_t tag, Bytes message) {
    return uct_ep_tag_eager_short(ep.get(), tag, message.data(), message.size());
}

ucs_status_t tag_bcopy(const Endpoint& ep, uct_tag_t tag, Bytes message, uint64_t immediate) {
    const ssize_t sent = uct_ep_tag_eager_bcopy(ep.get(), tag, immediate, copy_out, &message, 0);
    if (sent < 0) return static_cast<ucs_status_t>(sent);
    EXPECT_EQ(static_cast<std::size_t>(sent), message.size());
    return UCS_OK;
}

ucs_status_t tag_zcopy(const Endpoint& ep, uct_tag_t tag, std::span<const uct_iov_t> message,
                       Completion* completion, uint64_t immediate) {
    return uct_ep_tag_eager_zcopy(ep.get(), tag, immediate, message.data(), message.size(), 0,
                                  completion);
}

ucs_status_t tag_request(const Endpoint& ep, uct_tag_t tag, const std::string& header) {
    return uct_ep_tag_rndv_request(ep.get(), tag, header.data(),
                                   static_cast<unsigned>(header.size()), 0);
}

void* tag_rndv(const Group& who, const Endpoint& ep, uct_tag_t tag, const Declared& from,
               std::size_t length, Completion& completion, const std::string& header) {
    const uct_iov_t iov = from.iov(0, length);
    ucs_status_ptr_t operation = nullptr;
    EXPECT_TRUE(accepted(who, [&] {
        operation =
            uct_ep_tag_rndv_zcopy(ep.get(), tag, header.data(),
                                  static_cast<unsigned>(header.size()), &iov, 1, 0, &completion);
        return UCS_PTR_IS_ERR(operation) ? UCS_PTR_STATUS(operation) : UCS_OK;
    }));
    return operation;
}

void TagPair::send(uct_tag_t tag, Bytes message, uint64_t immediate) {
    EXPECT_TRUE(accepted(all, [&] { return tag_bcopy(ep, tag, message, immediate); }));
}

void* TagPair::announce(uct_tag_t tag, const Declared& from, std::size_t length,
                        Completion& completion, const std::string& header) {
    const std::size_t known = b.mailbox->messages.size();
    void* operation = begin(tag, from, length, completion, header);
    EXPECT_TRUE(until([&] { return b.mailbox->messages.size() > known; }));
    return operation;
}

RendezvousMessage::RendezvousMessage(TagPair& pair, std::size_t length, std::size_t room,
                                     uint64_t contents)
    : seed(contents), from(pair.a.entity.host(), length), receive(pair.b, room) {
    fill(from.part(0, length), seed);
    EXPECT_STATUS(UCS_OK, receive.post(1));
    operation = pair.begin(1, from, length, completion);
}

Counters TagPair::close_and_count() {
    ep.reset();
    linger(all, milliseconds(5));
    return b.entity.close_and_count();
}

}  // namespace uct_test
