// SPDX-License-Identifier: BSD-3-Clause

// Arrival of tagged messages. Data path.

#include "tern/uct/tag_receives.h"

namespace tern {

namespace {

void* mutable_data(const std::byte* data) {
    return const_cast<std::byte*>(data);
}

// A copy of a message that the user may keep. In front of the message are a pointer to the
// uct_recv_desc_t and the user's headroom.
class Descriptor {
  public:
    Descriptor(const std::byte* data, uint32_t length, size_t headroom)
        : headroom_(headroom),
          memory_(static_cast<std::byte*>(malloc(kFront + headroom + length))) {
        if (memory_ == nullptr) return;
        *reinterpret_cast<uct_recv_desc_t**>(memory_) = &release_;
        memcpy(this->data(), data, length);
    }
    ~Descriptor() { free(memory_); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    explicit operator bool() const { return memory_ != nullptr; }
    std::byte* data() const { return memory_ + kFront + headroom_; }
    // The user owns the copy now, and will release it.
    void keep() { memory_ = nullptr; }

  private:
    static constexpr size_t kFront = sizeof(void*);  // bytes, of the pointer
    static uct_recv_desc_t release_;

    size_t headroom_;
    std::byte* memory_;
};

uct_recv_desc_t Descriptor::release_ = {.cb = [](uct_recv_desc_t*, void* descriptor) {
    free(static_cast<std::byte*>(descriptor) - kFront);
}};

// The length of this kind's header. UINT32_MAX: no such kind.
uint32_t header_size(uint32_t id) {
    switch (static_cast<TagFrameId>(id)) {
        case TagFrameId::kEager:
        case TagFrameId::kSoftwareRequest:
            return sizeof(EagerHeader);
        case TagFrameId::kEagerImmediate:
            return sizeof(ImmediateHeader);
        case TagFrameId::kRequest:
            return sizeof(RequestHeader);
    }
    return UINT32_MAX;
}

}  // namespace

bool TagReceives::is_frame(uint32_t id, const std::byte* data, uint32_t length) {
    if (length < header_size(id)) return false;
    ucs_trace_data("tern: RX: tag frame %u, tag 0x%lx, %u bytes with its header", id,
                   static_cast<unsigned long>(header_of<EagerHeader>(data).tag), length);
    return id != static_cast<uint32_t>(TagFrameId::kEagerImmediate) ||
           header_of<ImmediateHeader>(data).immediate != 0;
}

void TagReceives::handle(Channel* channel, uint32_t id, const std::byte* data, uint32_t length,
                         TagReceive* receive) {
    if (receive != nullptr && !receive->leaving)
        receive->context->tag_consumed_cb(receive->context);
    const uint32_t size = header_size(id);
    const std::byte* const rest = data + size;
    length -= size;
    switch (static_cast<TagFrameId>(id)) {
        case TagFrameId::kEager:
            return eager(receive, header_of<EagerHeader>(data).tag, 0, rest, length);
        case TagFrameId::kEagerImmediate: {
            const auto header = header_of<ImmediateHeader>(data);
            return eager(receive, header.tag, header.immediate, rest, length);
        }
        case TagFrameId::kRequest:
            return request(receive, channel, header_of<RequestHeader>(data), rest, length);
        case TagFrameId::kSoftwareRequest:
            return software_request(receive, header_of<EagerHeader>(data).tag, rest, length);
    }
}

// The user copies a message that it wants to keep. With immediate data UCP cannot: it relies on
// room for a header of its own in front of the message.
void TagReceives::unexpected(uint64_t tag, uint64_t immediate, const std::byte* data,
                             uint32_t length) {
    void* context = nullptr;
    unsigned flags = UCT_CB_PARAM_FLAG_FIRST;
    const auto call = [&](const std::byte* at) {
        return callbacks_.eager(callbacks_.eager_argument, mutable_data(at), length, flags, tag,
                                immediate, &context);
    };
    if (immediate != 0) {
        if (Descriptor descriptor(data, length, callbacks_.headroom); descriptor) {
            flags |= UCT_CB_PARAM_FLAG_DESC;
            if (call(descriptor.data()) == UCS_INPROGRESS) descriptor.keep();
            return;
        }
    }
    (void)call(data);
}

// Memory that is no longer declared, which is the user's error, is not written: the user gets a
// pointer to the bytes instead.
void TagReceives::eager(TagReceive* receive, uint64_t tag, uint64_t immediate,
                        const std::byte* data, uint32_t length) {
    if (receive == nullptr) {
        ++counters_.unexpected;
        return unexpected(tag, immediate, data, length);
    }
    ++counters_.matched;
    ucs_status_t status = UCS_OK;
    void* left = nullptr;
    if (length > receive->room) [[unlikely]] {
        left = mutable_data(data);
        ++counters_.truncated;
        // If this were an error, a sender that waits for an answer would get none. The user can see
        // that the message is too long: none of it was written.
        if (immediate == 0) status = UCS_ERR_MESSAGE_TRUNCATED;
    } else if (receive->declared != nullptr && !receive->declared->is(receive->region))
        [[unlikely]] {
        left = mutable_data(data);
    } else if (length != 0) {
        memcpy(receive->buffer, data, length);
    }
    uct_tag_context_t* context = receive->context;
    give(receive);
    context->completed_cb(context, tag, immediate, length, left, status);
}

void TagReceives::software_request(TagReceive* receive, uint64_t tag, const std::byte* users,
                                   uint32_t length) {
    if (receive == nullptr) {
        ++counters_.software_unexpected;
        (void)callbacks_.rndv(callbacks_.rndv_argument, 0, tag, users, length, 0, 0, nullptr);
        return;
    }
    ++counters_.software_matched;
    uct_tag_context_t* context = receive->context;
    give(receive);
    context->rndv_cb(context, tag, users, length, UCS_OK, UCT_TAG_RECV_CB_INLINE_DATA);
}

void TagReceives::request(TagReceive* receive, Channel* channel, const RequestHeader& header,
                          const std::byte* users, uint32_t length) {
    if (channel == nullptr) {  // its connection is over
        if (receive == nullptr) return;
        uct_tag_context_t* context = receive->context;
        give(receive);
        return context->completed_cb(context, header.tag, 0, 0, nullptr, UCS_ERR_CONNECTION_RESET);
    }
    if (receive == nullptr) {
        ++counters_.rndv_unexpected;
        // For the user, address 0 means that nothing is to be fetched; empty messages have it.
        const uint64_t address = header.address != 0 ? header.address : 1;
        (void)callbacks_.rndv(callbacks_.rndv_argument, 0, header.tag, users, length, address,
                              header.length, header.key);
        return;
    }
    ++counters_.rndv_matched;
    receive->channel = channel;
    receive->request = header;
    engine_.transfer_begins(*channel);
    if (header.length == 0) return over(*receive, UCS_OK);
    if (header.length > receive->room) {
        ++counters_.truncated;
        return over(*receive, UCS_ERR_MESSAGE_TRUNCATED);
    }
    if (waiting_.empty() && begin(*receive)) return;
    waiting_.push_back(receive);
    count_work();
}

}  // namespace tern
