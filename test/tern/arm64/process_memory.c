// SPDX-License-Identifier: BSD-3-Clause
//
// Preloaded by contrib/arm64.sh: qemu-user lacks process_vm_readv and process_vm_writev, by which
// the software HCA moves data. /proc/PID/mem has the same memory, as qemu maps that of a 64-bit
// program at its own addresses.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

typedef ssize_t (*transfer_t)(int memory, char* here, size_t length, off_t there);

static ssize_t from_there(int memory, char* here, size_t length, off_t there) {
    return pread(memory, here, length, there);
}

static ssize_t to_there(int memory, char* here, size_t length, off_t there) {
    return pwrite(memory, here, length, there);
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static ssize_t move(pid_t pid, const struct iovec* local, unsigned long locals,
                    const struct iovec* remote, unsigned long remotes, transfer_t transfer) {
    char path[32];
    size_t at = 0, there = 0;  // bytes done of the current elements
    ssize_t sum = 0;
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    const int memory = open(path, O_RDWR | O_CLOEXEC);
    if (memory < 0) {
        errno = errno == ENOENT ? ESRCH : EPERM;
        return -1;
    }
    while (locals > 0 && remotes > 0) {
        const size_t length = least(local->iov_len - at, remote->iov_len - there);
        const ssize_t done = length == 0 ? 0
                                         : transfer(memory, (char*)local->iov_base + at, length,
                                                    (off_t)((char*)remote->iov_base + there));
        if (done < 0 || (size_t)done < length) {
            sum = sum > 0 || done > 0 ? sum + (done > 0 ? done : 0) : -1;
            errno = EFAULT;
            break;
        }
        sum += done;
        at += length;
        there += length;
        if (at == local->iov_len) ++local, --locals, at = 0;
        if (remotes > 0 && there == remote->iov_len) ++remote, --remotes, there = 0;
    }
    const int why = errno;
    close(memory);
    errno = why;
    return sum;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec* local, unsigned long locals,
                         const struct iovec* remote, unsigned long remotes, unsigned long flags) {
    (void)flags;
    return move(pid, local, locals, remote, remotes, from_there);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec* local, unsigned long locals,
                          const struct iovec* remote, unsigned long remotes, unsigned long flags) {
    (void)flags;
    return move(pid, local, locals, remote, remotes, to_there);
}
