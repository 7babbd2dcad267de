// SPDX-License-Identifier: BSD-3-Clause
// How connections by rdma_cm end: by a call, and by the death of a process.
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "cm.h"

namespace conformance::softhca::cm {
namespace {

class CmEndTest : public FabricTest {};

TEST_F(CmEndTest, BothSidesSeeThatOneDisconnects) {
    alone([] {
        Connected pair;
        ASSERT_EQ(rdma_disconnect(pair.caller.id.get()), 0);
        expect(pair.listener.channel, RDMA_CM_EVENT_DISCONNECTED, pair.accepted.get());
        expect(pair.caller.channel, RDMA_CM_EVENT_DISCONNECTED, pair.caller.id.get());
        EXPECT_EQ(rdma_disconnect(pair.accepted.get()), 0) << "of what is disconnected already";
        expect(pair.listener.channel, RDMA_CM_EVENT_TIMEWAIT_EXIT, pair.accepted.get());
        expect(pair.caller.channel, RDMA_CM_EVENT_TIMEWAIT_EXIT, pair.caller.id.get());
    });
}

TEST_F(CmEndTest, BothDisconnectAtOnce) {
    alone([] {
        for (int i = 0; i < 50; ++i) {
            Connected pair;
            std::thread other([&] { rdma_disconnect(pair.accepted.get()); });
            EXPECT_EQ(rdma_disconnect(pair.caller.id.get()), 0);
            other.join();
            expect(pair.listener.channel, RDMA_CM_EVENT_DISCONNECTED, pair.accepted.get());
            expect(pair.caller.channel, RDMA_CM_EVENT_DISCONNECTED, pair.caller.id.get());
        }
    });
}

TEST_F(CmEndTest, ThePeerSeesThatOneIsDestroyed) {
    alone([] {
        Connected pair;
        pair.caller.id.reset();
        expect(pair.listener.channel, RDMA_CM_EVENT_DISCONNECTED, pair.accepted.get());
    });
}

// A listener that is destroyed refuses the requests that the program has not read.
TEST_F(CmEndTest, RequestsOfADestroyedListener) {
    alone([] {
        auto listener = std::make_unique<Listener>();
        Caller caller(listener->port);
        begin_connect(caller);
        EXPECT_FALSE(silent(listener->channel));
        listener.reset();
        expect(caller.channel, RDMA_CM_EVENT_REJECTED, caller.id.get(), 28);
    });
}

TEST_F(CmEndTest, DestructionWaitsForAcknowledgments) {
    alone([] {
        const EventChannel channel = make_channel();
        Id id = make_id(channel);
        sockaddr_in to = ip(9);
        ASSERT_EQ(rdma_resolve_addr(id.get(), nullptr, any(to), 1000), 0);
        rdma_cm_event* event = nullptr;
        ASSERT_EQ(rdma_get_cm_event(channel.get(), &event), 0);
        std::atomic<bool> acknowledged{false};
        std::thread other([&] {
            std::this_thread::sleep_for(kQuiet);
            acknowledged = true;
            rdma_ack_cm_event(event);
        });
        id.reset();
        EXPECT_TRUE(acknowledged);
        other.join();
    });
}

// A process that connects, or listens, and stops where the test says.
enum class Until { kRequested, kConnected };
Id answer(Listener& listener, Until until) {
    if (until == Until::kRequested) {
        Id requested = listener.request();
        make_queue_pair(requested.get());
        return requested;
    }
    Id accepted = listener.accept();
    expect(listener.channel, RDMA_CM_EVENT_ESTABLISHED, accepted.get());
    return accepted;
}

// The peer of a listener is killed.
void caller_dies(Until until) {
    Team team;
    const int dies = team.spawn([&](Link& link) {
        Caller caller(link.receive<uint16_t>());
        begin_connect(caller);
        if (until == Until::kConnected)
            expect(caller.channel, RDMA_CM_EVENT_ESTABLISHED, caller.id.get());
        link.send();
        link.receive();
    });
    const int survives = team.spawn([&](Link& link) {
        Listener listener;
        link.send(listener.port);
        const Id accepted = answer(listener, until);
        link.send();
        link.receive();
        // The context of an identifier is the listener's until the program has accepted it; it
        // could not tell what an event is about.
        if (until == Until::kConnected)
            expect(listener.channel, RDMA_CM_EVENT_DISCONNECTED, accepted.get());
        else
            EXPECT_TRUE(silent(listener.channel));
        rdma_conn_param param = parameters();
        EXPECT_EQ(rdma_accept(accepted.get(), &param), -1);
        // The device may not have noticed yet that the caller of a request has gone.
        if (until == Until::kConnected || errno != ECONNRESET) {
            EXPECT_EQ(errno, EINVAL);
        }
        EXPECT_EQ(rdma_disconnect(accepted.get()), 0);
    });
    team[dies].send(team[survives].receive<uint16_t>());
    team[dies].receive();
    team[survives].receive();
    team.kill(dies);
    team[survives].send();
    team.finish();
}

TEST_F(CmEndTest, TheCallerDiesBeforeItIsAccepted) {
    caller_dies(Until::kRequested);
}
TEST_F(CmEndTest, TheCallerDies) {
    caller_dies(Until::kConnected);
}

// The connecting process sees that the listening process is killed.
void listener_dies(Until until) {
    Team team;
    const int dies = team.spawn([&](Link& link) {
        Listener listener;
        link.send(listener.port);
        const Id accepted = answer(listener, until);
        link.send();
        link.receive();
    });
    const int survives = team.spawn([&](Link& link) {
        Caller caller(link.receive<uint16_t>());
        begin_connect(caller);
        if (until == Until::kConnected) {
            expect(caller.channel, RDMA_CM_EVENT_ESTABLISHED, caller.id.get());
            link.send();
            expect(caller.channel, RDMA_CM_EVENT_DISCONNECTED, caller.id.get());
        } else {
            link.send();
            expect(caller.channel, RDMA_CM_EVENT_UNREACHABLE, caller.id.get(), -ETIMEDOUT);
        }
    });
    team[survives].send(team[dies].receive<uint16_t>());
    team[dies].receive();
    team[survives].receive();
    team.kill(dies);
    team.finish();
}

TEST_F(CmEndTest, TheListenerDiesBeforeItAccepts) {
    listener_dies(Until::kRequested);
}
TEST_F(CmEndTest, TheListenerDies) {
    listener_dies(Until::kConnected);
}

// A child that outlives its parent does not keep the parent's connections.
TEST_F(CmEndTest, TheListenerDiesAndItsChildLives) {
    Team team;
    const int dies = team.spawn([&](Link& link) {
        Listener listener;
        link.send(listener.port);
        const Id accepted = answer(listener, Until::kConnected);
        const pid_t child = fork();
        if (child == 0) {
            pause();
            _exit(0);
        }
        link.send(child);
        link.receive();
    });
    const int survives = team.spawn([&](Link& link) {
        Caller caller(link.receive<uint16_t>());
        begin_connect(caller);
        expect(caller.channel, RDMA_CM_EVENT_ESTABLISHED, caller.id.get());
        link.send();
        const Stopwatch watch;
        expect(caller.channel, RDMA_CM_EVENT_DISCONNECTED, caller.id.get());
        EXPECT_LT(watch.elapsed(), deadline() / 2);
    });
    team[survives].send(team[dies].receive<uint16_t>());
    const auto child = team[dies].receive<pid_t>();
    team[survives].receive();
    team.kill(dies);
    team.finish();
    EXPECT_EQ(kill(child, SIGKILL), 0) << "it has not outlived its parent";
}

// The name of a port's socket in the abstract name space, as any process of the user can find it.
std::string name_of_port(uint16_t port) {
    const std::string fabric = std::string("/") + std::getenv("SOFTHCA_FABRIC") + "/";
    const std::string end = "/" + std::to_string(port);
    std::ifstream sockets("/proc/net/unix");
    for (std::string line; std::getline(sockets, line);) {
        const size_t name = line.find("@softhca-cm/");
        if (name != std::string::npos && line.find(fabric, name) != std::string::npos &&
            line.ends_with(end))
            return line.substr(name + 1);
    }
    fail("nobody has port " + std::to_string(port));
}

// A process that does not speak rdma_cm connects to a port: nobody else notices.
TEST_F(CmEndTest, NonsenseFromAnotherProcess) {
    alone([] {
        Listener listener;
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const std::string name = name_of_port(listener.port);
        name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
        const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
        for (const size_t length : {size_t{1}, size_t{416}, size_t{4096}}) {
            const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
            ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
            const std::string nonsense(length, 'x');
            ASSERT_EQ(send(fd, nonsense.data(), nonsense.size(), 0),
                      static_cast<ssize_t>(nonsense.size()));
            char answer[4096];
            EXPECT_GT(recv(fd, answer, sizeof answer, 0), 0) << "it is refused";
            EXPECT_EQ(recv(fd, answer, sizeof answer, 0), 0);
            close(fd);
        }
        EXPECT_TRUE(silent(listener.channel));
        Caller caller(listener.port);
        begin_connect(caller);
        listener.request().reset();
    });
}

// Whoever forks keeps what it has, and its child may destroy its copies.
TEST_F(CmEndTest, AChildDoesNotDisconnectItsParent) {
    alone([] {
        Connected pair;
        const pid_t child = fork();
        if (child == 0) {
            rdma_destroy_qp(pair.caller.id.get());
            _exit(rdma_destroy_id(pair.caller.id.get()));
        }
        int status = -1;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
        talk(pair.caller.id.get(), pair.accepted.get());
        EXPECT_TRUE(silent(pair.listener.channel));
    });
}

}  // namespace
}  // namespace conformance::softhca::cm
