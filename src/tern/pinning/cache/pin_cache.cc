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
#include "common/clock.h"
#include "tern/base/trace.h"

namespace tern {

namespace {

uint64_t page_size() {
    static const auto size = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return size;
}

int verbs_access(unsigned access, bool writable, bool on_demand, bool relaxed) {
    int flags = 0;
    if (relaxed && (access & kRemoteAtomic) == 0) flags |= IBV_ACCESS_RELAXED_ORDERING;
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
      shortage_(scarce::kPinned, static_cast<uint64_t>(settings.refusal.count())),
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
    const Locked lock(*this);
    return lookup(range, access);
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
bool PinCache::reserve(uint64_t bytes, Locked& lock) {
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
        lock.clear();
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
    const Locked lock(*this);
    bool any = false;
    while (table_.dying() < bytes && evict()) any = true;
    // What another thread is deregistering counts, too.
    return any || table_.dying() != 0;
}

class PinCache::Registration {
  public:
    // Of the pages of a buffer.
    Registration(PinCache& cache, const Range& pages, const void* address, size_t length)
        : c_(cache),
          pages_(pages),
          buffer_{to_word(address), to_word(address) + length},
          pin_(new (std::nothrow) Pin) {}

    // Returns a pin that serves already. Null: run() comes next, if there is room for a new one.
    Pin* find_or_begin(unsigned access);
    bool begun() const { return begun_; }
    // Null, and errno: the device refuses.
    Pin* run();

  private:
    Pin* add();
    void refuse(int error);

    PinCache& c_;
    const Range pages_;
    const Range buffer_;
    std::unique_ptr<Pin> pin_;
    unsigned other_rights_ = 0;  // of overlapping pins: one pin is to serve all uses
    bool watched_ = false;
    bool begun_ = false;
};

Pin* PinCache::pin(const void* address, size_t length, unsigned access, bool* found) {
    if (found != nullptr) *found = false;
    Range range;
    if (guard_.inherited() || !Range::pages(address, length, range)) {
        errno = EINVAL;
        return nullptr;
    }
    Registration registration(*this, range, address, length);
    Pin* pin = find_of_device(address, length, access);
    if (pin == nullptr) pin = registration.find_or_begin(access);
    if (registration.begun()) return registration.run();
    if (found != nullptr) *found = pin != nullptr;
    if (pin == nullptr) errno = ENOMEM;
    return pin;
}

Pin* PinCache::Registration::find_or_begin(unsigned access) {
    if (!pin_) return nullptr;
    const auto [start, end] = pages_;
    Locked lock(c_);
    // Handled later, a change of an earlier mapping would make the new registration stale.
    c_.handle_past();
    if (Pin* pin = c_.lookup(pages_, access); pin != nullptr) return pin;
    if (!c_.shortage_.may_try(base::monotonic_ns())) return nullptr;
    if (!c_.reserve(end - start, lock)) {
        ++c_.counters_.failures;
        return nullptr;
    }
    c_.table_.overlapping(start, end,
                          [this](const Pin* other) { other_rights_ |= other->access_; });
    pin_->start_ = start;
    pin_->end_ = end;
    pin_->access_ = access | (pages_on_demand(c_) && writes(access) ? 0u : kLocalRead);
    // Before the registration: a change meanwhile is reported, and makes the pin stale.
    watched_ = c_.monitor_->watch(start, end);
    c_.table_.add_registering(pin_.get());
    begun_ = true;
    return nullptr;
}

Pin* PinCache::Registration::run() {
    const uint64_t bytes = pages_.end - pages_.start;
    const auto attempt = [this](uint64_t) { return c_.register_memory(pin_.get(), other_rights_); };
    const bool registered = scarce::kPinned.take(bytes, bytes, attempt, c_) != 0;
    const int error = registered ? 0 : errno;
    Pin* pin = nullptr;
    {
        const Locked lock(c_);
        c_.handle_changes();
        c_.table_.remove_registering(pin_.get());
        if (registered)
            pin = add();
        else
            refuse(error);
    }
    errno = error;
    return pin;
}

Pin* PinCache::Registration::add() {
    Pin* const pin = pin_.release();
    PinCounters& counters = c_.counters_;
    ++counters.registrations;
    ++counters.pins;
    counters.pinned_bytes_most = std::max(counters.pinned_bytes_most, counters.pinned_bytes);
    c_.shortage_.note(1, 1, 0);
    c_.table_.add(pin);
    const bool late = c_.quarantine_.has(pages_.start, pages_.end, c_.monitor_->under_way());
    if (watched_ && !late) c_.publish(pin);
    TERN_TRACE("pinned %#lx to %#lx, rights %#x, %s", pages_.start, pages_.end, pin->access(),
               pin->listed_ ? "remembered" : "for this use only");
    if (!pin->listed_ && !late) c_.recent_.lose(buffer_.start, buffer_.end);
    return pin;
}

void PinCache::Registration::refuse(int error) {
    ++c_.counters_.failures;
    c_.counters_.pinned_bytes -= pages_.end - pages_.start;
    if (is_full(error)) {
        errno = error;
        c_.shortage_.note(0, 1, base::monotonic_ns());
        return c_.shortage_.tell(c_);
    }
    // Perhaps nothing is mapped here: a later mapping has to be watched anew. The monitor does not
    // watch this memory any more, so no pin of it may be found.
    c_.monitor_->changed({pages_.start, pages_.end, true});
    c_.drop_overlapping(pages_);
    c_.recent_.lose(buffer_.start, buffer_.end);
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
        pin->region_ = registrar_->add(
            address, length,
            verbs_access(access, writable, pages_on_demand(*this), settings_.relaxed));
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
    const Locked lock(*this);
    table_.release(pin);
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
