// SPDX-License-Identifier: BSD-3-Clause
// A folder that is laid out like sysfs by the test, which it ends with.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace tern::verbs {

class SysfsTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = std::filesystem::temp_directory_path() / "tern-sysfs-XXXXXX";
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        root_ = name;
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    std::filesystem::path root_;
};

}  // namespace tern::verbs
