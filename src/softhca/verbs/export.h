// SPDX-License-Identifier: BSD-3-Clause
// The public verbs header, without the macros that stand in the way of defining what it declares.
#pragma once

#include <infiniband/verbs.h>

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/// A function that programs find here instead of in libibverbs.
#define SOFTHCA_EXPORT extern "C" __attribute__((visibility("default")))
