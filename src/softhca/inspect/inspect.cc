// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/inspect/inspect.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "softhca/core/nic_model.h"
#include "softhca/core/nic_profiles.h"
#include "softhca/fabric/segment.h"
#include "softhca/inspect/fabric_view.h"
#include "softhca/model_file.h"

struct softhca_inspect_fabric {
    std::unique_ptr<softhca::FabricView> view;
};

namespace {

void copy_text(const std::string& from, char* text, size_t size) {
    if (size != 0) std::snprintf(text, size, "%s", from.c_str());
}

// No exception leaves a function of this interface: what is thrown becomes an error text.
template <typename Body>
int guarded(char* error, size_t size, Body&& body) noexcept {
    try {
        const std::string text = body();
        if (text.empty()) return 0;
        copy_text(text, error, size);
    } catch (const std::exception& failure) {
        if (size != 0) std::snprintf(error, size, "%s", failure.what());
    }
    return -1;
}

softhca::NicParameters parameters_of(const softhca_inspect_model& model) {
    static_assert(sizeof(softhca::NicParameters) <= sizeof model.opaque);
    softhca::NicParameters nic;
    std::memcpy(&nic, model.opaque, sizeof nic);
    return nic;
}

softhca::Request request_of(softhca_inspect_operation operation, uint64_t bytes, bool is_inline) {
    return {static_cast<softhca::RequestKind>(operation), bytes, is_inline};
}

static_assert(static_cast<int>(softhca::RequestKind::kAtomic) == SOFTHCA_INSPECT_ATOMIC);

}  // namespace

int softhca_inspect_find_model(const char* profile, const char* changes,
                               softhca_inspect_model* model, char* error, size_t size) {
    return guarded(error, size, [&]() -> std::string {
        const softhca::NicParameters* found = softhca::find_profile(profile);
        if (found == nullptr)
            return "no such profile '" + std::string(profile) + "'; choose from " +
                   softhca::profile_names();
        softhca::NicParameters nic = *found;
        std::string personality;
        if (auto wrong = softhca::apply_model(changes, nic, personality)) return *wrong;
        *model = {};
        std::memcpy(model->opaque, &nic, sizeof nic);
        return {};
    });
}

void softhca_inspect_describe(const softhca_inspect_model* model, char* text, size_t size) {
    if (size == 0) return;
    *text = '\0';
    guarded(text, size, [&] { return softhca::describe(parameters_of(*model)); });
}

int softhca_inspect_is_ideal(const softhca_inspect_model* model) {
    return !parameters_of(*model).models_time();
}

uint64_t softhca_inspect_arrival_ns(const softhca_inspect_model* model,
                                    softhca_inspect_operation operation, uint64_t bytes,
                                    int is_inline) {
    return softhca::arrival_ns(parameters_of(*model), request_of(operation, bytes, is_inline != 0));
}

uint64_t softhca_inspect_completion_ns(const softhca_inspect_model* model,
                                       softhca_inspect_operation operation) {
    return softhca::receive_ns(parameters_of(*model), request_of(operation, 0, false).kind);
}

uint64_t softhca_inspect_spacing_ns(const softhca_inspect_model* model,
                                    softhca_inspect_operation operation, uint64_t bytes) {
    return softhca::spacing_ns(parameters_of(*model), request_of(operation, bytes, false));
}

uint64_t softhca_inspect_registration_ns(const softhca_inspect_model* model, uint64_t bytes) {
    return parameters_of(*model).registration.time_ns(bytes);
}

softhca_inspect_fabric* softhca_inspect_open(const char* name, char* error, size_t size) {
    softhca_inspect_fabric* fabric = nullptr;
    guarded(error, size, [&] {
        if (name == nullptr) name = std::getenv("SOFTHCA_FABRIC");
        std::string why;
        auto view =
            softhca::FabricView::open(name != nullptr && *name != '\0' ? name : "default", &why);
        if (view == nullptr) return why;
        fabric = new softhca_inspect_fabric{std::move(view)};
        return std::string();
    });
    return fabric;
}

void softhca_inspect_close(softhca_inspect_fabric* fabric) {
    delete fabric;
}

void softhca_inspect_lateness(softhca_inspect_fabric* fabric, uint64_t* operations,
                              uint64_t* late) {
    *operations = *late = 0;
    for (const softhca::ProcessSlot& process : fabric->view->header().slots) {
        if (!fabric->view->alive(process)) continue;
        *operations += process.lateness.count.load(std::memory_order_relaxed);
        *late += process.lateness.late.load(std::memory_order_relaxed);
    }
}

int softhca_inspect_member(softhca_inspect_fabric* fabric, uint32_t member,
                           softhca_inspect_usage* usage, char* error, size_t size) {
    return guarded(error, size, [&]() -> std::string {
        *usage = {};
        const softhca::FabricHeader& header = fabric->view->header();
        if (member >= softhca::kMaxProcesses || !fabric->view->alive(header.slots[member]))
            return "the software HCA has no such member";
        const softhca::ProcessSlot& slot = header.slots[member];
        const auto live = [&slot](softhca::QueueUsage::Kind kind) {
            return slot.queues.levels[kind].live.load(std::memory_order_relaxed);
        };
        usage->registered_bytes = slot.counters.registered_bytes.load(std::memory_order_relaxed);
        usage->queue_bytes = live(softhca::QueueUsage::kBytes);
        usage->completion_entries = live(softhca::QueueUsage::kCompletionEntries);
        usage->receive_queues = live(softhca::QueueUsage::kReceiveQueues);
        usage->rnr_naks = slot.counters.rnr_naks.load(std::memory_order_relaxed);
        usage->registrations = slot.counters.registrations.load(std::memory_order_relaxed);
        usage->queue_pairs = static_cast<uint32_t>(live(softhca::QueueUsage::kQueuePairs));
        return {};
    });
}

int softhca_inspect_remove(const char* name, char* error, size_t size) {
    return guarded(error, size, [&] {
        std::string why;
        if (!softhca::Segment::remove_if_unused(name, &why) && why.empty()) why = "it is in use";
        return why;
    });
}
