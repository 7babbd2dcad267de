// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/bootstrap/pmi1.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "rwapi/base/log.h"
#include "rwapi/include/rwapi.h"

namespace rwapi {
namespace {

constexpr int kMaxProcesses = 1 << 24;
constexpr int kMinKey = 28;  // the maximum length of key_of()
constexpr int kMaxLength = 1 << 20;
constexpr int kBarrierPoll = 20;  // ms; another thread may have read the end of the barrier
const std::string kBarrier = "cmd=barrier_in";

std::string key_of(uint32_t number, uint32_t rank) {
    return "rwapi." + std::to_string(number) + "." + std::to_string(rank);
}

std::optional<int> number_in(const char* variable, int min, int max) {
    const char* text = std::getenv(variable);
    return text != nullptr ? parse_number(text, min, max) : std::nullopt;
}

}  // namespace

Pmi1Launcher::~Pmi1Launcher() {
    ::close(fd_);
}

int Pmi1Launcher::start() {
    const int error = introduce();
    broken_ = error != 0;
    return error;
}

int Pmi1Launcher::introduce() {
    ::fcntl(fd_, F_SETFD, FD_CLOEXEC);
    if (!request("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")) {
        return RWAPI_ERR_START;
    }
    const auto limits = request("cmd=get_maxes", "maxes");
    if (!limits) return RWAPI_ERR_START;
    const auto value = limits->number("vallen_max", 2, kMaxLength);
    if (!value || !limits->number("keylen_max", kMinKey, kMaxLength)) {
        fail("its limits of keys and values are missing or too small");
        return RWAPI_ERR_START;
    }
    // One less, because some launchers count a null character.
    max_value_ = std::min(static_cast<size_t>(*value) - 1, kPmi1MaxValue);
    const auto space = request("cmd=get_my_kvsname", "my_kvsname");
    if (!space) return RWAPI_ERR_START;
    space_ = space->text("kvsname").value_or("");
    if (!space_.empty()) return 0;
    fail("its key-value space has no name");
    return RWAPI_ERR_START;
}

int Pmi1Launcher::put(uint32_t number, std::span<const std::byte> address) {
    const std::string value = encode_value(address);
    if (value.size() > max_value_) {
        log_error(
            "an address of this device takes %zu characters, and the launcher's values have "
            "%zu: use a launcher with PMIx",
            value.size(), max_value_);
        return RWAPI_ERR_START;
    }
    const std::string line =
        "cmd=put kvsname=" + space_ + " key=" + key_of(number, rank_) + " value=" + value;
    return request(line, "put_result") ? 0 : RWAPI_ERR_START;
}

int Pmi1Launcher::get(uint32_t number, uint32_t node, std::vector<std::byte>& address) {
    const std::string line = "cmd=get kvsname=" + space_ + " key=" + key_of(number, node);
    const auto answer = request(line, "get_result");
    if (!answer) return RWAPI_ERR_START;
    if (decode_value(answer->text("value").value_or(""), address)) return 0;
    log_error("the launcher returns a damaged address of node %u: start the job again", node);
    return RWAPI_ERR_START;
}

// Another thread may request an address meanwhile: before a peer can enter the barrier, it may need
// an answer from this process, which must first look up the peer's address.
int Pmi1Launcher::barrier() {
    const std::lock_guard alone(barrier_mutex_);
    {
        const std::lock_guard lock(mutex_);
        barrier_out_.reset();
        if (broken_) return RWAPI_ERR_START;
        if (!send_line(kBarrier)) {
            fail(std::strerror(errno));
            return RWAPI_ERR_START;
        }
        in_barrier_ = true;
    }
    for (;;) {
        (void)readable(kBarrierPoll);
        if (const auto over = check_barrier()) return *over;
    }
}

std::optional<int> Pmi1Launcher::check_barrier() {
    const std::lock_guard lock(mutex_);
    if (!barrier_out_ && !broken_ && readable(0)) barrier_out_ = receive_line();
    if (broken_) return RWAPI_ERR_START;
    if (!barrier_out_) return std::nullopt;
    in_barrier_ = false;
    if (checked(*barrier_out_, "barrier_out", kBarrier)) return 0;
    return broken_ ? RWAPI_ERR_START : RWAPI_ERR_PEER;
}

bool Pmi1Launcher::readable(int milliseconds) const {
    pollfd socket{fd_, POLLIN, 0};
    return ::poll(&socket, 1, milliseconds) > 0;
}

void Pmi1Launcher::finish() {
    const std::unique_lock alone(barrier_mutex_, std::try_to_lock);
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!alone || !lock) return;
    // Some launchers report a crash if the socket is closed before their answer.
    if (!broken_ && send_line("cmd=finalize")) receive_line();
    broken_ = true;
}

