// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tern/base/tunables.h"
#include "tern/connection/address.h"
#include "tern/verbs/handles.h"

namespace tern {

// The address handles for datagrams to other ports. Each is made when it is first needed, and kept.
// Control path.
//
// On Ethernet the kernel resolves the address when a handle is made, and waits up to a second for a
// host that does not answer. Threads of this object wait there instead of the caller, so that one
// dead host does not delay what is sent to others.
//
// States of an address:
//
//   absent   get()                                               made, or kMaking
//   making   the handle is there                                 made; on_made()
//            the device or the kernel refuses                    absent; on_refused()
//   made     there are kMostAddressHandles, of which it was
//            used longest ago                                    absent
class AddressHandles {
  public:
    using Handle = std::shared_ptr<ibv_ah>;

    // Calls to the owner, by any thread, with the owner's mutex held.
    class Owner {
      public:
        virtual void on_made(const PortAddress& to, const Handle& handle) = 0;
        // `error`: an errno value.
        virtual void on_refused(const PortAddress& to, int error) = 0;

      protected:
        ~Owner() = default;
    };

    // `mutex`: of the owner, who holds it when it calls get().
    AddressHandles(const verbs::Port& port, std::mutex& mutex, Owner& owner)
        : port_(port), self_(port_address(port)), mutex_(mutex), owner_(owner) {}
    AddressHandles(const AddressHandles&) = delete;
    AddressHandles& operator=(const AddressHandles&) = delete;
    ~AddressHandles() { stop(); }

    // Call it first.
    void use(ibv_pd* pd) { pd_ = pd; }
    // No thread calls the owner any more when this returns. Waits for the kernel, a second at most
    // where the kernel resolves. Without the mutex.
    void stop();

    // kMade: `handle` is set. kMaking: on_made() or on_refused() follows. kRefused: on_refused()
    // has been called.
    enum class State : uint8_t { kMade, kMaking, kRefused };
    State get(const PortAddress& to, Handle& handle);

  private:
    struct Entry {
        Handle handle;      // null: being made
        uint64_t used = 0;  // the value of uses_ then
    };
    Handle make(const PortAddress& to, int& error) const;
    bool start_thread();
    void work();
    void finish(const PortAddress& to, const Handle& handle, int error);
    bool drop_oldest();

    const verbs::Port port_;
    const PortAddress self_;
    ibv_pd* pd_ = nullptr;
    std::mutex& mutex_;  // protects all below
    Owner& owner_;
    std::unordered_map<PortAddress, Entry, PortAddressHash> entries_;
    uint64_t uses_ = 0;
    std::unordered_set<PortAddress, PortAddressHash> refused_;  // those asked for last
    std::deque<PortAddress> orders_;                            // for the threads
    std::deque<PortAddress> again_;                             // those that have been refused
    std::condition_variable ordered_;
    std::vector<std::thread> threads_;
    size_t idle_ = 0;    // threads that wait for orders
    pid_t process_ = 0;  // whose threads these are
    bool stopped_ = false;
};

// Whether a port of Ethernet has a way to ports of other IPv4 subnets: routers may connect them, or
// the rails of a machine may be isolated. Addresses do not tell, so the device is asked, which asks
// the kernel. Control path. Without routers, by the user's word, other subnets are out of reach.
class Routes {
  public:
    // `to` is an address that the port's own address says nothing against. May wait for a router to
    // answer, for a second at most.
    bool reach(ibv_pd* pd, const verbs::Port& port, const PortAddress& to);

    // The number of leading bits that name the subnet of an address of this machine; 24 if it is
    // none, as that of another network namespace.
    static unsigned subnet_bits(uint32_t address);

  private:
    unsigned bits_ = 0;                     // 0: not looked up yet
    std::unordered_set<uint32_t> reached_;  // subnets
};

}  // namespace tern
