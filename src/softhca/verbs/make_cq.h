// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "verbs/objects.h"

namespace softhca {

/// A completion queue for either create verb; nullptr with errno set.
CqObject* make_cq(ibv_context* context, uint32_t entries, void* cq_context,
                  ibv_comp_channel* channel, uint32_t vector);

}  // namespace softhca
