// SPDX-License-Identifier: BSD-3-Clause
// <infiniband/verbs.h> without macros that prevent the definition of the functions behind them.
#pragma once

#include <infiniband/verbs.h>

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

// A function that replaces libibverbs' own.
#define SOFTHCA_EXPORT extern "C" __attribute__((visibility("default")))
