// SPDX-License-Identifier: BSD-3-Clause
// What UCX's file system of the process shows of an interface. Read by UCX's functions for that,
// because a mounted one needs FUSE.
#include "message.h"

extern "C" {
#include <ucs/datastruct/string_buffer.h>
#include <ucs/vfs/base/vfs_obj.h>
}

namespace uct_test {
namespace vfs_test {

// The contents of a file of the interface.
std::string read(const Entity& entity, const char* name) {
    char path[128];
    snprintf(path, sizeof(path), "/uct/worker/%p/iface/%p",
             static_cast<void*>(entity.host().worker()), static_cast<void*>(entity.iface()));
    // Lists the folder first, as a shell would: UCX fills it only then.
    (void)ucs_vfs_path_list_dir(
        path, [](const char*, void*) {}, nullptr);
    ucs_string_buffer_t text;
    ucs_string_buffer_init(&text);
    const ucs_status_t status =
        ucs_vfs_path_read_file((std::string(path) + "/" + name).c_str(), &text);
    std::string contents = status == UCS_OK ? ucs_string_buffer_cstr(&text) : "no such file";
    ucs_string_buffer_cleanup(&text);
    return contents;
}

class VfsTest : public TernTest {};

TEST_F(VfsTest, ShowsCountersAndEndpoints) {
    Entity a, b;
    const Group all{&a, &b};
    std::size_t came = 0;
    b.handle(1, [&](Bytes) { ++came; });
    EXPECT_EQ(read(b, "endpoints"), "0\n");
    {
        const Endpoint one = a.connect(b), two = a.connect(b);
        for (unsigned i = 0; i < 5; ++i)
            ASSERT_TRUE(accepted(all, [&] { return am_short(one, 1, pattern(i, 64)); }));
        ASSERT_TRUE(eventually(all, [&] { return came == 5; }));
        EXPECT_EQ(read(a, "endpoints"), "2\n");
        EXPECT_EQ(Counters(read(a, "counters"))["short"], 5u);
        const Counters received(read(b, "counters"));
        EXPECT_EQ(received["received_cold"] + received["received_hot"], 5u);
    }
    EXPECT_EQ(read(a, "endpoints"), "0\n");
}

}  // namespace vfs_test
}  // namespace uct_test
