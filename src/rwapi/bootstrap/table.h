// SPDX-License-Identifier: BSD-3-Clause
// Start-up by functions of the user.
#pragma once

#include <memory>

#include "rwapi/bootstrap/bootstrap.h"

namespace rwapi {

// Null: the table is invalid, and `error` is set.
std::unique_ptr<Bootstrap> make_table_bootstrap(const rwapi_bootstrap& table, int& error);

}  // namespace rwapi