std::optional<Pmi1Message> Pmi1Launcher::request(const std::string& line, std::string_view answer) {
    const std::lock_guard lock(mutex_);
    if (broken_) return std::nullopt;
    if (!send_line(line)) return fail(std::strerror(errno));
    auto received = receive_line();
    if (received && in_barrier_ && received->starts_with("cmd=barrier_out")) {
        barrier_out_ = std::move(received);
        received = receive_line();
    }
    return received ? checked(*received, answer, line) : std::nullopt;
}

std::optional<Pmi1Message> Pmi1Launcher::checked(const std::string& received,
                                                 std::string_view answer, const std::string& line) {
    auto message = Pmi1Message::parse(received);
    if (!message || message->command() != answer) {
        return fail("its answer is not PMI-1's " + std::string(answer));
    }
    if (message->text("rc") && !message->number("rc", 0, 0)) {
        log_error("the launcher (PMI-1) refuses %s: %s", line.substr(0, 60).c_str(),
                  received.substr(0, 200).c_str());
        return std::nullopt;
    }
    return message;
}

bool Pmi1Launcher::send_line(std::string_view line) {
    const std::string bytes = std::string(line) + "\n";
    for (size_t sent = 0; sent < bytes.size();) {
        const ssize_t n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
        if (n > 0) sent += static_cast<size_t>(n);
        if (n < 0 && errno != EINTR) return false;
    }
    return true;
}

std::optional<std::string> Pmi1Launcher::receive_line() {
    for (;;) {
        if (auto line = lines_.next()) return line;
        if (!readable(answer_limit_)) return fail("it does not answer");
        char some[1024];
        const ssize_t n = ::read(fd_, some, sizeof some);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(std::strerror(errno));
        if (n == 0) return fail("it has closed the connection");
        if (!lines_.append({some, static_cast<size_t>(n)})) return fail("it sent too long a line");
    }
}

std::nullopt_t Pmi1Launcher::fail(const std::string& reason) {
    broken_ = true;
    log_error("the launcher (PMI-1): %s: start the job again", reason.c_str());
    return std::nullopt;
}

bool pmi1_offered() {
    // Processes of a nested launcher of another kind inherit the variable but not the socket, and
    // the number may belong to another file by now. PMI-1's socket is one of an unnamed pair.
    const auto fd = number_in("PMI_FD", 0, INT_MAX);
    sockaddr_un peer;
    socklen_t length = sizeof peer;
    return fd && ::getpeername(*fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
           peer.sun_family == AF_UNIX && length == sizeof peer.sun_family;
}

std::unique_ptr<Launcher> connect_pmi1() {
    const auto fd = number_in("PMI_FD", 0, INT_MAX);
    const auto size = number_in("PMI_SIZE", 1, kMaxProcesses);
    const auto rank = number_in("PMI_RANK", 0, size.value_or(1) - 1);
    if (!fd || !size || !rank) {
        log_error("PMI_FD, PMI_RANK or PMI_SIZE is invalid: start the job again");
        return nullptr;
    }
    auto launcher = std::make_unique<Pmi1Launcher>(*fd, static_cast<uint32_t>(*rank),
                                                   static_cast<uint32_t>(*size));
    return launcher->start() == 0 ? std::move(launcher) : nullptr;
}

}  // namespace rwapi
