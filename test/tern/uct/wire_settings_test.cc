// SPDX-License-Identifier: BSD-3-Clause
// Settings that decide on real fabrics: what the device is told.
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <set>
#include <vector>

#include "traffic.h"
#include "verbs_calls.h"

namespace uct_test {
namespace wire_settings_test {

// What all changes of the state of a reliable queue pair have set.
struct Wire {
    bool connected = false;
    ibv_qp_attr attr{};
    ibv_port_attr port{};

    bool needs_grh() const {
        return port.link_layer == IBV_LINK_LAYER_ETHERNET ||
               (port.flags & IBV_QPF_GRH_REQUIRED) != 0;
    }
};

std::mutex mutex;
Wire last;                      // of the queue pair connected last
std::vector<ibv_ah_attr> ways;  // of all

void note(const ibv_qp& qp, const ibv_qp_attr& attr, int mask) {
    if (qp.qp_type != IBV_QPT_RC) return;
    last_context = qp.context;
    const std::lock_guard lock(mutex);
    if (attr.qp_state == IBV_QPS_INIT) {
        last = {};
        last.attr.pkey_index = attr.pkey_index;
        EXPECT_EQ(ibv_query_port(qp.context, attr.port_num, &last.port), 0);
    }
    if (attr.qp_state == IBV_QPS_RTR) {
        ways.push_back(attr.ah_attr);
        last.attr.ah_attr = attr.ah_attr;
        last.attr.path_mtu = attr.path_mtu;
        last.attr.min_rnr_timer = attr.min_rnr_timer;
    }
    if (attr.qp_state == IBV_QPS_RTS) {
        last.connected = true;
        last.attr.timeout = attr.timeout;
        last.attr.retry_cnt = attr.retry_cnt;
        last.attr.rnr_retry = attr.rnr_retry;
    }
    (void)mask;
}

class Variable {
  public:
    Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
    ~Variable() { unsetenv(name_); }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

