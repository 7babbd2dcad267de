// SPDX-License-Identifier: BSD-3-Clause
// The device under test and the verbs objects on it, each owned by a unique_ptr. These helpers
// throw on failure; GoogleTest turns the exception into a failed test.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace conformance {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The longest wait for any event: so long that only a defect gets there, also on a busy machine.
// CONFORMANCE_DEADLINE (seconds, default 120) changes it.
milliseconds deadline();

// How long a test watches that nothing happens.
inline constexpr milliseconds kQuiet{20};

inline constexpr int kRemoteAccess =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
inline constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | kRemoteAccess;

[[noreturn]] void fail(const std::string& what);

// Like fail(), with the text of errno appended.
[[noreturn]] void fail_errno(const std::string& what);

// Whether `error` is an error by which a verb says that the device lacks the operation.
bool is_unsupported(int error);

// Releases a verbs object. If the release is refused, the test fails.
struct Release {
    void operator()(ibv_context* object) const;
    void operator()(ibv_pd* object) const;
    void operator()(ibv_mr* object) const;
    void operator()(ibv_mw* object) const;
    void operator()(ibv_cq* object) const;
    void operator()(ibv_comp_channel* object) const;
    void operator()(ibv_srq* object) const;
    void operator()(ibv_qp* object) const;
    void operator()(ibv_ah* object) const;
    void operator()(ibv_xrcd* object) const;
};

template <typename T>
using Owned = std::unique_ptr<T, Release>;
using Context = Owned<ibv_context>;
using Pd = Owned<ibv_pd>;
using Mr = Owned<ibv_mr>;
using Mw = Owned<ibv_mw>;
using Cq = Owned<ibv_cq>;
using Channel = Owned<ibv_comp_channel>;
using Srq = Owned<ibv_srq>;
using Qp = Owned<ibv_qp>;
using Ah = Owned<ibv_ah>;
using Xrcd = Owned<ibv_xrcd>;

// The address of a port on its fabric. Plain bytes: may be sent to another process.
struct Address {
    uint16_t lid = 0;
    ibv_gid gid{};
};

// Opens the device named by CONFORMANCE_DEVICE (default: the first one); nullptr if there is none.
Context open_device();

// An open device and the port under test: CONFORMANCE_PORT (default 1) and, where the port needs a
// GRH, CONFORMANCE_GID_INDEX (default 0).
class Hca {
  public:
    Hca();

    ibv_context* get() const { return context_.get(); }
    const ibv_device_attr& attr() const { return attr_; }
    const ibv_port_attr& port_attr() const { return port_attr_; }
    uint8_t port() const { return port_; }

    // Whether every path needs a global route: the port is Ethernet, or its flags demand a GRH.
    bool needs_grh() const;
    bool has(unsigned capability) const { return (attr_.device_cap_flags & capability) != 0; }
    bool has_atomics() const { return attr_.atomic_cap != IBV_ATOMIC_NONE; }

    Address address() const;
    // An index below 256 whose entry in the port's GID table is not set; -1 if all are set.
    int unset_gid_index() const;
    ibv_ah_attr path_to(const Address& to) const;

    Pd make_pd() const;
    Cq make_cq(int entries = 256, ibv_comp_channel* channel = nullptr,
               void* cq_context = nullptr) const;
    Channel make_channel() const;
    Ah make_ah(ibv_pd* pd, const Address& to) const;

  private:
    Context context_;
    ibv_device_attr attr_{};
    ibv_port_attr port_attr_{};
    uint8_t port_;
    uint8_t gid_index_;
};

Srq make_srq(ibv_pd* pd, uint32_t max_wr = 64, uint32_t max_sge = 2);

// Page-aligned private memory, zero at first, registered during the lifetime of the object.
class Region {
  public:
    Region(ibv_pd* pd, std::size_t size, int access = kAllAccess);

    uint8_t* data() const { return memory_.get(); }
    std::size_t size() const { return memory_.get_deleter().size; }
    uint64_t addr(std::size_t offset = 0) const {
        return reinterpret_cast<uintptr_t>(memory_.get()) + offset;
    }
    uint64_t& word(std::size_t index) const { return reinterpret_cast<uint64_t*>(data())[index]; }
    ibv_mr* mr() const { return mr_.get(); }
    uint32_t lkey() const { return mr_->lkey; }
    uint32_t rkey() const { return mr_->rkey; }
    ibv_sge sge(std::size_t offset, std::size_t length) const {
        return {addr(offset), static_cast<uint32_t>(length), lkey()};
    }
    ibv_sge sge() const { return sge(0, size()); }

    // Fills a range with a pattern that depends on `seed` only; holds() says whether the pattern is
    // still there.
    void fill(unsigned seed, std::size_t offset, std::size_t length) const;
    void fill(unsigned seed) const { fill(seed, 0, size()); }
    bool holds(unsigned seed, std::size_t offset, std::size_t length) const;

    // Whether every byte of a range is `value`.
    bool is_all(uint8_t value, std::size_t offset, std::size_t length) const;

    // Ends the registration; the memory stays mapped.
    void deregister() { mr_.reset(); }

  private:
    struct Unmap {
        std::size_t size;
        void operator()(uint8_t* memory) const;
    };
    std::unique_ptr<uint8_t, Unmap> memory_;
    Mr mr_;
};

}  // namespace conformance
