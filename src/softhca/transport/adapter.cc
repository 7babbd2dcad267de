// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/transport/adapter.h"

namespace softhca {

std::unique_ptr<Adapter> Adapter::start(std::shared_ptr<Segment> segment, bool thread_executor,
                                        EventSink& sink, std::string* error) {
    std::unique_ptr<Adapter> adapter(new Adapter(thread_executor, sink));
    auto body = [](void* engine) { static_cast<ProgressEngine*>(engine)->run(); };
    adapter->host_ =
        Host::join(std::move(segment), thread_executor, body, &adapter->engine_, error);
    if (adapter->host_ == nullptr) {
        adapter->engine_.cancel();
        return nullptr;
    }
    // Numbers of the slot's last process differ in the generation.
    adapter->generation_.store(adapter->host_->incarnation(), std::memory_order_relaxed);
    adapter->process_memory_ = std::make_unique<ProcessMemory>(*adapter->host_);
    adapter->process_memory_->try_members();
    adapter->engine_.start();
    return adapter;
}

}  // namespace softhca
