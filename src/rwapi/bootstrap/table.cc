// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstring>

#include "rwapi/base/log.h"
#include "rwapi/bootstrap/bootstrap.h"
#include "rwapi/bootstrap/launcher.h"

namespace rwapi {
namespace {

// The exchange returns the addresses of all processes, which are stored here.
class TableBootstrap final : public Bootstrap {
  public:
    explicit TableBootstrap(const rwapi_bootstrap& table) : table_(table) {}

    uint32_t rank() const override { return table_.rank; }
    uint32_t size() const override { return table_.size; }

    int publish(std::span<const std::byte> mine) override {
        // The exchange takes the same number of bytes from each process: first the lengths, then
        // the addresses, padded to the longest one.
        const auto length = static_cast<uint32_t>(mine.size());
        lengths_.resize(size());
        if (table_.exchange(table_.context, &length, sizeof length, lengths_.data()) != 0) {
            return fail("exchange");
        }
        block_ = *std::ranges::max_element(lengths_);
        if (block_ > kMaxAddress || lengths_[rank()] != length) return foreign();
        std::vector<std::byte> block(mine.begin(), mine.end());
        block.resize(block_);
        addresses_.resize(size_t{block_} * size());
        if (block_ == 0) return 0;
        if (table_.exchange(table_.context, block.data(), block_, addresses_.data()) != 0) {
            return fail("exchange");
        }
        return std::memcmp(address(rank()), block.data(), block_) == 0 ? 0 : foreign();
    }

    int lookup(uint32_t node, std::vector<std::byte>& result) override {
        if (node >= lengths_.size()) return RWAPI_ERR_NODE;
        result.assign(address(node), address(node) + lengths_[node]);
        return 0;
    }

    int begin_barrier() override {
        return table_.barrier_begin(table_.context) == 0 ? 0 : fail("barrier_begin");
    }

    int test_barrier() override {
        const int result = table_.barrier_test(table_.context);
        return result == 0 || result == 1 ? result : fail("barrier_test");
    }

  private:
    const std::byte* address(uint32_t node) const {
        return addresses_.data() + size_t{block_} * node;
    }

    static int fail(const char* function) {
        log_error("the program's function %s of rwapi_bootstrap has failed", function);
        return RWAPI_ERR_START;
    }

    static int foreign() {
        log_error(
            "the program's function exchange of rwapi_bootstrap returns wrong data: it must store "
            "the data of all processes in the order of their ranks");
        return RWAPI_ERR_START;
    }

    const rwapi_bootstrap table_;
    uint32_t block_ = 0;
    std::vector<uint32_t> lengths_;
    std::vector<std::byte> addresses_;
};

}  // namespace

std::unique_ptr<Bootstrap> make_table_bootstrap(const rwapi_bootstrap& table, int& error) {
    if (table.exchange != nullptr && table.barrier_begin != nullptr &&
        table.barrier_test != nullptr && table.rank < table.size) {
        return std::make_unique<TableBootstrap>(table);
    }
    log_error("rwapi_bootstrap needs its three functions, and a rank that is less than its size");
    error = RWAPI_ERR_INVALID;
    return nullptr;
}

}  // namespace rwapi
