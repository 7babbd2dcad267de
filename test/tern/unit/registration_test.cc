// SPDX-License-Identifier: BSD-3-Clause
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tern/verbs/memory.h"

namespace tern::verbs {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(RemedyOfRegistration, IsAHigherLimitOnlyWhereALimitIsReached) {
    EXPECT_THAT(remedy_of_registration(ENOMEM), HasSubstr("ulimit -l"));
    for (const int error : {ENODEV, EPERM, EINVAL, EFAULT})
        EXPECT_THAT(remedy_of_registration(error), Not(HasSubstr("ulimit"))) << error;
    // What a child of fork() gets from the device of its parent.
    EXPECT_THAT(remedy_of_registration(ENODEV), HasSubstr("forked child"));
}

}  // namespace
}  // namespace tern::verbs
