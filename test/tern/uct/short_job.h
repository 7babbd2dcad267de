// SPDX-License-Identifier: BSD-3-Clause
// A short job of two interfaces, in which something fails; and the errors that are logged
// meanwhile.
#pragma once

#include <config.h>  // UCX's, which comes before UCX's headers
#include <ucs/debug/log_def.h>

#include <cstdarg>
#include <cstdio>
#include <memory>

#include "transfer.h"

namespace uct_test {

// Takes the errors that are logged while it exists.
class Errors {
  public:
    Errors() {
        count = 0;
        last[0] = 0;
        ucs_log_push_handler(take);
    }
    ~Errors() { ucs_log_pop_handler(); }
    Errors(const Errors&) = delete;
    Errors& operator=(const Errors&) = delete;

    inline static unsigned count = 0;
    inline static char last[512];

  private:
    static ucs_log_func_rc_t take(const char*, unsigned, const char*, ucs_log_level_t level,
                                  const ucs_log_component_config_t*, const char* message,
                                  va_list arguments) {
        if (level > UCS_LOG_LEVEL_ERROR) return UCS_LOG_FUNC_RC_CONTINUE;
        ++count;
        (void)vsnprintf(last, sizeof(last), message, arguments);
        return UCS_LOG_FUNC_RC_STOP;
    }
};

// What an interface is opened with, and nothing else. `matches`: "y" if it is to match tags.
class BareInterface {
  public:
    explicit BareInterface(const char* matches) : host_(std::make_shared<Host>()) {
        uct_iface_config_t* config = nullptr;
        check(uct_md_iface_config_read(host_->md(), "tern", nullptr, nullptr, &config),
              "uct_md_iface_config_read");
        config_.reset(config);
        if (uct_config_modify(config, "TM_ENABLE", matches) != UCS_OK)
            check(uct_config_modify(config, "TERN_TM_ENABLE", matches), "uct_config_modify");
        params_.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE;
        params_.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
        params_.mode.device.tl_name = "tern";
        params_.mode.device.dev_name = host_->device().c_str();
    }
    ucs_status_t open(uct_iface_h* iface) const {
        return uct_iface_open(host_->md(), host_->worker(), &params_, config_.get(), iface);
    }

  private:
    std::shared_ptr<Host> host_;
    std::unique_ptr<uct_iface_config_t, Release<uct_config_release>> config_;
    uct_iface_params_t params_{};
};

constexpr unsigned kJobMessages = 40;

// One side of a job: connects to the other one, sends messages, puts, gets and flushes.
struct JobSide {
    JobSide(const std::shared_ptr<Host>& host, std::size_t length)
        : entity(impatient(), host), own(*host, length) {
        entity.handle(1, [this](Bytes) { ++received; });
        done.func = [](uct_completion_t* self) {
            ++static_cast<Done*>(self)->calls;
            self->count = 1;
        };
        done.count = 1;
        done.status = UCS_OK;
    }
    bool failed() const { return failure != UCS_OK || !entity.failures().empty(); }
    // An operation's status; true if it has begun.
    bool begun(ucs_status_t status) {
        if (status == UCS_INPROGRESS) ++waits;
        if (UCS_STATUS_IS_ERR(status) && status != UCS_ERR_NO_RESOURCE) failure = status;
        return status == UCS_OK || status == UCS_INPROGRESS;
    }
    void connect(const Address& to) {
        uct_ep_params_t params{};
        params.field_mask =
            UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
        params.iface = entity.iface();
        params.dev_addr = to.dev();
        params.iface_addr = to.iface();
        uct_ep_h made = nullptr;
        if (begun(uct_ep_create(&params, &made))) ep.reset(made);
    }
    void step(const Address& to, uint64_t address, const RemoteKey& key) {
        const uct_iov_t iov = own.iov(0, own.size());
        if (failed() || over) return;
        switch (next) {
            case 0:
                connect(to);
                next += ep != nullptr;
                break;
            case 1:
                if (begun(uct_ep_am_short(ep.get(), 1, sent, &sent, sizeof(sent)))) ++sent;
                next += sent == kJobMessages;
                break;
            case 2:
                next += begun(uct_ep_put_zcopy(ep.get(), &iov, 1, address, key.get(), &done));
                break;
            case 3:
                next += begun(uct_ep_get_zcopy(ep.get(), &iov, 1, address, key.get(), &done));
                break;
            case 4:
                next += begun(uct_ep_flush(ep.get(), 0, &done));
                break;
            default:
                over = done.calls == waits;
        }
    }

    struct Done : uct_completion_t {
        int calls = 0;
    };
    Entity entity;
    Address here = entity.address();
    Memory own;
    Done done;
    Endpoint ep;
    ucs_status_t failure = UCS_OK;  // of a call
    int next = 0, waits = 0;
    unsigned sent = 0, received = 0;
    bool over = false;
};

// Steps both sides until each is over or has failed. `of_a`, `of_b`: the memory of each side, and
// `key_a`, `key_b`, the other's keys to it.
inline void run_job(JobSide& a, JobSide& b, const Remote& of_a, const RemoteKey& key_a,
                    const Remote& of_b, const RemoteKey& key_b) {
    const auto end = Clock::now() + deadline();
    const auto over = [](const JobSide& side, const JobSide& other) {
        return side.failed() || (side.over && (side.received == kJobMessages || other.failed()));
    };
    while (!over(a, b) || !over(b, a)) {
        if (Clock::now() > end) {
            ADD_FAILURE() << "steps " << a.next << ", " << b.next << "; " << Errors::last;
            break;
        }
        (void)a.entity.progress();
        (void)b.entity.progress();
        a.step(b.here, of_b.address, key_b);
        b.step(a.here, of_a.address, key_a);
        // Whoever has nothing to do finds out that the other one has failed.
        for (JobSide* side : {&a, &b})
            if (side->over && side->ep != nullptr && !side->failed())
                (void)side->begun(uct_ep_check(side->ep.get(), 0, nullptr));
    }
}

}  // namespace uct_test
