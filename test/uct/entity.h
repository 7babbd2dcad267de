// SPDX-License-Identifier: BSD-3-Clause
// The public UCT API as objects. Only that is used here: what is tested is any transport that
// connects to interfaces, and which one the environment says.
#pragma once

#include <gtest/gtest.h>
#include <uct/api/uct.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../conformance/device.h"
#include "../conformance/process.h"

namespace uct_test {

using conformance::Clock;
using conformance::deadline;
using conformance::fail;
using conformance::Link;
using conformance::milliseconds;
using conformance::Team;
using Bytes = std::span<const std::byte>;

// Name of the transport under test: TERN_TEST_TL, by default tern.
std::string transport();
inline bool is_tern() {
    return transport() == "tern";
}

// Whether the device under test is the software HCA, which can be made to fail.
bool on_software_hca();
#define NEEDS_SOFTWARE_HCA() \
    if (!on_software_hca()) GTEST_SKIP() << "only the software HCA has faults on demand"
// Ends all faults.
void end_faults();

// Throws unless `status` is UCS_OK.
void check(ucs_status_t status, const char* what);

// So that a status is printed as text.
struct Status {
    ucs_status_t value;
    bool operator==(const Status& other) const { return value == other.value; }
};
std::ostream& operator<<(std::ostream& out, Status status);
#define EXPECT_STATUS(expected, actual) EXPECT_EQ(Status{expected}, Status{actual})
#define ASSERT_STATUS(expected, actual) ASSERT_EQ(Status{expected}, Status{actual})

template <auto kRelease>
struct Release {
    template <typename T>
    void operator()(T* object) const {
        kRelease(object);
    }
};
using Async = std::unique_ptr<ucs_async_context_t, Release<ucs_async_context_destroy>>;
using Worker = std::unique_ptr<uct_worker, Release<uct_worker_destroy>>;
using MemoryDomain = std::unique_ptr<uct_md, Release<uct_md_close>>;
using Interface = std::unique_ptr<uct_iface, Release<uct_iface_close>>;
using Endpoint = std::unique_ptr<uct_ep, Release<uct_ep_destroy>>;

// What interfaces may share: a worker, and a memory domain opened on the device under test.
class Host {
  public:
    explicit Host(ucs_thread_mode_t mode = UCS_THREAD_MODE_SINGLE);

    uct_worker_h worker() const { return worker_.get(); }
    uct_md_h md() const { return md_.get(); }
    uct_component_h component() const { return component_; }
    const std::string& device() const { return device_; }
    unsigned progress() { return uct_worker_progress(worker_.get()); }

  private:
    uct_component_h component_;
    std::string device_;
    Async async_;
    Worker worker_;
    MemoryDomain md_;
};

// All that connects to an interface. Plain bytes: may be sent to a process.
struct Address {
    std::array<std::byte, 64> device{};
    std::array<std::byte, 64> interface {};

    const uct_device_addr_t* dev() const {
        return reinterpret_cast<const uct_device_addr_t*>(device.data());
    }
    const uct_iface_addr_t* iface() const {
        return reinterpret_cast<const uct_iface_addr_t*>(interface.data());
    }
};

// Settings of an interface, without their prefix; only Tern gets them.
using Settings = std::map<std::string, std::string>;

// Settings under which a dead peer is found soon.
Settings impatient(Settings others = {});

// What an interface of Tern has counted in its life.
class Counters {
  public:
    explicit Counters(std::string json) : json_(std::move(json)) {}
    uint64_t operator[](const std::string& name) const;
    const std::string& json() const { return json_; }

  private:
    std::string json_;
};

struct Failure {
    uct_ep_h ep;
    ucs_status_t status;
};

// An interface that progresses when it is told to, with its handlers. Endpoints must go before it.
class Entity {
  public:
    using Handler = std::function<void(Bytes)>;

    // `more` may add to what the interface is opened with.
    explicit Entity(const Settings& settings = {},
                    std::shared_ptr<Host> host = std::make_shared<Host>(),
                    const std::function<void(uct_iface_params_t&)>& more = {});
    ~Entity();
    Entity(const Entity&) = delete;
    Entity& operator=(const Entity&) = delete;

    uct_iface_h iface() const { return iface_.get(); }
    Host& host() const { return *host_; }
    const uct_iface_attr_t& attr() const { return attr_; }
    bool has(uint64_t flag) const { return (attr_.cap.flags & flag) != 0; }
    Address address() const;
    unsigned progress() { return host_->progress(); }

    Endpoint connect(const Address& to);
    Endpoint connect(const Entity& to) { return connect(to.address()); }

    // Messages with this id go to `handler` from now on.
    void handle(uint8_t id, Handler handler);
    // They go nowhere.
    void forget(uint8_t id);

    // What the error handler was called with.
    const std::vector<Failure>& failures() const { return failures_; }
    std::size_t failures(const Endpoint& ep) const;
    std::function<void(const Failure&)> on_failure;

    // Closes the interface before its time. The counters are Tern's.
    void close();
    Counters close_and_count();

  private:
    static ucs_status_t on_message(void* handler, void* data, size_t length, unsigned flags);
    static ucs_status_t on_error(void* entity, uct_ep_h ep, ucs_status_t status);

    std::shared_ptr<Host> host_;
    int counters_ = -1;  // a file
    std::vector<Failure> failures_;
    std::array<Handler, UCT_AM_ID_MAX> handlers_;
    Interface iface_;
    uct_iface_attr_t attr_{};
};

// Progresses `who` until a condition holds.
using Group = std::vector<Entity*>;
void progress(const Group& who);
testing::AssertionResult eventually(const Group& who, const std::function<bool()>& condition,
                                    milliseconds limit = deadline());

// Repeats an operation while there are no resources for it. What it returns at last must be that it
// is done or under way.
testing::AssertionResult accepted(const Group& who, const std::function<ucs_status_t()>& operation);

// Progresses `who` for a while.
void linger(const Group& who, milliseconds time = conformance::kQuiet);

class TernTest : public testing::Test {
  protected:
    void SetUp() override {
        if (!is_tern()) GTEST_SKIP() << transport() << " is not Tern";
    }
};

// How many objects of a kind all living processes have on the device; the kernel counts those of
// other devices than the software HCA, and what was there at the first call is not counted.
uint64_t objects(const std::string& kind);

}  // namespace uct_test
