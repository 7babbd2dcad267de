// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/core/nic_profiles.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "softhca/core/nic_model.h"
#include "softhca/model_file.h"

namespace softhca {
namespace {

TEST(Profiles, ProfilesAreThoseNamed) {
    EXPECT_EQ(profile_names(),
              "ideal, graphene, infini, hdr200, muse, cx3-fdr, cx5-edr, cx6-hdr, cx7-ndr");
    for (const char* name :
         {"graphene", "infini", "hdr200", "muse", "cx3-fdr", "cx5-edr", "cx6-hdr", "cx7-ndr"}) {
        ASSERT_NE(find_profile(name), nullptr) << name;
        EXPECT_TRUE(find_profile(name)->models_time()) << name;
    }
    EXPECT_EQ(find_profile("Graphene"), nullptr);
    EXPECT_EQ(find_profile(""), nullptr);
    EXPECT_DOUBLE_EQ(find_profile("graphene")->bandwidth, 2.0);
}

// What a model file says of its values, which is for readers.
struct Origins {
    std::map<std::string, std::string, std::less<>> sources;  // by parameter
    std::map<std::string, std::string, std::less<>> hosts;    // by group

    explicit Origins(std::string_view text) {
        std::string group;
        std::istringstream lines{std::string(text)};
        for (std::string line; std::getline(lines, line);) {
            const size_t hash = std::min(line.find('#'), line.size());
            const ListEntry entry = entry_of(std::string_view(line).substr(0, hash));
            if (entry.key.starts_with('[')) group = entry.key.substr(1, entry.key.size() - 2);
            if (!entry.has_value) continue;
            if (entry.key == "host")
                hosts[group] = entry.value;
            else
                sources[std::string(entry.key)] = hash < line.size() ? line.substr(hash + 1) : "";
        }
    }
    std::string host_of(std::string_view parameter) const {
        const auto host = hosts.find(group_of(parameter));
        return host != hosts.end() ? host->second : "";
    }
};

std::string host_of(std::string_view profile, std::string_view parameter) {
    for (const auto& [name, text] : model_texts())
        if (name == profile) return Origins(text).host_of(parameter);
    return "";
}

// Published figures, in ns and GB/s, and the model's, which may be a tenth off.
// docs/softhca/softhca.md has the whole table.
struct Published {
    const char* profile;
    Request request;
    double ns;
    const char* host;
};

// The parameter that such a figure gives.
const char* latency_of(const Request& request) {
    switch (request.kind) {
        case RequestKind::kRead:
            return "read";
        case RequestKind::kAtomic:
            return "atomic";
        default:
            return request.bytes > 8 ? "gather" : "latency";
    }
}

const char* spacing_of(const Request& request) {
    switch (request.kind) {
        case RequestKind::kRead:
            return "qp-read";
        case RequestKind::kAtomic:
            return "atomic-interval";
        case RequestKind::kSend:
            return request.is_inline ? "qp-inline" : "qp-send";
        default:
            return request.is_inline ? "qp-inline" : "qp-write";
    }
}

constexpr uint64_t kKiB = 1024;

class PublishedLatency : public testing::TestWithParam<Published> {};

TEST_P(PublishedLatency, IsModeled) {
    const auto& [profile, request, ns, host] = GetParam();
    EXPECT_EQ(host_of(profile, latency_of(request)), host);
    const NicParameters& nic = *find_profile(profile);
    const double model = static_cast<double>(arrival_ns(nic, request) +
                                             (request.reads() ? 0 : receive_ns(nic, request.kind)));
    EXPECT_NEAR(model, ns, 0.1 * ns) << profile << ", " << request.bytes << " bytes";
}

constexpr char kTeaker[] = "perftest on MT4099, hosts teaker-10 and -11";
constexpr char kPerftest131[] = "linux-rdma/perftest issue 131";
constexpr char kZaratan[] = "Zaratan, HDR100";
constexpr char kApt[] = "Apt cluster: Kalia et al., ATC 2016, and rdma_bench";
constexpr char kUcx1831[] = "openucx/ucx issue 1831";
constexpr char kVm[] = "MT28908 in a virtual machine with A100";
constexpr char kBackToBack[] = "MCX75310AAS, back to back";
constexpr char kTwoInOne[] = "two adapters in one host, benchmarks with stdrdma.h";

INSTANTIATE_TEST_SUITE_P(
    All, PublishedLatency,
    testing::Values(Published{"cx3-fdr", {RequestKind::kWrite, 2, true}, 980, kTeaker},
                    Published{"cx3-fdr", {RequestKind::kWrite, 128, true}, 1220, kTeaker},
                    Published{"cx3-fdr", {RequestKind::kWrite, 256}, 1840, kTeaker},
                    Published{"cx3-fdr", {RequestKind::kSend, 2, true}, 1070, kTeaker},
                    Published{"cx3-fdr", {RequestKind::kSend, 128, true}, 1270, kTeaker},
                    Published{"cx3-fdr", {RequestKind::kSend, 256}, 1860, kTeaker},
                    Published{"cx3-fdr", {RequestKind::kRead, 2}, 1990, kTeaker},
                    Published{"cx3-fdr", {RequestKind::kAtomic, 8}, 2340, kTeaker},
                    Published{"cx5-edr", {RequestKind::kWrite, 8, true}, 930, kPerftest131},
                    Published{"cx5-edr", {RequestKind::kWrite, 8}, 1320, kPerftest131},
                    Published{"cx5-edr", {RequestKind::kRead, 8}, 1910, kPerftest131},
                    Published{"cx6-hdr", {RequestKind::kWrite, 2, true}, 1260, kZaratan},
                    Published{"cx6-hdr", {RequestKind::kSend, 2, true}, 1270, kZaratan},
                    Published{"cx6-hdr", {RequestKind::kRead, 2}, 2390, kZaratan},
                    Published{"cx7-ndr", {RequestKind::kSend, 8, true}, 1270, kBackToBack}));

class PublishedSpacing : public testing::TestWithParam<Published> {};

TEST_P(PublishedSpacing, IsModeled) {
    const auto& [profile, request, ns, host] = GetParam();
    EXPECT_EQ(host_of(profile, spacing_of(request)), host);
    const double model = static_cast<double>(spacing_ns(*find_profile(profile), request));
    EXPECT_NEAR(model, ns, 0.1 * ns) << profile << ", " << request.bytes << " bytes";
}

INSTANTIATE_TEST_SUITE_P(
    All, PublishedSpacing,
    testing::Values(
        Published{"cx3-fdr", {RequestKind::kWrite, 2}, 1000 / 7.6, kTeaker},
        Published{"cx3-fdr", {RequestKind::kSend, 2}, 1000 / 5.3, kTeaker},
        Published{"cx3-fdr", {RequestKind::kRead, 2}, 1000 / 6.2, kTeaker},
        Published{"cx3-fdr", {RequestKind::kAtomic, 8}, 1000 / 2.7, kApt},
        Published{"cx5-edr", {RequestKind::kSend, 8, true}, 1000 / 6.15, kUcx1831},
        Published{"cx5-edr", {RequestKind::kSend, 64, true}, 1000 / 5.83, kUcx1831},
        Published{"cx5-edr", {RequestKind::kSend, 512}, 1000 / 3.21, kUcx1831},
        Published{"cx5-edr", {RequestKind::kSend, 1024}, 1000 / 2.87, kUcx1831},
        Published{"cx5-edr", {RequestKind::kSend, 2048}, 1000 / 2.93, kUcx1831},
        Published{"cx6-hdr", {RequestKind::kWrite, 2}, 1000 / 2.65, kVm},
        Published{"cx6-hdr", {RequestKind::kWrite, 4 * kKiB}, 4 * kKiB / 10.3, kVm},
        Published{"cx6-hdr", {RequestKind::kWrite, 8 * kKiB}, 8 * kKiB / 17.5, kVm},
        Published{"cx6-hdr", {RequestKind::kWrite, 16 * kKiB}, 16 * kKiB / 20.5, kVm},
        Published{"cx6-hdr", {RequestKind::kWrite, 64 * kKiB}, 64 * kKiB / 22.7, kVm},
        Published{"cx6-hdr", {RequestKind::kWrite, 1 << 20}, (1 << 20) / 23.3, kVm},
        Published{"cx6-hdr", {RequestKind::kAtomic, 8}, 1000 / 2.17, kTwoInOne},
        Published{"cx7-ndr", {RequestKind::kWrite, 64 * kKiB}, 64 * kKiB / 49.0, kBackToBack}));

TEST(Profiles, WritesAndSendsOfAProfileAreOfOneHost) {
    for (const char* profile : {"cx3-fdr", "cx5-edr", "cx6-hdr", "cx7-ndr"}) {
        EXPECT_NE(host_of(profile, "qp-write"), "") << profile;
        EXPECT_EQ(host_of(profile, "qp-write"), host_of(profile, "qp-send")) << profile;
        EXPECT_EQ(host_of(profile, "qp-write"), host_of(profile, "qp-inline")) << profile;
        EXPECT_EQ(host_of(profile, "latency"), host_of(profile, "read")) << profile;
    }
    EXPECT_EQ(host_of("ideal", "qp-write"), "");
    EXPECT_EQ(host_of("cx5-edr", "no such parameter"), "");
}

TEST(Profiles, RegistrationIsWithinThePublishedRange) {
    for (const char* name : {"cx3-fdr", "cx5-edr", "cx6-hdr", "cx7-ndr"}) {
        const NicParameters& nic = *find_profile(name);
        constexpr uint64_t kPages = 1 << 20;
        const uint64_t ns = nic.registration.time_ns(kPages * 4096);
        EXPECT_GE(ns, kPages * 250) << name;
        EXPECT_LE(ns, kPages * 400) << name;
        EXPECT_EQ(nic.registration.time_ns(0), 16'000u) << name;
        EXPECT_NEAR(nic.deregistration.time_ns(kPages * 4096), kPages * 95, kPages * 5) << name;
    }
}

TEST(Profiles, EachValueOfThemHasASourceAndEachMeasuredGroupAHost) {
    EXPECT_EQ(model_texts().size(), 9u);
    for (const auto& [name, text] : model_texts()) {
        const Origins origins(text);
        for (const auto& [parameter, source] : origins.sources) {
            EXPECT_NE(trimmed(source), "") << name << ", " << parameter;
            EXPECT_TRUE(group_of(parameter).empty() || origins.host_of(parameter) != "" ||
                        trimmed(source).starts_with("assumed"))
                << name << ", " << parameter;
        }
    }
}

TEST(ModelFile, SetsParametersAndPersonality) {
    Model model;
    ASSERT_EQ(parse_model("# an adapter\n\npersonality=mlx4 # its driver\r\n  gap = 7ns\n"
                          "[latency]\nhost = here, and there # again\nlatency = 2.3\nsend = 5ns\n"
                          "[queue-pair]\nqp-inline = 1us",
                          model),
              std::nullopt);
    EXPECT_EQ(model.personality, "mlx4");
    EXPECT_EQ(model.nic.gap_ns, 7u);
    EXPECT_EQ(model.nic.latency_ns, 2300u);
    EXPECT_EQ(model.nic.send_ns, 5u);
    EXPECT_EQ(model.nic.queue_pair.inline_ns, 1000u);
}

TEST(ModelFile, ErrorsNameTheLineAndTheChoices) {
    const struct {
        const char *text, *line, *says;
    } table[] = {
        {"# ConnectX\nlatency 5", "line 2: ", "NAME = VALUE # SOURCE, not 'latency 5'"},
        {"gap =   # nothing", "line 1: ", "NAME = VALUE # SOURCE"},
        {"= 5", "line 1: ", "NAME = VALUE # SOURCE, not '= 5'"},
        {"\n\nspeed = 3", "line 3: ", "'speed'; choose from latency, bandwidth"},
        {"gap = soon", "line 1: ", "gap wants a time"},
        {"bandwidth = fast", "line 1: ", "bandwidth wants a number of GB/s"},
        {"personality = mlx6", "line 1: ", "'mlx6'; choose from default, mlx5"},
        {"personality = mlx5,speed=1", "line 1: ", "choose from ethernet, inline"},
        {"[ports]", "line 1: ", "'[ports]'; choose from latency, data, queue-pair, port"},
        {"[port", "line 1: ", "choose from latency, data, queue-pair, port"},
        {"gap = 1\ngap = 2", "line 2: ", "gap is there twice"},
        {"[port]\n[data]\n[port]", "line 3: ", "[port] is there twice"},
        {"host = mine", "line 1: ", "a host is of a group"},
        {"[port]\nhost = one\nhost = two", "line 3: ", "a second host of group port"},
        {"[port]\nqp-send = 1", "line 2: ", "qp-send is of group queue-pair"},
        {"latency = 1", "line 1: ", "latency is of group latency"},
        {"[latency]\nbandwidth = 1", "line 2: ", "bandwidth must be above the groups"},
        {"[latency]\npersonality = mlx5", "line 2: ", "personality must be above the groups"},
    };
    for (const auto& [text, line, says] : table) {
        Model model;
        const auto error = parse_model(text, model);
        ASSERT_TRUE(error.has_value()) << text;
        EXPECT_EQ(error->rfind(line, 0), 0u) << *error;
        EXPECT_NE(error->find(says), std::string::npos) << *error;
    }
}

// A file of the user's, which ends with the test.
class UsersModelFile : public testing::Test {
  protected:
    void write(std::string_view text) { std::ofstream(path_) << text; }
    std::string at() const { return "@" + path_; }
    std::optional<std::string> apply(const std::string& value) {
        return apply_model(value, nic_, personality_);
    }
    ~UsersModelFile() override { std::remove(path_.c_str()); }

    const std::string path_ =
        testing::TempDir() + "softhca-" + std::to_string(::getpid()) + ".model";
    NicParameters nic_ = {.latency_ns = 3, .gap_ns = 4};
    std::string personality_ = "irdma";
};

TEST_F(UsersModelFile, HasTheFormOfTheProfiles) {
    for (const auto& [name, text] : model_texts()) {
        write(text);
        ASSERT_EQ(apply(at()), std::nullopt) << name;
        EXPECT_EQ(describe(nic_), describe(*find_profile(name)));
        EXPECT_EQ(personality_, find_model(name)->personality) << name;
    }
}

TEST_F(UsersModelFile, TakesThePlaceOfAllAndSingleParametersFollow) {
    write("bandwidth = 2\n");
    ASSERT_EQ(apply(at() + ", latency=2us,gap=1ns"), std::nullopt);
    EXPECT_EQ(nic_.latency_ns, 2000u);
    EXPECT_EQ(nic_.gap_ns, 1u);
    EXPECT_DOUBLE_EQ(nic_.bandwidth, 2);
    EXPECT_EQ(personality_, "default");
    ASSERT_EQ(apply("gap=5ns"), std::nullopt);
    EXPECT_EQ(nic_.latency_ns, 2000u) << "no file: the rest stays";
    ASSERT_EQ(apply(at()), std::nullopt);
    EXPECT_EQ(nic_.latency_ns, 0u) << "the file does not name it";
}

TEST_F(UsersModelFile, IsRefusedWithItsNameAndChangesNothing) {
    write("bandwidth = 2\nspeed = 3\n");
    const std::string huge(1 << 17, '#');
    const auto refuses = [this](const std::string& value, const std::string& says) {
        const auto error = apply(value);
        ASSERT_TRUE(error.has_value()) << value;
        EXPECT_NE(error->find(says), std::string::npos) << *error;
        EXPECT_EQ(nic_.latency_ns, 3u);
        EXPECT_DOUBLE_EQ(nic_.bandwidth, 0);
        EXPECT_EQ(personality_, "irdma");
    };
    refuses(at(), path_ + ", line 2: unknown parameter 'speed'");
    refuses(at() + "-none", "cannot read '" + path_ + "-none'");
    refuses("@", "cannot read ''");
    refuses("@" + testing::TempDir(), "cannot read '");
    write("bandwidth = 2\n");
    refuses(at() + ",speed=3", "unknown parameter 'speed'");
    refuses("gap=1ns," + at(), "unknown parameter '@");
    write(huge);
    refuses(at(), "longer than 64 KiB");
}

}  // namespace
}  // namespace softhca
