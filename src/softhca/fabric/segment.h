// SPDX-License-Identifier: BSD-3-Clause
// The fabric's memory: a sealed memfd that lives exactly as long as its users. Processes find it
// through a small member file, private to the uid, that lists who has it open.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "fabric/layout.h"

namespace softhca {

/// A mapping of the fabric. Arenas are mapped when first used. Not copyable; unmapped on
/// destruction.
class Segment {
  public:
    enum class Mode { join_or_create, join_only };

    /// Joins the fabric `name` of this uid, or creates it with `config` if nobody is in it.
    /// On failure returns null and says why in *error.
    static std::unique_ptr<Segment> open(const std::string& name, Mode mode,
                                         const FabricConfig& config, std::string* error);
    /// Where the member file of a fabric is.
    static std::string member_file_path(const std::string& name);
    /// Removes the member file of a fabric in which nobody is left. False if somebody is.
    static bool remove_if_unused(const std::string& name, std::string* error);

    ~Segment();
    Segment(const Segment&) = delete;
    Segment& operator=(const Segment&) = delete;

    FabricHeader& header() { return *header_; }
    /// Whether this process made the fabric rather than joined it.
    bool created() const { return created_; }
    const std::string& name() const { return name_; }

    /// The arena of a process slot; nullptr if it can't be mapped.
    ArenaTables* arena(uint32_t slot) {
        ArenaTables* tables = arenas_[slot].load(std::memory_order_acquire);
        return __builtin_expect(tables != nullptr, 1) ? tables : map_arena(slot);
    }
    /// Gives the pages of an arena back. Nobody may be using it.
    void punch_arena(uint32_t slot);
    /// Withdraws this process from the member file; the last one removes it.
    void leave();

  private:
    explicit Segment(std::string name) : name_(std::move(name)) {}
    bool attach(int fd, std::string* error);
    ArenaTables* map_arena(uint32_t slot);

    std::string name_;
    int fd_ = -1;
    bool created_ = false;
    FabricHeader* header_ = nullptr;
    std::atomic<ArenaTables*> arenas_[kMaxProcesses] = {};
};

}  // namespace softhca
