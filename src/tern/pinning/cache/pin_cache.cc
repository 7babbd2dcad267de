// SPDX-License-Identifier: BSD-3-Clause
#include "tern/pinning/cache/pin_cache.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <thread>

#include "common/assert.h"
#include "tern/base/trace.h"

namespace tern {

namespace {

uint64_t page_size() {
    static const auto size = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return size;
}

int verbs_access(unsigned access, bool writable, bool on_demand) {
    int flags = 0;
    if (writable) flags |= IBV_ACCESS_LOCAL_WRITE;
    if ((access & kRemoteGet) != 0) flags |= IBV_ACCESS_REMOTE_READ;
    if ((access & kRemotePut) != 0) flags |= IBV_ACCESS_REMOTE_WRITE;
    if ((access & kRemoteAtomic) != 0) flags |= IBV_ACCESS_REMOTE_ATOMIC;
    if (on_demand) flags |= IBV_ACCESS_ON_DEMAND;
    return flags;
}

bool pages_on_demand(const PinCache& cache) {
    return cache.monitor() == MonitorKind::kOdp;
}

// The limit of locked memory does not bind a process with CAP_IPC_LOCK.
bool is_above_limit() {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3]{};
    return syscall(SYS_capget, &header, data) == 0 &&
           (data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0;
}

}  // namespace

uint64_t default_pinned_bytes() {
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        !is_above_limit())
        return limit.rlim_cur / 2;
    return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * page_size() / 4;
}

PinCache::PinCache(ibv_pd* pd, const PinSettings& settings)
    : PinCache(std::make_unique<VerbsRegistrar>(pd), settings) {}

PinCache::PinCache(std::unique_ptr<Registrar> registrar, const PinSettings& settings)
    : registrar_(std::move(registrar)),
      settings_(settings),
      most_bytes_(settings.most_bytes != 0 ? settings.most_bytes : default_pinned_bytes()),
      quarantine_(settings.quarantine),
      survives_fork_(registrar_->survives_fork()),
      monitor_(make_monitor(settings.monitor,
                            {registrar_->on_demand(), settings.has_hooks, settings.hooks_see_all},
                            inbox_, [this] { reaper_.wake(); })) {
    if (pages_on_demand(*this)) table_.keep_apart();
}

PinCache::~PinCache() {
    if (guard_.inherited()) {
        // The registrations and threads are the parent's, and may not be touched.
        static_cast<void>(registrar_.release());
        static_cast<void>(monitor_.release());
        return;
    }
    reaper_.stop();  // the reaper uses the monitor
    handle_changes();
    monitor_.reset();
    table_.clear([this](Pin* pin) {
        registrar_->remove(pin->region_);
        delete pin;
    });
}

bool PinCache::Range::pages(const void* address, size_t length, Range& range) {
    const uint64_t mask = page_size() - 1;
    range.start = to_word(address) & ~mask;
    if (length == 0 || __builtin_add_overflow(to_word(address) + mask, length, &range.end))
        return false;
    range.end &= ~mask;
    return range.end > range.start;
}

Pin* PinCache::find(const void* address, size_t length, unsigned access) {
    Range range;
    if (guard_.inherited() || !Range::pages(address, length, range)) return nullptr;
    if (Pin* pin = find_of_device(address, length, access); pin != nullptr) return pin;
    Pin* pin = nullptr;
    PinList dead;
    {
        const std::lock_guard lock(mutex_);
        pin = lookup(range, access);
        dead = table_.take_dead();
    }
    deregister(dead);
    return pin;
}

Pin* PinCache::lookup(const Range& range, unsigned access) {
    // Looks first, because up_to_date() costs more; it may drop the pin.
    if (table_.find(range.start, range.end, access) == nullptr || !up_to_date()) return nullptr;
    Pin* pin = table_.find(range.start, range.end, access);
    if (pin == nullptr) return nullptr;
    table_.hold(pin);
    ++counters_.hits;
    return pin;
}

