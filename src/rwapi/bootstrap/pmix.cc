// SPDX-License-Identifier: BSD-3-Clause
#include <cstdlib>

#include "rwapi/base/log.h"
#include "rwapi/bootstrap/launcher.h"
#include "rwapi/include/rwapi.h"

#ifdef HAVE_PMIX
#include <pmix.h>

#include <atomic>
#include <string>
#endif

namespace rwapi {

bool pmix_offered() {
    return std::getenv("PMIX_NAMESPACE") != nullptr && std::getenv("PMIX_RANK") != nullptr;
}

#ifdef HAVE_PMIX
namespace {

int fail(const char* call, pmix_status_t status) {
    log_error("%s: %s: start the job again", call, PMIx_Error_string(status));
    return RWAPI_ERR_START;
}

std::string key_of(uint32_t number) {
    return "rwapi." + std::to_string(number);
}

constexpr int kAnswerLimit = 60;  // seconds; a launcher that takes longer stands still

// Owns a value of PMIx.
class Value {
  public:
    Value() = default;
    Value(const Value&) = delete;
    Value& operator=(const Value&) = delete;
    ~Value() {
        if (value_ != nullptr) PMIX_VALUE_RELEASE(value_);
    }

    pmix_status_t get(const pmix_proc_t& process, const char* key) {
        pmix_info_t limit;
        PMIX_INFO_LOAD(&limit, PMIX_TIMEOUT, &kAnswerLimit, PMIX_INT);
        const pmix_status_t status = PMIx_Get(&process, key, &limit, 1, &value_);
        PMIX_INFO_DESTRUCT(&limit);
        return status;
    }
    const pmix_value_t* operator->() const { return value_; }

  private:
    pmix_value_t* value_ = nullptr;
};

// Counts a call while it is under way.
class Call {
  public:
    explicit Call(std::atomic<int>* count) : count_(count) { ++*count_; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() { --*count_; }

  private:
    std::atomic<int>* const count_;
};

// PMIx is thread-safe.
class PmixLauncher final : public Launcher {
  public:
    int start() {
        const pmix_status_t status = PMIx_Init(&me_, nullptr, 0);
        if (status != PMIX_SUCCESS) return fail("PMIx_Init", status);
        const pmix_status_t got = get_size();
        if (got == PMIX_SUCCESS) return 0;
        PMIx_Finalize(nullptr, 0);
        return fail("PMIx_Get of the job's size", got);
    }

    uint32_t rank() const override { return me_.rank; }
    uint32_t size() const override { return size_; }

    int put(uint32_t number, std::span<const std::byte> address) override {
        const Call call(&calls_);
        pmix_value_t value = {};
        value.type = PMIX_BYTE_OBJECT;
        // PMIx copies them.
        value.data.bo.bytes = const_cast<char*>(reinterpret_cast<const char*>(address.data()));
        value.data.bo.size = address.size();
        const pmix_status_t put = PMIx_Put(PMIX_GLOBAL, key_of(number).c_str(), &value);
        if (put != PMIX_SUCCESS) return fail("PMIx_Put", put);
        const pmix_status_t committed = PMIx_Commit();
        return committed == PMIX_SUCCESS ? 0 : fail("PMIx_Commit", committed);
    }

    int get(uint32_t number, uint32_t node, std::vector<std::byte>& address) override {
        const Call call(&calls_);
        Value value;
        const pmix_status_t status = value.get(process(node), key_of(number).c_str());
        if (status != PMIX_SUCCESS) return fail("PMIx_Get of an address", status);
        if (value->type != PMIX_BYTE_OBJECT || value->data.bo.size > kMaxAddress) {
            return fail("PMIx_Get of an address", PMIX_ERR_BAD_PARAM);
        }
        const auto* bytes = reinterpret_cast<const std::byte*>(value->data.bo.bytes);
        address.assign(bytes, bytes + value->data.bo.size);
        return 0;
    }

    int barrier() override {
        const Call call(&calls_);
        // The launcher's daemons exchange what was put, so that a lookup does not wait for another
        // machine. The daemons store it, not this process.
        pmix_info_t collect;
        bool yes = true;
        PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
        const pmix_status_t status = PMIx_Fence(nullptr, 0, &collect, 1);
        PMIX_INFO_DESTRUCT(&collect);
        if (status == PMIX_SUCCESS) return 0;
        const int error = fail("PMIx_Fence", status);
        return status == PMIX_ERR_LOST_CONNECTION ? error : RWAPI_ERR_PEER;
    }

    void finish() override {
        if (calls_ == 0) PMIx_Finalize(nullptr, 0);
    }

  private:
    pmix_status_t get_size() {
        Value value;
        const pmix_status_t got = value.get(process(PMIX_RANK_WILDCARD), PMIX_JOB_SIZE);
        if (got != PMIX_SUCCESS) return got;
        if (value->type == PMIX_UINT32) size_ = value->data.uint32;
        return me_.rank < size_ ? PMIX_SUCCESS : PMIX_ERR_BAD_PARAM;
    }
    pmix_proc_t process(pmix_rank_t rank) const {
        pmix_proc_t process = me_;
        process.rank = rank;
        return process;
    }

    pmix_proc_t me_ = {};
    uint32_t size_ = 0;
    std::atomic<int> calls_ = 0;
};

}  // namespace

std::unique_ptr<Launcher> connect_pmix() {
    auto launcher = std::make_unique<PmixLauncher>();
    return launcher->start() == 0 ? std::move(launcher) : nullptr;
}

#else

std::unique_ptr<Launcher> connect_pmix() {
    log_error(
        "the launcher uses PMIx, but rwapi was built without PMIx: install libpmix-dev and build "
        "again, or start the job by mpiexec.hydra");
    return nullptr;
}

#endif

}  // namespace rwapi
