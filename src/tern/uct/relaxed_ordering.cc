// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/relaxed_ordering.h"

#include <cerrno>
#include <cstring>

#include "tern/base/trace.h"
#include "tern/uct/compat.h"
#include "tern/verbs/memory.h"

namespace tern {

namespace {

enum class Relax : uint8_t { kNever, kAlways, kIfPossible, kByProcessor };

// All spellings that UCX takes, in any of its versions, for UCX_IB_PCI_RELAXED_ORDERING.
constexpr const char* kRelaxNames[] = {"off", "on", "try", "auto", "n",     "no",
                                       "0",   "y",  "yes", "1",    "maybe", nullptr};
constexpr Relax kRelaxMeanings[] = {Relax::kNever,       Relax::kAlways,    Relax::kIfPossible,
                                    Relax::kByProcessor, Relax::kNever,     Relax::kNever,
                                    Relax::kNever,       Relax::kAlways,    Relax::kAlways,
                                    Relax::kAlways,      Relax::kIfPossible};
static_assert(std::size(kRelaxNames) == std::size(kRelaxMeanings) + 1);

}  // namespace

ucs_config_field_t shared_memory_config_table[] = {
    {"PCI_RELAXED_ORDERING", "auto",
     "Whether memory that is read only after a completion may be written in any order, which is\n"
     "faster on some processors: pinned memory of transfers, and receive buffers. Blocks, rings, "
     "words\n"
     "and open memory never are. UCX_IB_PCI_RELAXED_ORDERING counts if this is not set.\n"
     " on   - yes, with a warning if the device refuses (also y, yes, 1)\n"
     " try  - yes, if the device does not refuse (also maybe)\n"
     " auto - like try on the processors on which UCX does so, which are of AMD, and else no\n"
     " off  - no (also n, no, 0)",
     offsetof(SharedMemoryConfig, relaxed_ordering), UCS_CONFIG_TYPE_ENUM(kRelaxNames)},
    {nullptr, nullptr, nullptr, 0, {}},
};

bool relaxes_order(int setting, const verbs::Device& device) {
    const Relax wanted = kRelaxMeanings[setting];
    if (wanted == Relax::kNever ||
        (wanted == Relax::kByProcessor && !compat::prefers_relaxed_order()))
        return false;
    if (verbs::takes_relaxed_ordering(device.pd.get())) {
        TERN_DEBUG("%s: pins and receive buffers are registered with relaxed ordering",
                   device.name().c_str());
        return true;
    }
    const int error = errno;
    ucs_log(wanted == Relax::kAlways ? UCS_LOG_LEVEL_WARN : UCS_LOG_LEVEL_DEBUG,
            "tern: %s registers no memory with relaxed ordering: %s; the order of its writes stays "
            "strict",
            device.name().c_str(), strerror(error));
    return false;
}

}  // namespace tern
