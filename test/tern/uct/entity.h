// SPDX-License-Identifier: BSD-3-Clause
// The public UCT API as objects. The tests use only this API: the environment selects the transport
// under test, which must support connecting to interfaces.
#pragma once

#include <gtest/gtest.h>
#include <uct/api/uct.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../../softhca/conformance/device.h"
#include "../../softhca/conformance/process.h"

namespace uct_test {

using conformance::Clock;
using conformance::deadline;
using conformance::fail;
using conformance::Link;
using conformance::milliseconds;
using conformance::Team;
using Bytes = std::span<const std::byte>;

// Name of the transport under test: TERN_TEST_TL, or else tern.
std::string transport();
inline bool is_tern() {
    return transport() == "tern";
}

// Whether the device under test is the software HCA, which can be made to fail.
bool on_software_hca();
#define NEEDS_SOFTWARE_HCA() \
    if (!on_software_hca()) GTEST_SKIP() << "only the software HCA has faults on demand"
void end_faults();

// Whether the device promises that the bytes of a write appear in order. Without this promise, no
// blocks are granted.
bool writes_in_order();
#define NEEDS_BLOCKS() \
    if (!writes_in_order()) GTEST_SKIP() << "the device does not promise the order of writes"

// A function that Tern exports; null if there is none. UCX and the loader load Tern with
// RTLD_LOCAL.
void* tern_function(const char* name);

// Throws unless `status` is UCS_OK.
void check(ucs_status_t status, const char* what);

// Prints statuses as text.
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

// A worker and a memory domain on the device under test. Interfaces may share a host.
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

// An interface's address, as plain bytes that can be sent to another process.
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

// While it exists, hosts are opened that do not publish the rkeys of messages, so that every
// message has to be asked for.
struct UnpublishedKeys {
    UnpublishedKeys() { setenv("UCX_TERN_PIN_PUBLISH", "n", 1); }
    ~UnpublishedKeys() { unsetenv("UCX_TERN_PIN_PUBLISH"); }
    UnpublishedKeys(const UnpublishedKeys&) = delete;
    UnpublishedKeys& operator=(const UnpublishedKeys&) = delete;
};

// Settings of an interface, without their prefix. They are passed only to Tern.
using Settings = std::map<std::string, std::string>;

// Settings that make an interface notice a dead peer soon.
Settings impatient(Settings others = {});

// The counters that an interface of Tern writes when it is closed.
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

// For Entity's `more`: opens the interface as UCP does, which queues refused messages itself.
void as_ucp(uct_iface_params_t& params);

// An interface with its message handlers; progresses only when told to. Destroy its endpoints
// before it.
class Entity {
  public:
    using Handler = std::function<void(Bytes)>;

    // `more` may change the parameters of the interface.
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

    Endpoint connect(const Address& to, unsigned path = 0);
    Endpoint connect(const Entity& to, unsigned path = 0) { return connect(to.address(), path); }

    // From now on `handler` gets the messages with this id.
    void handle(uint8_t id, Handler handler);
    // Drops messages with this id from now on.
    void forget(uint8_t id);

    // The calls of the error handler.
    const std::vector<Failure>& failures() const { return failures_; }
    std::size_t failures(const Endpoint& ep) const;
    std::function<void(const Failure&)> on_failure;

    // Closes the interface before the object is destroyed. Only Tern writes counters.
    void close();
    Counters close_and_count();

  private:
    static ucs_status_t on_message(void* handler, void* data, size_t length, unsigned flags);
    static ucs_status_t on_error(void* entity, uct_ep_h ep, ucs_status_t status);

    std::shared_ptr<Host> host_;
    int counters_ = -1;  // descriptor of a file
    std::vector<Failure> failures_;
    std::array<Handler, UCT_AM_ID_MAX> handlers_;
    Interface iface_;
    uct_iface_attr_t attr_{};
};

// Progresses a group of interfaces until `condition` holds; fails after `limit`.
using Group = std::vector<Entity*>;
void progress(const Group& who);
testing::AssertionResult eventually(const Group& who, const std::function<bool()>& condition,
                                    milliseconds limit = deadline());

// Repeats an operation until it does not return UCS_ERR_NO_RESOURCE. Fails unless the operation is
// then done or in progress.
testing::AssertionResult accepted(const Group& who, const std::function<ucs_status_t()>& operation);

// Progresses `who` for this time.
void linger(const Group& who, milliseconds time = conformance::kQuiet);

class TernTest : public testing::Test {
  protected:
    void SetUp() override {
        if (!is_tern()) GTEST_SKIP() << transport() << " is not Tern";
    }
};

// The numbers of objects of these kinds that living processes have on the device, by one look,
// which starts a command. For other devices than the software HCA: the kernel's counts, less those
// at the first call.
std::vector<uint64_t> objects_of(const std::vector<std::string>& kinds);
inline uint64_t objects(const std::string& kind) {
    return objects_of({kind}).front();
}

}  // namespace uct_test
