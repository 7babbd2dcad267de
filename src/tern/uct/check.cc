// SPDX-License-Identifier: BSD-3-Clause
// tern_check(): what `tern-run --check` says of the machine's devices.
#include <sys/resource.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ucx/handles.h"
#include "tern/pinning/cache/pin_cache.h"
#include "tern/pinning/watch/userfault_source.h"
#include "tern/uct/config.h"
#include "tern/uct/explain.h"
#include "tern/uct/iface_state.h"
#include "tern/uct/md.h"
#include "tern/verbs/queue_pair.h"
#include "tern/verbs/xrc.h"

namespace tern {
namespace {

constexpr rlim_t kEnoughLocked = rlim_t{5} << 20;  // of a process; docs/tern/tern.md names it

template <typename T>
using Config = rwapi::Owner<T, uct_config_release>;

// The worker that interfaces are opened on.
struct CheckWorker {
    CheckWorker() {
        ucs_async_context_t* thread = nullptr;
        if (ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &thread) != UCS_OK) return;
        async.reset(thread);
        uct_worker_h made = nullptr;
        if (uct_worker_create(thread, UCS_THREAD_MODE_SINGLE, &made) == UCS_OK) worker.reset(made);
    }

    rwapi::Async async;
    rwapi::Worker worker;
};

std::string text_of_address(const verbs::Port& port, const PeerAddress& self) {
    std::string text = self.port.to_string();
    if (!port.ethernet) return text;
    const verbs::GidFamily first = verbs::first_family(port.roce.set);
    constexpr const char* kKinds[] = {"IPv4", "IPv6", "link-local"};
    text += std::string(" (first choice: entry ") + std::to_string(port.gid_index) + ", RoCE " +
            (verbs::is_roce_v2(first) ? "v2, " : "v1, ") +
            kKinds[static_cast<size_t>(verbs::kind_of(first))] + ")";
    return text;
}

// What the device promises of a connection: mlx5 knows it only of one that is up.
bool promises_order(const verbs::Device& device, const verbs::Port& port) {
    ibv_qp_cap granted{};
    const auto cq = verbs::create_completion_queue(device.context.get(), 4, 4, nullptr);
    const auto qp = verbs::create_queue_pair(device.pd.get(), IBV_QPT_RC, cq.get(), nullptr,
                                             {.sends = 1, .receives = 1}, granted);
    return qp && verbs::init_reliable(qp.get(), port) == 0 &&
           verbs::connect_reliable(qp.get(), port, {},
                                   port.address_vector(port.attributes.lid, port.gid, port.global),
                                   qp->qp_num, 0, 0, port.mtu, port.reads) == 0 &&
           verbs::writes_in_order(qp.get());
}

// Whether the setting lets UCX use the port.
bool is_wanted(const std::string& port) {
    const char* wanted = ::getenv("UCX_NET_DEVICES");
    if (wanted == nullptr || std::string(wanted) == "all") return true;
    const std::string list = std::string(",") + wanted + ",";
    return list.find("," + port + ",") != std::string::npos;
}

class Check {
  public:
    Check(tern_check_line_func_t say, void* argument) : say_(say), argument_(argument) {}

    void all() {
        check_plugin();
        check_userfaultfd();
        check_limit();
        check_memory();
        check_site();
        check_devices();
        if (usable_ != 0 || wrong_) return;
        wrong("devices", "no port can be used",
              ignored_ != 0 ? "change UCX_NET_DEVICES, which names none of the usable ports"
                            : "see the devices and ports above, and ibv_devinfo; tern-run "
                              "--soft-hca needs none");
    }

  private:
    void good(const std::string& what, const std::string& finding) { line(0, what, finding, ""); }
    void note(const std::string& what, const std::string& finding, const std::string& remedy) {
        line(1, what, finding, remedy);
    }
    void wrong(const std::string& what, const std::string& finding, const std::string& remedy) {
        line(2, what, finding, remedy);
        wrong_ = true;
    }
    // What Tern is better in here than UCX's own transports; told at the end.
    void gain(const std::string& text) { line(3, "", text, ""); }
    void line(int verdict, const std::string& what, const std::string& finding,
              const std::string& remedy) {
        say_(argument_, verdict, what.c_str(), finding.c_str(), remedy.c_str());
    }

    void check_plugin() {
        const std::string& why = ucp_plugin_refusal();
        if (why.empty()) {
            good("UCP plug-in", "installed: long messages are chosen by the cost model");
            gain("long messages, by the cost model");
        } else
            note("UCP plug-in", "not used: " + why,
                 "nothing is needed: UCP's own protocols run over Tern");
    }

