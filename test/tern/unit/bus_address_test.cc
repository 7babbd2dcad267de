// SPDX-License-Identifier: BSD-3-Clause
// A device's address on the machine's buses, read from a folder that is laid out like sysfs.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "sysfs.h"
#include "tern/verbs/port.h"

namespace tern::verbs {
namespace {

namespace fs = std::filesystem;

class BusAddressTest : public SysfsTest {
  protected:
    // Makes a device in a folder below devices/, with a link to that folder if `linked`.
    std::string device(const std::string& folder, bool linked = true) {
        const fs::path home = root_ / "devices" / folder;
        fs::create_directories(home / "infiniband" / "hca0");
        if (linked) fs::create_directory_symlink(home, home / "infiniband" / "hca0" / "device");
        return home / "infiniband" / "hca0";
    }
};

TEST_F(BusAddressTest, OfAPciDevice) {
    EXPECT_EQ(bus_address(device("pci0000:3a/0000:3a:00.0/0000:3b:00.1")), "0000:3b:00.1");
}

TEST_F(BusAddressTest, OfAPartOfAPciDevice) {
    EXPECT_EQ(bus_address(device("pci0000:3a/0000:3b:00.0/mlx5_core.sf.2")), "0000:3b:00.0");
}

TEST_F(BusAddressTest, NoneOfASoftwareDevice) {
    EXPECT_EQ(bus_address(device("virtual", false)), "");
    EXPECT_EQ(bus_address(device("virtual/net/eth0")), "");
    EXPECT_EQ(bus_address("/nowhere/to/be/found"), "");
    EXPECT_EQ(bus_address(""), "");
}

// Names that only resemble an address are not taken for one.
TEST_F(BusAddressTest, NoneOfOtherNames) {
    for (const char* name : {"pci0/0000:3b:00.01", "pci0/000g:3b:00.0", "pci0/0000-3b-00-0"})
        EXPECT_EQ(bus_address(device(name)), "") << name;
}

}  // namespace
}  // namespace tern::verbs
