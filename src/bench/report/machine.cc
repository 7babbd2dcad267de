// SPDX-License-Identifier: BSD-3-Clause
#include "bench/report/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

namespace report {

Machine this_machine() {
    Machine machine = {"unknown CPU", ::sysconf(_SC_NPROCESSORS_ONLN), "unknown kernel", false};
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line) && !line.empty();) {
        if (line.starts_with("model name")) machine.cpu = line.substr(line.find(':') + 2);
        // Hypervisors set this flag in their guests.
        if (line.starts_with("flags")) machine.is_virtual = line.find(" hypervisor") != line.npos;
    }
    utsname system;
    if (::uname(&system) == 0) machine.kernel = std::string(system.sysname) + " " + system.release;
    return machine;
}

std::string Machine::text() const {
    return cpu + ", " + std::to_string(cores) + " CPUs" +
           (is_virtual ? " of a virtual machine" : "") + ", " + kernel;
}

}  // namespace report
