// SPDX-License-Identifier: BSD-3-Clause
#include "bench/replay/rank.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "bench/measure/ucx.h"
#include "bench/sim/ucp_hooks.h"

namespace bench::replay {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t down(uint64_t address) {
    return address / kPage * kPage;
}
constexpr uint64_t up(uint64_t address) {
    return down(address + kPage - 1);
}
constexpr ucp_tag_t kConnectTag = ~ucp_tag_t{0} - 1;

char* map_pages(void* where, uint64_t size, int flags) {
    void* memory = ::mmap(where, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | flags, -1, 0);
    if (memory == MAP_FAILED) throw Failure("no memory for the buffers of the trace");
    return static_cast<char*>(memory);
}

}  // namespace

Rank::Rank(sim::Machine& machine, uint32_t rank, const sim::TransportCosts& costs,
           const Trace& trace, double compute)
    : UcpNode(machine, rank, costs), trace_(trace), compute_(compute), requests_(trace.requests) {
    lay_out_buffers();
}

// Buffers that overlap in the trace overlap here, and begin at the same place of a page. All are
// there from the beginning, and new pages are where the program gave some back.
void Rank::lay_out_buffers() {
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    for (const Event& event : trace_.events)
        if (event.has_buffer()) ranges.emplace_back(event.address, event.address + event.bytes);
    std::ranges::sort(ranges);
    for (size_t i = 0; i < ranges.size();) {
        const uint64_t first = ranges[i].first;
        uint64_t end = ranges[i].second;
        while (++i < ranges.size() && ranges[i].first <= end) end = std::max(end, ranges[i].second);
        const uint64_t size = first % kPage + (end - first) + 1;
        buffers_[first] = {map_pages(nullptr, size, 0) + first % kPage, end - first};
    }
}

char* Rank::buffer(uint64_t address) const {
    const auto& [first, memory] = *--buffers_.upper_bound(address);
    return memory.start + (address - first);
}

// Whole pages, as in the job; what the transport has pinned there is lost.
void Rank::give_back(uint64_t begin, uint64_t end) const {
    for (const auto& [first, memory] : buffers_) {
        const uint64_t from = std::max(up(begin), down(first));
        const uint64_t to = std::min(down(end), up(first + memory.bytes));
        if (from < to) map_pages(memory.start + (from - first), to - from, MAP_FIXED);
    }
}

void Rank::connect(uint32_t number, Rank& rank) {
    endpoints_[number] = UcpNode::connect(rank).endpoint;
    settling_.push_back(
        ucp_tag_send_nbx(endpoints_[number], nullptr, 0, kConnectTag, &sim::kDefaults));
    rank.settling_.push_back(
        ucp_tag_recv_nbx(rank.worker(), nullptr, 0, kConnectTag, sim::kAllBits, &sim::kDefaults));
}

bool Rank::settled() {
    std::erase_if(settling_, [](void* request) {
        if (UCS_PTR_IS_ERR(request)) check("to connect", UCS_PTR_STATUS(request));
        if (request == nullptr) return true;
        if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
        ucp_request_free(request);
        return true;
    });
    return settling_.empty();
}

void Rank::step() {
    if (next_ == trace_.events.size()) {
        poll();
        std::erase_if(sends_, [this](uint64_t id) { return ended(id); });
        return;
    }
    if (!execute(trace_.events[next_])) {
        poll();
        return;
    }
    ++done_;
    if (++next_ < trace_.events.size()) return;
    for (const Event& event : trace_.events)
        if (event.kind == Event::Kind::kSend && !ended(event.id)) sends_.push_back(event.id);
}

std::string Rank::place() const {
    if (next_ == trace_.events.size()) return "its end";
    const Event& event = trace_.events[next_];
    return formatted("event %zu, %c %llu", next_ + 1, static_cast<char>(event.kind),
                     static_cast<unsigned long long>(event.id));
}

bool Rank::chose() const {
    if (next_ == trace_.events.size()) return false;
    const Event::Kind kind = trace_.events[next_].kind;
    return kind == Event::Kind::kChoice || kind == Event::Kind::kProbe;
}

// False: the program waits.
bool Rank::execute(const Event& event) {
    switch (event.kind) {
        case Event::Kind::kCompute: {
            const auto ns = static_cast<uint64_t>(static_cast<double>(event.bytes) * compute_);
            machine_.compute(this, ns);
            computed_ += ns;
            return true;
        }
        case Event::Kind::kSend: {
            machine_.spend(sim::ns_of(sim::kUcp.send));
            const auto post = event.flag ? ucp_tag_send_sync_nbx : ucp_tag_send_nbx;
            began(event.id, sim::send_by(machine_, costs_, event.bytes, [&] {
                      return post(endpoints_.at(event.peer), buffer(event.address), event.bytes,
                                  event.tag, &sim::kDefaults);
                  }));
            return true;
        }
        case Event::Kind::kReceive:
            machine_.spend(sim::ns_of(sim::kUcp.receive));
            began(event.id, ucp_tag_recv_nbx(worker(), buffer(event.address), event.bytes,
                                             event.tag, event.mask, &sim::kDefaults));
            return true;
        case Event::Kind::kProbe: {
            ucp_tag_recv_info_t info;
            const ucp_tag_message_h found =
                ucp_tag_probe_nb(worker(), event.tag, event.mask, event.flag ? 1 : 0, &info);
            if (event.flag) probed_ = found;
            return found != nullptr;
        }
        case Event::Kind::kReceiveMessage:
            machine_.spend(sim::ns_of(sim::kUcp.receive));
            if (probed_ == nullptr) throw Failure("a message is received that was not probed");
            began(event.id, ucp_tag_msg_recv_nbx(worker(), buffer(event.address), event.bytes,
                                                 std::exchange(probed_, nullptr), &sim::kDefaults));
            return true;
        case Event::Kind::kWait:
        case Event::Kind::kChoice:
            return ended(event.id);
        case Event::Kind::kCancel:
            if (requests_[event.id] != nullptr) ucp_request_cancel(worker(), requests_[event.id]);
            return true;
        case Event::Kind::kGiveBack:
            give_back(event.address, event.address + event.bytes);
            return true;
    }
    return true;
}

void Rank::began(uint64_t id, void* request) {
    if (UCS_PTR_IS_ERR(request)) check("a message", UCS_PTR_STATUS(request));
    requests_[id] = request;
}

bool Rank::ended(uint64_t id) {
    void*& request = requests_[id];
    if (request == nullptr) return true;
    const ucs_status_t status = ucp_request_check_status(request);
    if (status == UCS_INPROGRESS) return false;
    if (status != UCS_ERR_CANCELED && status != UCS_ERR_MESSAGE_TRUNCATED)
        check("a message", status);
    machine_.spend(sim::ns_of(sim::kUcp.ended));
    ucp_request_free(request);
    request = nullptr;
    return true;
}

}  // namespace bench::replay
