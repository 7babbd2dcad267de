// SPDX-License-Identifier: BSD-3-Clause
// Calls of UCX.
#pragma once

#include <ucs/type/status.h>

#include <memory>
#include <string>

#include "bench/report/text.h"
#include "tern/verbs/handles.h"

namespace bench {

using namespace report;

// Throws Failure if the call `what` of UCX has failed.
inline void check(const std::string& what, ucs_status_t status) {
    if (status != UCS_OK) throw Failure(what + ": " + ucs_status_string(status));
}

// Owns an object of UCX.
template <typename Object, auto Destroy>
using Owner = std::unique_ptr<Object, tern::verbs::Destroyer<Destroy>>;

// What a call makes, whose last argument is the place for it. Throws Failure.
template <typename Owned, typename Call, typename... Arguments>
Owned created(const std::string& what, Call&& call, Arguments... arguments) {
    typename Owned::pointer made = nullptr;
    check(what, call(arguments..., &made));
    return Owned(made);
}

}  // namespace bench
