// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/bootstrap/pmi1.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
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
constexpr int kMinKey = 40;  // what key_of() gives at most
constexpr int kMaxLength = 1 << 20;

std::string key_of(uint32_t number, uint32_t rank, size_t part) {
    return "rwapi." + std::to_string(number) + "." + std::to_string(rank) + "." +
           std::to_string(part);
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
    ::fcntl(fd_, F_SETFD, FD_CLOEXEC);
    if (!request("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")) {
        return RWAPI_ERR_START;
    }
    const auto limits = request("cmd=get_maxes", "maxes");
    if (!limits) return RWAPI_ERR_START;
    const auto value = limits->number("vallen_max", kPmi1MinValue + 1, kMaxLength);
    if (!value || !limits->number("keylen_max", kMinKey, kMaxLength)) {
        fail("its limits of keys and values are absent or too small");
        return RWAPI_ERR_START;
    }
    // One less, as some launchers count a null character.
    max_value_ = std::min(static_cast<size_t>(*value) - 1, kPmi1MaxValue);
    const auto space = request("cmd=get_my_kvsname", "my_kvsname");
    if (!space) return RWAPI_ERR_START;
    space_ = space->text("kvsname").value_or("");
    if (!space_.empty()) return 0;
    fail("its key-value space has no name");
    return RWAPI_ERR_START;
}

int Pmi1Launcher::put(uint32_t number, std::span<const std::byte> address) {
    const auto values = encode_values(address, max_value_);
    for (size_t part = 0; part < values.size(); ++part) {
        const std::string line = "cmd=put kvsname=" + space_ +
                                 " key=" + key_of(number, rank_, part) + " value=" + values[part];
        if (!request(line, "put_result")) return RWAPI_ERR_START;
    }
    return 0;
}

int Pmi1Launcher::get(uint32_t number, uint32_t node, std::vector<std::byte>& address) {
    ValueDecoder decoder;
    for (size_t part = 0; !decoder.complete(); ++part) {
        const std::string line = "cmd=get kvsname=" + space_ + " key=" + key_of(number, node, part);
        const auto answer = request(line, "get_result");
        if (!answer) return RWAPI_ERR_START;
        if (!decoder.take(answer->text("value").value_or(""))) {
            log_error("the launcher has a damaged address of node %u; start the job anew", node);
            return RWAPI_ERR_START;
        }
    }
    address = std::move(decoder.address());
    return 0;
}

int Pmi1Launcher::barrier() {
    return request("cmd=barrier_in", "barrier_out") ? 0 : RWAPI_ERR_START;
}

void Pmi1Launcher::finish() {
    if (!mutex_.try_lock()) return;
    // The answer is waited for, because some launchers take a socket closed before it for a crash.
    if (!broken_ && send_line("cmd=finalize")) receive_line();
    broken_ = true;
    mutex_.unlock();
}

std::optional<Pmi1Message> Pmi1Launcher::request(const std::string& line, std::string_view answer) {
    const std::lock_guard lock(mutex_);
    if (broken_) return std::nullopt;
    if (!send_line(line)) return fail(std::strerror(errno));
    const auto received = receive_line();
    if (!received) return std::nullopt;
    auto message = Pmi1Message::parse(*received);
    if (!message || message->command() != answer) {
        return fail("it does not answer as in PMI-1; expected " + std::string(answer));
    }
    if (message->text("rc") && !message->number("rc", 0, 0)) {
        return fail("it refuses " + line.substr(0, 60) + ": " + received->substr(0, 200));
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
    log_error("the launcher behind PMI_FD: %s; start the job anew", reason.c_str());
    return std::nullopt;
}

bool pmi1_offered() {
    // A launcher of another kind that this one has started passes on the variable, but no socket.
    const auto fd = number_in("PMI_FD", 0, INT_MAX);
    struct stat status;
    return fd && ::fstat(*fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

std::unique_ptr<Launcher> connect_pmi1() {
    const auto fd = number_in("PMI_FD", 0, INT_MAX);
    const auto size = number_in("PMI_SIZE", 1, kMaxProcesses);
    const auto rank = number_in("PMI_RANK", 0, size.value_or(1) - 1);
    if (!fd || !size || !rank) {
        log_error("PMI_FD, PMI_RANK or PMI_SIZE is wrong; start the job anew");
        return nullptr;
    }
    auto launcher = std::make_unique<Pmi1Launcher>(*fd, static_cast<uint32_t>(*rank),
                                                   static_cast<uint32_t>(*size));
    return launcher->start() == 0 ? std::move(launcher) : nullptr;
}

}  // namespace rwapi
