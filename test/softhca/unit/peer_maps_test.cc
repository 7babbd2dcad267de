// SPDX-License-Identifier: BSD-3-Clause
// Mappings of shared memory that has been deregistered do not pile up.
#include "softhca/fabric/peer_maps.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <deque>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fabric_process.h"
#include "softhca/fabric/process_memory.h"

namespace softhca {
namespace {

constexpr uint64_t kSize = 1 << 20;
constexpr const char* kName = "softhca-peer-maps";
constexpr uint64_t kInSlack = PeerMaps::kSlack / kSize;

size_t mappings() {
    std::ifstream maps("/proc/self/maps");
    size_t count = 0;
    for (std::string line; std::getline(maps, line);)
        count += line.find(kName) != std::string::npos;
    return count;
}

// A process that registers memory and reaches it as a peer would.
struct Node {
    explicit Node(const std::string& fabric) : adapter(*test::start_adapter(fabric)) {}

    Adapter& adapter;
    Host& host = adapter.host();
    PeerMaps maps{host};
};

// A registration of shared memory, as far as peers see it.
class Region {
  public:
    Region(Node& node, uint32_t index)
        : node_(node), entry_(node.host.tables().keys[index]), key_(index + 1) {
        enroll();
    }
    ~Region() {
        entry_.key = 0;
        close(fd_);
    }
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    // Registers other memory by the same key.
    void enroll() {
        if (fd_ >= 0) close(fd_);
        fd_ = memfd_create(kName, MFD_CLOEXEC);
        EXPECT_EQ(ftruncate(fd_, kSize), 0);
        value_ = node_.adapter.next_share_id();
        EXPECT_EQ(pwrite(fd_, &value_, sizeof value_, 0), ssize_t{sizeof value_});
        struct stat status;
        EXPECT_EQ(fstat(fd_, &status), 0);
        entry_.host = kAddress;
        entry_.length = kSize;
        entry_.file_fd = fd_;
        entry_.file_inode = status.st_ino;
        entry_.file_offset = 0;
        entry_.share_id = value_;
        entry_.key = key_;
    }
    // Where the memory is mapped. It must hold what was written to the file.
    const uint64_t* reach() {
        const iovec remote{reinterpret_cast<void*>(kAddress), kSize};
        IovList mapped;
        EXPECT_TRUE(node_.maps.translate(node_.host.slot(), entry_, &remote, 1, &mapped));
        const auto* place = static_cast<const uint64_t*>(mapped.data()->iov_base);
        EXPECT_EQ(*place, value_);
        return place;
    }

