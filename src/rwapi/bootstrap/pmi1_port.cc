// SPDX-License-Identifier: BSD-3-Clause
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>

#include "rwapi/base/log.h"
#include "rwapi/bootstrap/pmi1.h"

namespace rwapi {
namespace {

constexpr timeval kConnectTimeout = {10, 0};

// Logs the reason. Returns -1.
int fail_port(const char* reason) {
    log_error(
        "the launcher at PMI_PORT=%s: %s: start the job again, or unset PMI_PORT if no launcher "
        "has "
        "started this process",
        std::getenv("PMI_PORT"), reason);
    return -1;
}

int connect_to(const addrinfo& address) {
    const int fd = ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    const timeval no_timeout{};
    const int yes = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kConnectTimeout, sizeof kConnectTimeout);
    if (::connect(fd, address.ai_addr, address.ai_addrlen) == 0) {
        ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &no_timeout, sizeof no_timeout);
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        return fd;
    }
    // connect() returns EINPROGRESS when its time is over.
    const int error = errno == EINPROGRESS ? ETIMEDOUT : errno;
    ::close(fd);
    errno = error;
    return -1;
}

// A socket, or -1.
int connect_to(const std::string& place) {
    const size_t colon = place.rfind(':');
    if (colon == std::string::npos || colon == 0 ||
        !parse_number(std::string_view(place).substr(colon + 1), 1, 65535))
        return fail_port("it is not HOST:PORT");
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error = ::getaddrinfo(place.substr(0, colon).c_str(), place.substr(colon + 1).c_str(),
                                    &wanted, &found);
    if (error != 0) return fail_port(::gai_strerror(error));
    int fd = -1;
    for (const addrinfo* each = found; each != nullptr && fd < 0; each = each->ai_next)
        fd = connect_to(*each);
    const int reason = errno;
    ::freeaddrinfo(found);
    return fd >= 0 ? fd : fail_port(std::strerror(reason));
}

}  // namespace

bool pmi1_port_offered() {
    return std::getenv("PMI_PORT") != nullptr;
}

std::unique_ptr<Launcher> connect_pmi1_port() {
    const char* port = std::getenv("PMI_PORT");
    const char* id = std::getenv("PMI_ID");
    const auto number = id != nullptr ? parse_number(id, 0, INT_MAX) : std::nullopt;
    if (!number) {
        fail_port("PMI_ID is not a number");
        return nullptr;
    }
    const int fd = connect_to(port != nullptr ? port : "");
    if (fd < 0) return nullptr;
    auto launcher = std::make_unique<Pmi1Launcher>(fd);
    return launcher->start(number) == 0 ? std::move(launcher) : nullptr;
}

}  // namespace rwapi
