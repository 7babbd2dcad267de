// SPDX-License-Identifier: BSD-3-Clause
// The fabric's memory: a sealed memfd that exists as long as its users. Processes find it through
// the member file, which is private to the uid.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "softhca/fabric/layout.h"

namespace softhca {

// A mapping of the fabric's memory; the destructor unmaps it. Arenas are mapped when first used.
class Segment {
  public:
    // Joins the fabric `name` of this uid. If nobody is in it, creates it with `config`. nullptr,
    // with *error, on failure.
    static std::unique_ptr<Segment> open(const std::string& name, const FabricConfig& config,
                                         std::string* error);
    // The path of a fabric's member file.
    static std::string member_file_path(const std::string& name);
    // Removes the member file of a fabric without members. False, with *error, if it has members
    // or the file cannot be used.
    static bool remove_if_unused(const std::string& name, std::string* error);

    ~Segment();
    Segment(const Segment&) = delete;
    Segment& operator=(const Segment&) = delete;

    FabricHeader& header() { return *header_; }
    // Whether this process created the fabric.
    bool created() const { return created_; }
    const std::string& name() const { return name_; }

    // The arena of a process slot; nullptr if it cannot be mapped.
    ArenaTables* arena(uint32_t slot) {
        ArenaTables* tables = arenas_[slot].load(std::memory_order_acquire);
        return __builtin_expect(tables != nullptr, 1) ? tables : map_arena(slot);
    }
    // Frees the pages of an arena. Nobody may use the arena.
    void punch_arena(uint32_t slot);
    // Removes this process from the member file. The last member removes the file.
    void leave();
    // In the child of a fork(): this process is no member, and does not keep its parent alive.
    void disown();

  private:
    explicit Segment(std::string name) : name_(std::move(name)) {}
    bool attach(int fd, std::string* error);
    ArenaTables* map_arena(uint32_t slot);

    std::string name_;
    int fd_ = -1;
    int lock_ = -1;  // the descriptor that keeps byte_ of the member file locked
    uint64_t byte_ = 0;
    bool created_ = false;
    FabricHeader* header_ = nullptr;
    std::atomic<ArenaTables*> arenas_[kMaxProcesses] = {};
};

}  // namespace softhca