  private:
    static constexpr uint64_t kAddress = 0x10000;
    Node& node_;
    KeyEntry& entry_;
    const uint32_t key_;
    int fd_ = -1;
    uint64_t value_ = 0;
};

// Each test runs in a process of its own, as the thread of an adapter lives as long as its
// process.
class PeerMapsTest : public testing::Test {
  protected:
    void run(const std::function<void(Node&)>& body) {
        const std::string name = test::unique_fabric();
        test::Child child([&] {
            Node node(name);
            body(node);
            fflush(stdout);
            return HasFailure() ? 1 : 0;
        });
        EXPECT_EQ(child.join(), 0);
        std::string error;
        EXPECT_TRUE(Segment::remove_if_unused(name, &error)) << error;
    }
};

TEST_F(PeerMapsTest, DeregisteredMemoryIsUnmapped) {
    run([](Node& node) {
        for (uint32_t i = 0; i < 5 * kInSlack; ++i) {
            Region(node, i % 7).reach();
            node.maps.collect();
            ASSERT_LE(mappings(), kInSlack);
        }
    });
}

TEST_F(PeerMapsTest, RegisteredMemoryStaysMapped) {
    run([](Node& node) {
        std::deque<Region> regions;
        std::vector<const uint64_t*> places;
        for (uint32_t i = 0; i < 20; ++i) {
            regions.emplace_back(node, i);
            places.push_back(regions.back().reach());
        }
        for (uint32_t i = 0; i < 3 * kInSlack; ++i) {
            Region(node, 100).reach();
            node.maps.collect();
        }
        for (uint32_t i = 0; i < regions.size(); ++i) EXPECT_EQ(regions[i].reach(), places[i]);
    });
}

// Registrations that are in use at the same time do not push each other out, even if their names
// fall on the same entries. Names that are a Fibonacci number apart do.
TEST_F(PeerMapsTest, RegistrationsOfOneEntryStayMapped) {
    run([](Node& node) {
        constexpr int kApart = 1597;
        std::deque<Region> regions;
        std::vector<const uint64_t*> places;
        for (uint32_t i = 0; i < 6; ++i) {
            for (int name = 1; name < kApart; ++name) node.adapter.next_share_id();
            regions.emplace_back(node, i);
            places.push_back(regions.back().reach());
        }
        for (uint32_t i = 0; i < regions.size(); ++i) EXPECT_EQ(regions[i].reach(), places[i]) << i;
        EXPECT_EQ(mappings(), regions.size());
    });
}

// A registration of huge pages may begin and end anywhere.
TEST_F(PeerMapsTest, PartOfAHugePageIsMappedAndUnmapped) {
    run([](Node& node) {
        constexpr uint64_t kHuge = 2 << 20;
        const int fd = memfd_create(kName, MFD_CLOEXEC | MFD_HUGETLB);
        void* memory = fd < 0 || ftruncate(fd, kHuge) != 0
                           ? MAP_FAILED
                           : mmap(nullptr, kHuge, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (memory == MAP_FAILED) GTEST_SKIP() << "there are no huge pages";
        struct stat status;
        ASSERT_EQ(fstat(fd, &status), 0);
        KeyEntry& entry = node.host.tables().keys[3];
        entry.host = reinterpret_cast<uint64_t>(memory) + 12000;
        entry.length = 5000;
        entry.file_fd = fd;
        entry.file_inode = status.st_ino;
        entry.file_offset = 12000;
        entry.share_id = node.adapter.next_share_id();
        entry.key = 3;
        const iovec remote{reinterpret_cast<void*>(entry.host), entry.length};
        IovList mapped;
        {
            PeerMaps maps(node.host);
            ASSERT_TRUE(maps.translate(node.host.slot(), entry, &remote, 1, &mapped));
            static_cast<char*>(mapped.data()->iov_base)[7] = 'x';
            EXPECT_EQ(static_cast<char*>(memory)[12007], 'x');
            EXPECT_EQ(mappings(), 2u);
        }
        EXPECT_EQ(mappings(), 1u);
        entry.key = 0;
    });
}

TEST_F(PeerMapsTest, MemoryReplacedUnderItsKeyIsUnmapped) {
    run([](Node& node) {
        Region region(node, 3);
        for (uint32_t i = 0; i < 5 * kInSlack; ++i) {
            region.enroll();
            region.reach();
            node.maps.collect();
            ASSERT_LE(mappings(), kInSlack);
        }
    });
}

TEST_F(PeerMapsTest, MemoryInUseIsUnmappedAfterwards) {
    run([](Node& node) {
        auto first = std::make_unique<Region>(node, 0);
        const uint64_t* used = first->reach();
        const uint64_t value = *used;
        first.reset();
        const uint32_t rung = node.host.self().doorbell.rings.load();
        for (uint32_t i = 1; i < kInSlack; ++i) Region(node, 1).reach();
        EXPECT_EQ(*used, value) << "an access may have begun before";
        EXPECT_NE(node.host.self().doorbell.rings.load(), rung) << "the engine is to collect";
        EXPECT_EQ(mappings(), kInSlack);
        node.maps.collect();
        EXPECT_EQ(mappings(), 1u) << "the last one, still registered when others were dropped";
    });
}

}  // namespace
}  // namespace softhca