  private:
    const char* name_;
};

class WireSettingsTest : public TernTest {
  protected:
    // Connects an interface with these settings.
    static Wire connect(const Settings& settings) { return connect(settings, settings); }
    static Wire connect(const Settings& one, const Settings& other) {
        Entity a(one), b(other);
        const Endpoint ep = a.connect(b);
        std::size_t received = 0;
        b.handle(0, [&](Bytes) { ++received; });
        EXPECT_TRUE(accepted({&a, &b}, [&] { return am_short(ep, 0, pattern(0, 8)); }));
        EXPECT_TRUE(eventually({&a, &b}, [&] { return received == 1; }));
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(last.connected);
        return last;
    }
    static bool on_ethernet() { return connect({}).attr.ah_attr.dlid == 0; }
    static bool opens(const Settings& settings) {
        try {
            const Entity entity(settings);
            return true;
        } catch (const std::exception&) {
            return false;
        }
    }
};

TEST_F(WireSettingsTest, ServiceLevel) {
    EXPECT_EQ(connect({}).attr.ah_attr.sl, 0);
    EXPECT_EQ(connect({{"SL", "5"}}).attr.ah_attr.sl, 5);
    EXPECT_FALSE(opens({{"SL", "16"}}));
}

TEST_F(WireSettingsTest, GlobalRoutingHeader) {
    const Wire usual = connect({});
    const bool required = usual.needs_grh();
    EXPECT_EQ(usual.attr.ah_attr.is_global != 0, required);
    EXPECT_EQ(connect({{"IS_GLOBAL", "y"}}).attr.ah_attr.is_global, 1);
    EXPECT_EQ(connect({{"GID_INDEX", "0"}}).attr.ah_attr.is_global, 1);
    EXPECT_EQ(connect({{"IS_GLOBAL", "n"}}).attr.ah_attr.is_global != 0, required);
}

// The other interface takes all GIDs of its port, and uses the one that both have.
TEST_F(WireSettingsTest, GidIndex) {
    const bool ethernet = connect({}).port.link_layer == IBV_LINK_LAYER_ETHERNET;
    for (const char* index : {"0", "1"}) {
        if (!ethernet && index[0] != '0') continue;
        const Settings one{{"GID_INDEX", index}};
        for (const auto& [a, b] : {std::pair(one, Settings{}), {Settings{}, one}}) {
            {
                const std::lock_guard lock(mutex);
                ways.clear();
            }
            connect(a, b);
            const std::lock_guard lock(mutex);
            ASSERT_EQ(ways.size(), 2u);
            for (const ibv_ah_attr& way : ways) {
                EXPECT_EQ(way.is_global, 1);
                EXPECT_EQ(way.grh.sgid_index, index[0] - '0');
            }
        }
    }
    if (!ethernet) return;
    const Entity a(Settings{{"GID_INDEX", "0"}}), b(Settings{{"GID_INDEX", "1"}}), all;
    const auto reaches = [](const Entity& from, const Entity& to) {
        const Address address = to.address();
        return uct_iface_is_reachable(from.iface(), address.dev(), address.iface()) != 0;
    };
    EXPECT_FALSE(reaches(a, b));
    EXPECT_FALSE(reaches(b, a));
    for (const Entity* entity : {&a, &b}) {
        EXPECT_TRUE(reaches(*entity, all));
        EXPECT_TRUE(reaches(all, *entity));
        EXPECT_TRUE(reaches(*entity, *entity));
    }
    EXPECT_FALSE(opens({{"GID_INDEX", "200"}}));
}

TEST_F(WireSettingsTest, TrafficClass) {
    const ibv_ah_attr usual = connect({}).attr.ah_attr;
    // The software HCA's GIDs on Ethernet are of RoCE v2, for which UCX takes 106.
    EXPECT_EQ(usual.grh.traffic_class, usual.dlid == 0 ? 106 : 0);
    const Settings other{{"IS_GLOBAL", "y"}, {"TRAFFIC_CLASS", "33"}};
    EXPECT_EQ(connect(other).attr.ah_attr.grh.traffic_class, 33);
    EXPECT_FALSE(opens({{"TRAFFIC_CLASS", "256"}}));
}

TEST_F(WireSettingsTest, PathMtu) {
    EXPECT_EQ(connect({{"PATH_MTU", "512"}}).attr.path_mtu, IBV_MTU_512);
    EXPECT_GT(connect({}).attr.path_mtu, IBV_MTU_512);
}

TEST_F(WireSettingsTest, Partition) {
    EXPECT_EQ(connect({{"PKEY", "0x7fff"}}).attr.pkey_index, 0);
    EXPECT_EQ(connect({{"PKEY", "0xffff"}}).attr.pkey_index, 0) << "the membership bit is ignored";
    EXPECT_EQ(opens({{"PKEY", "0x1234"}}), on_ethernet()) << "Ethernet has no partitions";
    for (const char* any : {"auto", "0x0"}) {
        const ibv_qp_attr attr = connect({{"PKEY", any}, {"IS_GLOBAL", "y"}}).attr;
        EXPECT_EQ(attr.pkey_index, 0) << any;
        EXPECT_EQ(attr.ah_attr.grh.traffic_class,
                  connect({{"IS_GLOBAL", "y"}}).attr.ah_attr.grh.traffic_class);
    }
}

// What a site has set for UCX's own transports counts, unless Tern has a setting of its own.
TEST_F(WireSettingsTest, OfTheSite) {
    const auto way = [](const Settings& settings) { return connect(settings).attr.ah_attr; };
    {
        const Variable level("UCX_IB_SL", "5"), global("UCX_IB_IS_GLOBAL", "y");
        const Variable kind("UCX_IB_TRAFFIC_CLASS", "33");
        EXPECT_EQ(way({}).sl, 5);
        EXPECT_EQ(way({}).is_global, 1);
        EXPECT_EQ(way({}).grh.traffic_class, 33);
        const Variable own("UCX_TERN_SL", "3");
        EXPECT_EQ(way({}).sl, 3);
        EXPECT_EQ(way({{"SL", "2"}}).sl, 2) << "the program's own";
    }
    {
        const Variable level("UCX_IB_SL", "auto");
        EXPECT_EQ(way({}).sl, 0);
    }
    {
        const Variable mtu("UCX_IB_PATH_MTU", "512");
        EXPECT_EQ(connect({}).attr.path_mtu, IBV_MTU_512);
    }
    {
        const Variable index("UCX_IB_GID_INDEX", "0");
        EXPECT_EQ(way({}).is_global, 1);
        EXPECT_EQ(way({}).grh.sgid_index, 0);
    }
    {
        const Variable wrong("UCX_IB_GID_INDEX", "200");
        EXPECT_FALSE(opens({}));
    }
    const bool has_no_partitions = on_ethernet();
    const Variable wrong("UCX_IB_PKEY", "0x1234");
    EXPECT_EQ(opens({}), has_no_partitions);
}

// UCP creates an endpoint for each path that the interface has.
TEST_F(WireSettingsTest, Paths) {
    {
        const std::lock_guard lock(mutex);
        ways.clear();
    }
    const Settings two{{"NUM_PATHS", "2"}};
    Entity a(two), b(two);
    EXPECT_EQ(a.attr().dev_num_paths, 2u);
    std::size_t received = 0;
    b.handle(0, [&](Bytes) { ++received; });
    const Endpoint eps[] = {a.connect(b, 0), a.connect(b, 1), a.connect(b, 1)};
    for (const Endpoint& ep : eps)
        EXPECT_TRUE(accepted({&a, &b}, [&] { return am_short(ep, 0, pattern(0, 8)); }));
    EXPECT_TRUE(eventually({&a, &b}, [&] { return received == std::size(eps); }));
    const std::lock_guard lock(mutex);
    ASSERT_EQ(ways.size(), 4u) << "endpoints of one path share a connection";
    std::multiset<unsigned> paths;
    for (const ibv_ah_attr& way : ways) {
        const bool ethernet = last.port.link_layer == IBV_LINK_LAYER_ETHERNET;
        EXPECT_EQ(way.grh.flow_label != 0, ethernet);
        paths.insert(ethernet ? way.grh.flow_label % 2 : way.src_path_bits);
        EXPECT_EQ(way.dlid, ethernet ? 0 : last.port.lid | way.src_path_bits);
    }
    const unsigned second = last.port.link_layer == IBV_LINK_LAYER_ETHERNET || last.port.lmc != 0;
    EXPECT_EQ(paths, (std::multiset<unsigned>{0, 0, second, second}));
}

TEST_F(WireSettingsTest, NumberOfPaths) {
    const auto number = [](const Settings& settings) {
        return Entity(settings).attr().dev_num_paths;
    };
    EXPECT_EQ(number({{"NUM_PATHS", "16"}}), 16u);
    for (const char* more : {"17", "inf"})
        EXPECT_EQ(number({{"NUM_PATHS", more}}), 16u) << "UCX_IB_NUM_PATHS may be " << more;
    EXPECT_FALSE(opens({{"NUM_PATHS", "0"}}));
    const unsigned usual = number({});
    for (const auto& [text, paths] : {std::pair("3", 3u), {"100", 16u}, {"auto", usual}}) {
        const Variable of_site("UCX_IB_NUM_PATHS", text);
        EXPECT_EQ(number({}), paths) << text;
        EXPECT_EQ(number({{"NUM_PATHS", "2"}}), 2u) << text;
    }
    Entity one;
    EXPECT_NO_THROW(one.connect(one, 15)) << "the peer may have more paths";
    EXPECT_THROW(one.connect(one, 16), std::runtime_error);
}

TEST_F(WireSettingsTest, Retries) {
    const ibv_qp_attr usual = connect({}).attr;
    EXPECT_EQ(usual.timeout, 18) << "1.07 s, as UCX's own transports";
    EXPECT_EQ(usual.retry_cnt, 6);
    EXPECT_EQ(usual.rnr_retry, 7);
    const ibv_qp_attr other = connect({{"TIMEOUT", "60ms"},
                                       {"RETRY_COUNT", "3"},
                                       {"RNR_TIMEOUT", "40ms"},
                                       {"RNR_RETRY_COUNT", "4"}})
                                  .attr;
    EXPECT_EQ(other.timeout, 14) << "67 ms";
    EXPECT_EQ(other.retry_cnt, 3);
    EXPECT_EQ(other.rnr_retry, 4);
    EXPECT_EQ(other.min_rnr_timer, 24) << "40.96 ms";
    EXPECT_LT(usual.min_rnr_timer, other.min_rnr_timer);
}

// A device keeps pages that a fork makes the process copy, unless libibverbs is told in time.
// Tern's own memory is shared, so that nothing is copied; memory of the user is not.
TEST_F(WireSettingsTest, AForkDoesNotDisturb) {
    Entity a, b;
    Memory memory(b.host(), 4096);
    const Remote remote = describe(b.host(), memory);
    const RemoteKey key(a.host(), remote);
    const Endpoint ep = a.connect(b);
    for (std::size_t i = 0; i <= 1; ++i) {
        const auto put = [&] { return put_short(ep, pattern(i, 8), remote.address, key); };
        ASSERT_TRUE(accepted({&a, &b}, put));
        EXPECT_TRUE(
            eventually({&a, &b},
                       [&] {
                           return static_cast<bool>(same({memory.data(), 8}, pattern(i, 8)));
                       }))
            << "after " << i << " forks";
        const pid_t child = fork();
        if (child == 0) _exit(0);
        ASSERT_EQ(waitpid(child, nullptr, 0), child);
    }
    EXPECT_TRUE(a.failures().empty());
}

// A steady sender that sends little keeps its block only if little is asked of it.
TEST_F(WireSettingsTest, HotKeep) {
    const auto demotions = [](const char* keep) {
        Entity center(Settings{
            {"HOT_AFTER", "8"}, {"hot_window", "64"}, {"hot_keep", keep}, {"POLL", "memory"}}),
            much, little;
        std::size_t received = 0;
        center.handle(0, [&](Bytes) { ++received; });
        {
            const Endpoint from_much = much.connect(center), from_little = little.connect(center);
            const Group all{&center, &much, &little};
            const auto send = [&](const Endpoint& from) {
                const std::size_t before = received;
                ASSERT_TRUE(accepted(all, [&] { return am_short(from, 0, pattern(0, 8)); }));
                ASSERT_TRUE(eventually(all, [&] { return received > before; }));
            };
            for (int i = 0; i < 20; ++i) send(from_little);
            for (int i = 0; i < 640; ++i) send(i % 16 == 0 ? from_little : from_much);
        }
        return center.close_and_count()["demotions"];
    };
    EXPECT_EQ(demotions("1"), 0u);
    EXPECT_GT(demotions("32"), 0u);
}

}  // namespace wire_settings_test
}  // namespace uct_test

// Takes the place of the library's function, and calls it.
extern "C" [[gnu::visibility("default")]] int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes,
                                                            int mask) {
    static const auto real =
        reinterpret_cast<int (*)(ibv_qp*, ibv_qp_attr*, int)>(dlsym(RTLD_NEXT, "ibv_modify_qp"));
    uct_test::wire_settings_test::note(*qp, *attributes, mask);
    return real(qp, attributes, mask);
}
