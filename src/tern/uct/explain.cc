// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/explain.h"

#include <iterator>

namespace tern {
namespace {

Unused& remembered() {
    static Unused unused;
    return unused;
}

}  // namespace

void note_unused(const Unused& unused) {
    remembered() = unused;
    ExplainRecord("unused")
        .add("what", unused.what)
        .add("why", unused.why)
        .add("remedy", unused.remedy)
        .write();
}

const Unused& last_unused() {
    return remembered();
}

const char* advice(verbs::Remedy remedy) {
    static constexpr const char* kTexts[] = {
        "",
        "check the cable and the switch",
        "start a subnet manager in the fabric",
        ("use another device; over this one, UCX's own ud_verbs works "
         "(UCX_TLS=ud_verbs,self UCX_UD_VERBS_RX_QUEUE_LEN=1024)"),
        "unset UCX_TERN_GID_INDEX, or give the port an address (show_gids lists them)",
        "set UCX_TERN_PKEY to a partition of the port"};
    static_assert(std::size(kTexts) == static_cast<size_t>(verbs::Remedy::kPartition) + 1);
    return kTexts[static_cast<size_t>(remedy)];
}

}  // namespace tern
