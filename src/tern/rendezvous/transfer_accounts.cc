// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/transfer_accounts.h"

#include <cerrno>

#include "tern/base/trace.h"

namespace tern {

void TransferAccounts::begin(Transfer& transfer, Channel& channel, void* cookie) {
    TERN_ASSERT(transfer.channel == nullptr);
    transfer.channel = &channel;
    transfer.cookie = cookie;
    transfer.sequence = ++begun_;
    ++transfers_;
    idle_.end();
    engine_.transfer_begins(channel);
}

void TransferAccounts::begin_operation(Transfer& transfer, uint64_t address, const WireKey& key) {
    transfer.length = transfer.memory.length();
    transfer.address = address;
    transfer.key = key;
    transfer.asked_here = true;
    ++work_;
}

void TransferAccounts::begin_service(Transfer& transfer, RegionUse* use, uint64_t address,
                                     uint64_t length) {
    memory_.serve(transfer, use, address, length);
    ++counters_.served;
}

void TransferAccounts::end(Transfer& transfer) {
    TERN_ASSERT(transfers_ != 0);
    --transfers_;
    memory_.release(transfer);
    engine_.transfer_over(*transfer.channel);
    if (!transfer.asked_here) return;
    TERN_ASSERT(users() != 0);
    --work_;
}

void TransferAccounts::complete(bool asked_here, void* cookie, Channel& channel, Status status) {
    if (!asked_here) return;
    if (status != Status::kOk) {
        ++channel.failures;
        channel.failure = status;
    }
    if (cookie != nullptr)
        owner_.completed(cookie, status);
    else if (status != Status::kOk)
        engine_.fail(channel, status, "an operation without completion is refused");
}

bool TransferAccounts::fail_if_cut(Transfer& transfer) {
    if (!transfer.use->cut()) return false;
    ++counters_.refused;
    engine_.fail(*transfer.channel, Status::kConnectionReset,
                 "memory was deregistered while the peer accessed it");
    return true;
}

void TransferAccounts::warn_of_limit() {
    errno = ENOMEM;
    rings_.note(0, 1, 0);
    rings_.tell(owner_);
}

}  // namespace tern