    void check_userfaultfd() {
        if (UserfaultSource::get() != nullptr) return good("userfaultfd", "available");
        note("userfaultfd", "not available: UCX's own hooks notice memory that is unmapped",
             "Linux 5.11 or later has it for every user; in a container, allow the system call in "
             "its filter");
    }

    void check_limit() {
        rlimit limit{};
        if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return;
        if (limit.rlim_cur == RLIM_INFINITY) return good("ulimit -l", "unlimited");
        const std::string size = std::to_string(limit.rlim_cur / 1024) + " KiB";
        if (limit.rlim_cur < kEnoughLocked)
            note("ulimit -l", size + ": a process needs 5 MiB or more", kRemedyOfMemory);
        else
            good("ulimit -l",
                 size + ": so much memory can be registered, and at most half of it stays pinned");
    }

    // Buffers that are watched or pinned divide the mappings of a process.
    void check_memory() {
        constexpr long kUsualMappings = 65530;
        long mappings = 0;
        if (std::ifstream("/proc/sys/vm/max_map_count") >> mappings && mappings < kUsualMappings)
            note("mappings", "vm.max_map_count is " + std::to_string(mappings),
                 "sysctl vm.max_map_count=65530, the kernel's default, or more");
        std::string line;
        std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), line);
        if (line.find("[never]") != std::string::npos)
            note("huge pages",
                 "transparent ones are switched off: Tern's own memory has small ones",
                 "write madvise to /sys/kernel/mm/transparent_hugepage/enabled");
    }

    // What the site has set for UCX's own transports.
    void check_site() {
        constexpr std::string_view kPrefix = "UCX_IB_";
        std::string counts, others;
        for (char** each = environ; *each != nullptr; ++each) {
            const std::string_view text = *each;
            if (!text.starts_with(kPrefix)) continue;
            const std::string name(text.substr(kPrefix.size(), text.find('=') - kPrefix.size()));
            if (::getenv(("UCX_TERN_" + name).c_str()) != nullptr) continue;
            if (is_shared(name))
                counts += " " + std::string(text);
            else
                others += " " + std::string(text);
        }
        if (!counts.empty()) good("site", "counts for Tern:" + counts);
        if (!others.empty())
            note("site", "does not count for Tern:" + others,
                 "nothing is needed, if it is for UCX's own queues and buffers");
    }

    static bool is_shared(const std::string& name) {
        for (const ucs_config_field_t* table : {site_memory_config_table, site_port_config_table})
            for (; table->name != nullptr; ++table)
                if (name == table->name) return true;
        return false;
    }

    void check_devices() {
        const std::vector<std::string> names = verbs::device_names();
        if (names.empty())
            return wrong(
                "devices", "libibverbs finds none",
                "load the adapter's driver and install rdma-core's provider (ibv_devinfo); "
                "a container must be given /dev/infiniband. tern-run --soft-hca needs none");
        for (const std::string& name : names) {
            const auto device = verbs::open_device(name);
            linked_ |= device && !device->active_ports().empty();
        }
        for (const std::string& name : names) check_device(name);
    }

    void check_device(const std::string& name) {
        port_.reset();
        const auto device = verbs::open_device(name);
        if (!device)
            return note(name, std::string("it cannot be opened: ") + strerror(errno),
                        kRemedyOfAccess);
        for (unsigned number = 1; number <= device->attributes.phys_port_cnt; ++number) {
            const auto trouble = device->unusable(static_cast<uint8_t>(number));
            if (trouble.why.empty()) continue;
            const bool spare = linked_ && trouble.remedy == verbs::Remedy::kCable;
            note(name + ":" + std::to_string(number), trouble.why,
                 spare ? "nothing is needed if it has no cable: another port is active"
                       : advice(trouble.remedy));
        }
        if (device->active_ports().empty()) return;
        uct_md_config_t* read = nullptr;
        (void)uct_md_config_read(&tern_component, nullptr, nullptr, &read);
        const Config<uct_md_config_t> config(read);
        uct_md_h md = nullptr;
        if (read == nullptr || uct_md_open(&tern_component, name.c_str(), read, &md) != UCS_OK)
            return note(name, "it cannot be opened", "set UCX_LOG_LEVEL=error, which says why");
        const rwapi::Domain domain(md);
        check_ports(md, *device, name);
    }

    void check_ports(uct_md_h md, const verbs::Device& device, const std::string& name) {
        uct_tl_resource_desc_t* resources = nullptr;
        unsigned count = 0;
        if (uct_md_query_tl_resources(md, &resources, &count) != UCS_OK || count == 0)
            return note(name, last_unused().why, last_unused().remedy);
        const CheckWorker worker;
        for (unsigned i = 0; i < count; ++i)
            check_port(md, worker.worker.get(), resources[i].dev_name);
        uct_release_tl_resource_list(resources);
        check_features(md, device, name);
    }

    void check_port(uct_md_h md, uct_worker_h worker, const std::string& name) {
        uct_iface_config_t* read = nullptr;
        if (worker == nullptr ||
            uct_md_iface_config_read(md, "tern", nullptr, nullptr, &read) != UCS_OK)
            return wrong(name, "UCX_TERN_* cannot be read", "set UCX_LOG_LEVEL=error");
        const Config<uct_iface_config_t> config(read);
        uct_iface_params_t parameters{};
        parameters.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE;
        parameters.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
        parameters.mode.device.tl_name = "tern";
        parameters.mode.device.dev_name = name.c_str();
        uct_iface_h iface = nullptr;
        if (uct_iface_open(md, worker, &parameters, config.get(), &iface) != UCS_OK)
            return note(name, last_unused().why, last_unused().remedy);
        describe_port(iface_of(iface), name);
        uct_iface_close(iface);
    }

    void describe_port(const TernIface& iface, const std::string& name) {
        const verbs::Port& port = iface.state->port;
        port_ = port;
        char text[160];
        std::snprintf(text, sizeof text, "active, %s, %.0f Gb/s, MTU %u, P_Key 0x%x, %s, ",
                      port.ethernet ? "Ethernet" : "InfiniBand", port.bandwidth() * 8e-9,
                      128u << port.mtu, unsigned{port.pkey},
                      port.ethernet || (port.attributes.flags & IBV_QPF_GRH_REQUIRED) != 0
                          ? "GRH required"
                      : port.global ? "with GRH"
                                    : "without GRH");
        good(name, text + text_of_address(port, iface.engine->address()));
        good(name,
             "up to " + std::to_string(iface.engine->max_inline()) + " bytes are sent inline");
        good(name, "up to " + std::to_string(port.reads) + " RDMA reads at a time");
        if (!is_wanted(name)) {
            ++ignored_;
            return note(name, "UCX does not use it", "UCX_NET_DEVICES does not name it");
        }
        ++usable_;
    }

    void check_features(uct_md_h md, const verbs::Device& device, const std::string& name) {
        if (port_ && promises_order(device, *port_)) {
            good(name, "promises the order of bytes: frequent senders get blocks that are polled");
            gain("short messages of frequent senders, which are polled for in memory");
        } else
            note(name, "promises no order of bytes: short messages come by the completion queue",
                 "nothing is needed: Tern is then about as fast as rc_verbs for short messages");
        std::string why;
        if (verbs::XrcDomain::open(device, why) != nullptr) {
            good(name, "XRC: messages can go direct, with UCX_TERN_TM_ENABLE=y");
            gain("receives that are posted early, with UCX_TERN_TM_ENABLE=y");
        } else
            note(name, "no XRC (" + why + "): no messages go direct",
                 "nothing is needed: tag matching works in software");
        const MonitorKind kind = memory_domain(md).pins->monitor();
        const std::string paging = VerbsRegistrar(device.pd.get()).on_demand()
                                       ? "on-demand paging"
                                       : "no on-demand paging";
        if (kind == MonitorKind::kNone)
            note(name, paging + "; nothing notices that memory is unmapped, so none stays pinned",
                 "see userfaultfd and UCX_TERN_PIN_MONITOR");
        else
            good(name, paging + "; memory that is unmapped is noticed by " + monitor_name(kind));
    }

    tern_check_line_func_t say_;
    void* argument_;
    bool wrong_ = false;
    bool linked_ = false;  // a port is active
    unsigned usable_ = 0;
    std::optional<verbs::Port> port_;  // the last one that was opened
    unsigned ignored_ = 0;             // usable ports that UCX_NET_DEVICES leaves out
};

}  // namespace
}  // namespace tern

void tern_check(tern_check_line_func_t say, void* argument) try {
    tern::Check(say, argument).all();
} catch (const std::bad_alloc&) {
    say(argument, 2, "memory", "is exhausted", "raise the limit of the program's memory");
}