// Takes `bytes` of the cap. If need be, evicts the pins that were not used for the longest time.
bool PinCache::reserve(uint64_t bytes, std::unique_lock<std::mutex>& lock) {
    if (bytes > most_bytes_) return false;
    for (;;) {
        if (counters_.pinned_bytes + bytes <= most_bytes_) break;
        while (counters_.pinned_bytes - table_.dying() + bytes > most_bytes_ && evict()) {
        }
        if (counters_.pinned_bytes - table_.dying() + bytes > most_bytes_) {
            table_.want_back();
            return false;
        }
        // Enough pins are dead, or being deregistered by another thread.
        const PinList dead = table_.take_dead();
        lock.unlock();
        deregister(dead);
        std::this_thread::yield();
        lock.lock();
    }
    counters_.pinned_bytes += bytes;
    return true;
}

bool PinCache::evict() {
    Pin* victim = table_.oldest_unused();
    if (victim == nullptr) return false;
    ++counters_.evictions;
    TERN_TRACE("pin of %#lx to %#lx is evicted", victim->start(), victim->end());
    table_.drop(victim);
    return true;
}

bool PinCache::give_up(uint64_t bytes) {
    if (guard_.inherited()) return false;
    PinList dead;
    {
        const std::lock_guard lock(mutex_);
        while (table_.dying() < bytes && evict()) {
        }
        dead = table_.take_dead();
    }
    const bool any = !dead.empty();
    deregister(dead);
    return any;
}

Pin* PinCache::pin(const void* address, size_t length, unsigned access, bool* found) {
    if (found != nullptr) *found = false;
    Range range;
    if (guard_.inherited() || !Range::pages(address, length, range)) {
        errno = EINVAL;
        return nullptr;
    }
    if (Pin* pin = find_of_device(address, length, access); pin != nullptr) {
        if (found != nullptr) *found = true;
        return pin;
    }
    std::unique_ptr<Pin> fresh(new (std::nothrow) Pin);
    int error = fresh ? 0 : ENOMEM;
    Pin* pin = nullptr;
    unsigned other_rights = 0;  // the rights of overlapping pins: one pin is to serve all uses
    bool watched = false;
    const uint64_t bytes = range.end - range.start;
    PinList dead;
    if (error == 0) {
        std::unique_lock lock(mutex_);
        // Handled later, a change of an earlier mapping would make the new registration stale.
        handle_past();
        pin = lookup(range, access);
        if (pin == nullptr && Clock::now() < refused_until_) error = ENOMEM;
        if (pin == nullptr && error == 0 && !reserve(bytes, lock)) {
            ++counters_.failures;
            error = ENOMEM;
        }
        if (pin == nullptr && error == 0) {
            table_.overlapping(range.start, range.end,
                               [&](const Pin* other) { other_rights |= other->access_; });
            fresh->start_ = range.start;
            fresh->end_ = range.end;
            fresh->access_ = access | (pages_on_demand(*this) && writes(access) ? 0u : kLocalRead);
            // Before the registration: a change meanwhile is reported, and makes the pin stale.
            watched = monitor_->watch(range.start, range.end);
            monitor_->review(pinned_);
            table_.add_registering(fresh.get());
        }
        dead = table_.take_dead();
    }
    deregister(dead);
    if (pin != nullptr || error != 0) {
        if (found != nullptr) *found = pin != nullptr;
        errno = error;
        return pin;
    }

    bool registered = register_memory(fresh.get(), other_rights);
    error = errno;
    if (!registered && error == ENOMEM) {
        (void)give_up(bytes);
        registered = register_memory(fresh.get(), other_rights);
        error = errno;
    }
    {
        const std::lock_guard lock(mutex_);
        handle_changes();
        table_.remove_registering(fresh.get());
        if (registered) {
            ++counters_.registrations;
            ++counters_.pins;
            counters_.pinned_bytes_most =
                std::max(counters_.pinned_bytes_most, counters_.pinned_bytes);
            table_.add(fresh.get());
            const bool late = quarantined(range);
            if (watched && !late) publish(fresh.get());
            TERN_TRACE("pinned %#lx to %#lx, rights %#x, %s", range.start, range.end,
                       fresh->access(), fresh->listed_ ? "remembered" : "for this use only");
            if (!fresh->listed_ && !late) recent_.lose(to_word(address), to_word(address) + length);
            pin = fresh.release();
        } else {
            ++counters_.failures;
            counters_.pinned_bytes -= bytes;
            if (error == ENOMEM) refused_until_ = Clock::now() + settings_.refusal;
            // Perhaps nothing is mapped here: a later mapping has to be watched anew. The monitor
            // does not watch this memory any more, so no pin of it may be found.
            if (error != ENOMEM) {
                monitor_->changed({range.start, range.end, true});
                drop_overlapping(range);
                recent_.lose(to_word(address), to_word(address) + length);
            }
        }
        dead = table_.take_dead();
    }
    deregister(dead);
    errno = error;
    return pin;
}

