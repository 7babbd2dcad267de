// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/settings.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>

#include "softhca/core/nic_profiles.h"

namespace softhca {
namespace {

using Environment = std::map<std::string, std::string>;

std::optional<std::string> parse(Settings& settings, const Environment& environment) {
    return parse_settings(settings, [&](const char* name) -> const char* {
        const auto entry = environment.find(name);
        return entry == environment.end() ? nullptr : entry->second.c_str();
    });
}

TEST(Settings, DefaultsAreThoseOfTheTable) {
    Settings settings;
    ASSERT_EQ(parse(settings, {}), std::nullopt);
    const Settings plain;
    EXPECT_EQ(settings.fabric, plain.fabric);
    EXPECT_EQ(settings.devices, plain.devices);
    EXPECT_EQ(settings.ports, plain.ports);
    EXPECT_EQ(settings.personality_name, plain.personality_name);
    EXPECT_EQ(settings.link_layer, plain.link_layer);
    EXPECT_EQ(settings.executor, plain.executor);
    EXPECT_EQ(settings.profile, plain.profile);
    EXPECT_FALSE(settings.nic.models_time());
    EXPECT_EQ(settings.faults, plain.faults);
    EXPECT_EQ(settings.shared, plain.shared);
    EXPECT_EQ(settings.virtual_time, plain.virtual_time);
}

TEST(Settings, AProfileDecidesThePersonalityUnlessTheUserDoes) {
    for (const char* profile : {"cx5-edr", "cx6-hdr", "cx7-ndr"}) {
        Settings settings;
        ASSERT_EQ(parse(settings, {{"SOFTHCA_PROFILE", profile}}), std::nullopt);
        EXPECT_EQ(settings.personality_name, "mlx5");
        EXPECT_EQ(settings.personality.rounding.inline_data, rule::kInlineWqe);
        Settings chosen;
        ASSERT_EQ(parse(chosen, {{"SOFTHCA_PROFILE", profile}, {"SOFTHCA_PERSONALITY", "irdma"}}),
                  std::nullopt);
        EXPECT_EQ(chosen.personality_name, "irdma");
    }
    Settings other;
    ASSERT_EQ(parse(other, {{"SOFTHCA_PROFILE", "graphene"}}), std::nullopt);
    EXPECT_EQ(other.personality_name, "default");
}

TEST(Settings, AnAdapterMayKeepAnOrderThatItsDriverDoesNotPromise) {
    Settings settings;
    ASSERT_EQ(parse(settings, {{"SOFTHCA_PROFILE", "cx3-fdr"}}), std::nullopt);
    EXPECT_EQ(settings.personality_name, "mlx4");
    EXPECT_EQ(settings.personality.ordering.in_order, rule::kReadyToSend);
    EXPECT_EQ(settings.personality.rounding.inline_data, rule::kInlineWqe);
    Settings chosen;
    ASSERT_EQ(parse(chosen, {{"SOFTHCA_PROFILE", "cx3-fdr"}, {"SOFTHCA_PERSONALITY", "mlx4"}}),
              std::nullopt);
    EXPECT_EQ(chosen.personality.ordering.in_order, rule::kNever);
}

TEST(Settings, AModelFileIsAnAdapterOfItsOwn) {
    const std::string path = testing::TempDir() + "mine-" + std::to_string(::getpid()) + ".model";
    std::ofstream(path) << "personality = mlx4\nbandwidth = 7\n";
    const Environment environment = {{"SOFTHCA_PROFILE", "cx5-edr"},
                                     {"SOFTHCA_MODEL", "@" + path + ",gap=2ns"}};
    Settings settings;
    ASSERT_EQ(parse(settings, environment), std::nullopt);
    EXPECT_EQ(settings.personality_name, "mlx4");
    EXPECT_EQ(describe(settings.nic),
              "latency=0ns,bandwidth=7,gap=2ns,interval=0ns,completion=0ns,reg-latency=0ns,"
              "reg-bandwidth=0");
    EXPECT_STREQ(fabric_config(settings).profile, ("@mine-" + std::to_string(::getpid())).c_str());
    std::remove(path.c_str());
    EXPECT_TRUE(parse(settings, environment).has_value());
}

TEST(Settings, EmptyMeansDefault) {
    Environment environment;
    for (const Setting& setting : kSettings) environment[setting.name] = "";
    Settings settings;
    EXPECT_EQ(parse(settings, environment), std::nullopt);
    EXPECT_EQ(settings.fabric, "default");
}

TEST(Settings, EveryVariableIsRead) {
    Settings settings;
    ASSERT_EQ(parse(settings, {{"SOFTHCA_FABRIC", "test-1.x_Y"},
                               {"SOFTHCA_DEVICES", "16"},
                               {"SOFTHCA_PORTS", "2"},
                               {"SOFTHCA_PERSONALITY", "irdma"},
                               {"SOFTHCA_RULES", "inline=64, srq=1"},
                               {"SOFTHCA_LINK_LAYER", "ethernet"},
                               {"SOFTHCA_ADDRESSES", "per-process"},
                               {"SOFTHCA_SUBNETS", "per-port"},
                               {"SOFTHCA_EXECUTOR", "thread"},
                               {"SOFTHCA_PROFILE", "graphene"},
                               {"SOFTHCA_MODEL", "gap=1us"},
                               {"SOFTHCA_NODE", "node-1"},
                               {"SOFTHCA_FAULTS", "rnr=3"},
                               {"SOFTHCA_SHARED", "off"},
                               {"SOFTHCA_CLOCK", "virtual"}}),
              std::nullopt);
    EXPECT_EQ(settings.fabric, "test-1.x_Y");
    EXPECT_EQ(settings.devices, 16u);
    EXPECT_EQ(settings.ports, 2u);
    EXPECT_EQ(settings.personality_name, "irdma");
    EXPECT_EQ(settings.personality.limits.inline_data, 64);
    EXPECT_EQ(settings.personality.has.srq, 1);
    EXPECT_EQ(settings.personality.limits.send_sge, 13);
    EXPECT_EQ(settings.link_layer, LinkLayer::kEthernet);
    EXPECT_TRUE(settings.own_addresses);
    EXPECT_TRUE(settings.subnets);
    EXPECT_EQ(settings.node, "node-1");
    EXPECT_EQ(settings.executor, Executor::kThread);
    EXPECT_EQ(settings.profile, "graphene");
    EXPECT_EQ(settings.nic.gap_ns, 1000u) << "the model refines the profile";
    EXPECT_EQ(settings.nic.registration.fixed_ns, 68'000u);
    EXPECT_EQ(settings.faults, "rnr=3");
    EXPECT_FALSE(settings.shared);
    EXPECT_TRUE(settings.virtual_time);
}

TEST(Settings, WrongValuesNameVariableValueAndChoices) {
    const struct {
        const char *variable, *value, *choice;
    } table[] = {
        {"SOFTHCA_FABRIC", "a/b", "letters"},
        {"SOFTHCA_FABRIC", "..", "letters"},
        {"SOFTHCA_DEVICES", "0", "1 to 16"},
        {"SOFTHCA_DEVICES", "17", "1 to 16"},
        {"SOFTHCA_DEVICES", "two", "1 to 16"},
        {"SOFTHCA_PORTS", "3", "1 to 2"},
        {"SOFTHCA_PERSONALITY", "mlx6", "default, mlx5, mlx4"},
        {"SOFTHCA_RULES", "speed=1", "inline, send-sge"},
        {"SOFTHCA_RULES", "inline=4096", "0 to 1024"},
        {"SOFTHCA_RULES", "srq", "0 to 1"},
        {"SOFTHCA_LINK_LAYER", "roce", "auto, infiniband, ethernet"},
        {"SOFTHCA_ADDRESSES", "own", "shared, per-process"},
        {"SOFTHCA_SUBNETS", "two", "one, per-port"},
        {"SOFTHCA_EXECUTOR", "threads", "inline, thread"},
        {"SOFTHCA_PROFILE", "myri", "ideal, graphene, infini, hdr200, muse"},
        {"SOFTHCA_MODEL", "speed=1", "reg-bandwidth"},
        {"SOFTHCA_MODEL", "@/no/such.model", "cannot read '/no/such.model': No such file"},
        {"SOFTHCA_SLOW", "0", "1 to 10000"},
        {"SOFTHCA_SLOW", "twice", "1 to 10000"},
        {"SOFTHCA_FAULTS", "fire", "drop-qp=QPN"},
        {"SOFTHCA_SHARED", "on", "auto, off"},
        {"SOFTHCA_CLOCK", "wall", "real, virtual"},
    };
    for (const auto& row : table) {
        Settings settings;
        const auto error = parse(settings, {{row.variable, row.value}});
        ASSERT_TRUE(error.has_value()) << row.variable << "=" << row.value;
        EXPECT_EQ(error->rfind(std::string(row.variable) + "=" + row.value + ": ", 0), 0u)
            << *error;
        EXPECT_NE(error->find(row.choice), std::string::npos) << *error;
    }
}

TEST(Settings, FabricGetsWhatWasSet) {
    Settings settings;
    ASSERT_EQ(parse(settings, {{"SOFTHCA_DEVICES", "3"},
                               {"SOFTHCA_PORTS", "2"},
                               {"SOFTHCA_PERSONALITY", "hns"},
                               {"SOFTHCA_PROFILE", "hdr200"},
                               {"SOFTHCA_MODEL", "latency=9us"},
                               {"SOFTHCA_SLOW", "3"}}),
              std::nullopt);
    const FabricConfig config = fabric_config(settings);
    EXPECT_EQ(config.devices, 3u);
    EXPECT_EQ(config.ports, 2u);
    EXPECT_EQ(config.link_layer, LinkLayer::kEthernet) << "the device has no other";
    EXPECT_EQ(config.personality.limits.read_sge, 1);
    EXPECT_STREQ(config.personality_name, "hns");
    EXPECT_STREQ(config.profile, "hdr200");
    EXPECT_EQ(config.nic.latency_ns, 27'000u);
    EXPECT_EQ(config.nic.completion_ns, 3 * find_profile("hdr200")->completion_ns);
}

TEST(Settings, FabricNameHasALimit) {
    Settings settings;
    EXPECT_EQ(parse(settings, {{"SOFTHCA_FABRIC", std::string(64, 'x')}}), std::nullopt);
    EXPECT_TRUE(parse(settings, {{"SOFTHCA_FABRIC", std::string(65, 'x')}}).has_value());
}

TEST(Settings, OptionsAndTableNameEverySetting) {
    const std::string table = settings_table();
    for (const Setting& setting : kSettings) {
        EXPECT_NE(table.find("`" + std::string(setting.name) + "`"), std::string::npos)
            << setting.name;
        EXPECT_NE(table.find("`--" + option_name(setting) + "`"), std::string::npos)
            << setting.name;
    }
    EXPECT_EQ(option_name(kSettings[7]), "link-layer");
}

}  // namespace
}  // namespace softhca
