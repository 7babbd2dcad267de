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

// Begins the definition of a function that only newer headers declare: later_NAME in C++.
#define SOFTHCA_LATER(type, name, parameters)                   \
    SOFTHCA_EXPORT type later_##name parameters __asm__(#name); \
    type later_##name parameters

// The whole of one that the device lacks. It looks at no argument, and so needs no types of them.
#define SOFTHCA_REFUSES(type, name, result) \
    SOFTHCA_LATER(type, name, ()) {         \
        return result;                      \
    }