// Registers writable even if only reading is asked for: otherwise the first store to a page that
// was only read would take another page (copy on write), without notice. With paging on demand, the
// device notices. There, memory that may not be written registers as writable all the same, and
// then every access of the device fails, even one that reads. The program may take the right to
// write away later, so a pin that writes does not serve for reading.
bool PinCache::register_memory(Pin* pin, unsigned other_rights) {
    void* address = reinterpret_cast<void*>(pin->start_);
    const size_t length = pin->end_ - pin->start_;
    const auto attempt = [&](unsigned access, bool writable) {
        pin->region_ = registrar_->add(address, length,
                                       verbs_access(access, writable, pages_on_demand(*this)));
        if (pin->region_ == nullptr) return false;
        pin->access_ = access | (writable ? unsigned{kLocalWrite} : 0u);
        return true;
    };
    const unsigned asked = pin->access_;
    if (pages_on_demand(*this)) return attempt(asked, writes(asked));
    if (attempt(asked | other_rights, true)) return true;
    if (errno == ENOMEM) return false;
    if ((other_rights & ~asked) != 0 && attempt(asked, true)) return true;
    if (errno == ENOMEM || writes(asked)) return false;
    return attempt(asked, false);
}

void PinCache::publish(Pin* pin) {
    const Range range{pin->start_, pin->end_};
    // A later store may replace pages that are registered for reading only (copy on write).
    const bool keeps = (pin->access_ & kLocalWrite) != 0 || pages_on_demand(*this);
    if (pin->stale_ || !keeps) return;
    table_.overlapping(range.start, range.end, [&](Pin* other) {
        if (table_.apart(*other, *pin)) return;
        const bool within = range.start <= other->start_ && other->end_ <= range.end;
        const bool lacks = other->start_ <= range.start && range.end <= other->end_;
        if (within || (lacks && (other->access_ & pin->access_) != pin->access_))
            table_.drop(other);
    });
    (void)table_.list(pin);
    if (settings_.background && !pages_on_demand(*this)) reaper_.start();
}

void PinCache::release(Pin* pin) {
    if (guard_.inherited()) return;
    PinList dead;
    {
        const std::lock_guard lock(mutex_);
        if (!table_.release(pin)) return;
        dead = table_.take_dead();
    }
    deregister(dead);
}

uint32_t PinCache::note(const void* address, size_t length) {
    Range range;
    if (guard_.inherited() || !Range::pages(address, length, range)) return 0;
    const std::lock_guard lock(mutex_);
    if (!handle_past()) return 1;
    const uint32_t count = recent_.note(to_word(address), to_word(address) + length);
    if (count == 2) monitor_->watch(range.start, range.end);
    return count;
}

uint32_t PinCache::uses(const void* address, size_t length) {
    Range range;
    if (guard_.inherited() || !Range::pages(address, length, range)) return 0;
    const std::lock_guard lock(mutex_);
    return handle_past() ? recent_.uses(to_word(address), to_word(address) + length) : 0;
}

bool PinCache::keeps(const void* address, size_t length) {
    Range range;
    if (guard_.inherited() || !Range::pages(address, length, range)) return false;
    const std::lock_guard lock(mutex_);
    return recent_.keeps(to_word(address), to_word(address) + length);
}

// Called without the lock, because deregistering may take long.
void PinCache::deregister(PinList dead) {
    uint64_t bytes = 0;
    uint64_t count = 0;
    while (Pin* pin = dead.newest()) {
        dead.remove(pin);
        TERN_ASSERT(pin->references_ == 0 && !pin->listed_);
        TERN_TRACE("unpins %#lx to %#lx", pin->start(), pin->end());
        registrar_->remove(pin->region_);
        bytes += pin->locked();
        ++count;
        delete pin;
    }
    if (count == 0) return;
    const std::lock_guard lock(mutex_);
    table_.gone(bytes);
    counters_.pinned_bytes -= bytes;
    counters_.pins -= count;
}

PinCounters PinCache::counters() const {
    if (guard_.inherited()) return {};
    const std::lock_guard lock(mutex_);
    return counters_;
}

}  // namespace tern
