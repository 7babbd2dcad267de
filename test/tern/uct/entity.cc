// SPDX-License-Identifier: BSD-3-Clause
#include "entity.h"

#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "../../softhca/conformance/qp.h"
#include "../../softhca/device/fabric.h"

namespace uct_test {
namespace {

// A device of the transport under test.
struct Resource {
    uct_component_h component = nullptr;
    std::string md;
    std::string device;
};

MemoryDomain open_md(uct_component_h component, const char* name) {
    uct_md_config_t* config;
    check(uct_md_config_read(component, nullptr, nullptr, &config), "uct_md_config_read");
    uct_md_h md = nullptr;
    const ucs_status_t status = uct_md_open(component, name, config, &md);
    uct_config_release(config);
    return MemoryDomain(status == UCS_OK ? md : nullptr);
}

std::vector<uct_md_resource_desc_t> domains(uct_component_h component) {
    uct_component_attr_t attr{};
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
    check(uct_component_query(component, &attr), "uct_component_query");
    std::vector<uct_md_resource_desc_t> found(attr.md_resource_count);
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attr.md_resources = found.data();
    check(uct_component_query(component, &attr), "uct_component_query");
    return found;
}

bool search(uct_component_h component, Resource& found) {
    const char* device = std::getenv("TERN_TEST_DEVICE");
    for (const uct_md_resource_desc_t& domain : domains(component)) {
        const MemoryDomain md = open_md(component, domain.md_name);
        uct_tl_resource_desc_t* list;
        unsigned count;
        if (!md || uct_md_query_tl_resources(md.get(), &list, &count) != UCS_OK) continue;
        const std::unique_ptr<uct_tl_resource_desc_t, Release<uct_release_tl_resource_list>> owner(
            list);
        for (const uct_tl_resource_desc_t& tl : std::span(list, count)) {
            if (transport() != tl.tl_name || (device && std::string(device) != tl.dev_name))
                continue;
            found = {component, domain.md_name, tl.dev_name};
            return true;
        }
    }
    return false;
}

const Resource& resource() {
    static const Resource found = [] {
        uct_component_h* list;
        unsigned count;
        check(uct_query_components(&list, &count), "uct_query_components");
        const std::unique_ptr<uct_component_h, Release<uct_release_component_list>> owner(list);
        Resource result;
        for (uct_component_h component : std::span(list, count)) {
            if (search(component, result)) return result;
        }
        fail("no device has transport " + transport());
    }();
    return found;
}

// The file disappears with the process, even if that is killed.
int new_file() {
    const int fd = memfd_create("tern-uct", MFD_CLOEXEC);
    if (fd < 0) conformance::fail_errno("memfd_create");
    return fd;
}

std::string name_of(int fd) {
    return "/proc/self/fd/" + std::to_string(fd);
}

// Newer UCX versions want the prefix of the setting's table, older ones that of a table within it.
void set(uct_iface_config_t* config, const std::string& name, const std::string& value) {
    ucs_status_t status = UCS_ERR_NO_ELEM;
    for (const char* prefix : {"", "TERN_", "IB_"})
        if (status == UCS_ERR_NO_ELEM)
            status = uct_config_modify(config, (prefix + name).c_str(), value.c_str());
    check(status, name.c_str());
}

std::string contents(const std::string& name) {
    std::ifstream file(name);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

}  // namespace

std::string transport() {
    const char* name = std::getenv("TERN_TEST_TL");
    return name ? name : "tern";
}

void* tern_function(const char* name) {
    std::vector<std::string> paths;
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* found) {
            static_cast<std::vector<std::string>*>(found)->emplace_back(info->dlpi_name);
            return 0;
        },
        &paths);
    for (const std::string& path : paths) {
        if (path.find("libuct_tern.so") == std::string::npos) continue;
        void* const library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
        void* const found = library != nullptr ? ::dlsym(library, name) : nullptr;
        if (library != nullptr) ::dlclose(library);
        if (found != nullptr) return found;
    }
    return nullptr;
}

void check(ucs_status_t status, const char* what) {
    if (status != UCS_OK) fail(std::string(what) + ": " + ucs_status_string(status));
}

std::ostream& operator<<(std::ostream& out, Status status) {
    return out << ucs_status_string(status.value);
}

Host::Host(ucs_thread_mode_t mode) : component_(resource().component), device_(resource().device) {
    ucs_async_context_t* async;
    check(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &async),
          "ucs_async_context_create");
    async_.reset(async);
    uct_worker_h worker;
    check(uct_worker_create(async, mode, &worker), "uct_worker_create");
    worker_.reset(worker);
    md_ = open_md(component_, resource().md.c_str());
    if (!md_) fail("uct_md_open");
}

Settings impatient(Settings others) {
    others.insert({{"TIMEOUT", "2ms"}, {"RETRY_COUNT", "4"}, {"CONNECT_TIMEOUT", "400ms"}});
    return others;
}

uint64_t Counters::operator[](const std::string& name) const {
    const std::string key = "\"" + name + "\":";
    const std::size_t at = json_.find(key);
    if (at == std::string::npos) fail("no counter " + name + " in '" + json_ + "'");
    return std::strtoull(json_.c_str() + at + key.size(), nullptr, 10);
}

Entity::Entity(const Settings& settings, std::shared_ptr<Host> host,
               const std::function<void(uct_iface_params_t&)>& more)
    : host_(std::move(host)) {
    uct_iface_config_t* config;
    check(uct_md_iface_config_read(host_->md(), transport().c_str(), nullptr, nullptr, &config),
          "uct_md_iface_config_read");
    const std::unique_ptr<uct_iface_config_t, Release<uct_config_release>> owner(config);
    std::string tunables;
    if (is_tern()) {
        counters_ = new_file();
        set(config, "COUNTERS", name_of(counters_));
        for (const auto& [name, value] : settings) {
            if (std::islower(name.front()) != 0)
                tunables += (tunables.empty() ? "" : ",") + name + "=" + value;
            else
                set(config, name, value);
        }
    }
    const std::string name = transport();
    uct_iface_params_t params{};
    params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE |
                        UCT_IFACE_PARAM_FIELD_RX_HEADROOM | UCT_IFACE_PARAM_FIELD_ERR_HANDLER |
                        UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG |
                        UCT_IFACE_PARAM_FIELD_ERR_HANDLER_FLAGS | UCT_IFACE_PARAM_FIELD_FEATURES;
    params.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name = name.c_str();
    params.mode.device.dev_name = host_->device().c_str();
    params.err_handler = on_error;
    params.err_handler_arg = this;
    params.features = UCT_IFACE_FEATURE_AM | UCT_IFACE_FEATURE_PUT;
    if (more) more(params);
    uct_iface_h iface;
    // Not beside the threads of tests that change nothing.
    if (!tunables.empty()) ::setenv("TERN_TUNABLES", tunables.c_str(), 1);
    check(uct_iface_open(host_->md(), host_->worker(), &params, config, &iface), "uct_iface_open");
    if (!tunables.empty()) ::unsetenv("TERN_TUNABLES");
    iface_.reset(iface);
    check(uct_iface_query(iface, &attr_), "uct_iface_query");
    if (attr_.device_addr_len > Address{}.device.size() ||
        attr_.iface_addr_len > Address{}.interface.size()) {
        fail("an address is longer than expected");
    }
    uct_iface_progress_enable(iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
}

Entity::~Entity() {
    close();
    if (counters_ >= 0) ::close(counters_);
}

Address Entity::address() const {
    Address address;
    check(uct_iface_get_device_address(iface(),
                                       reinterpret_cast<uct_device_addr_t*>(address.device.data())),
          "uct_iface_get_device_address");
    check(uct_iface_get_address(iface(),
                                reinterpret_cast<uct_iface_addr_t*>(address.interface.data())),
          "uct_iface_get_address");
    return address;
}

Endpoint Entity::connect(const Address& to, unsigned path) {
    uct_ep_params_t params{};
    params.path_index = path;
    params.field_mask = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR |
                        UCT_EP_PARAM_FIELD_IFACE_ADDR |
                        (path != 0 ? uint64_t{UCT_EP_PARAM_FIELD_PATH_INDEX} : 0);
    params.iface = iface();
    params.dev_addr = to.dev();
    params.iface_addr = to.iface();
    uct_ep_h ep;
    check(uct_ep_create(&params, &ep), "uct_ep_create");
    return Endpoint(ep);
}

ucs_status_t Entity::on_message(void* handler, void* data, size_t length, unsigned) {
    // The handler may replace itself.
    const Handler copy = *static_cast<Handler*>(handler);
    copy({static_cast<const std::byte*>(data), length});
    return UCS_OK;
}

ucs_status_t Entity::on_error(void* entity, uct_ep_h ep, ucs_status_t status) {
    auto& self = *static_cast<Entity*>(entity);
    self.failures_.push_back({ep, status});
    if (self.on_failure) self.on_failure(self.failures_.back());
    return UCS_OK;
}

void Entity::handle(uint8_t id, Handler handler) {
    handlers_.at(id) = std::move(handler);
    check(uct_iface_set_am_handler(iface(), id, on_message, &handlers_[id], 0),
          "uct_iface_set_am_handler");
}

void Entity::forget(uint8_t id) {
    handlers_.at(id) = [](Bytes) {};
}

std::size_t Entity::failures(const Endpoint& ep) const {
    std::size_t count = 0;
    for (const Failure& failure : failures_) count += failure.ep == ep.get();
    return count;
}

void Entity::close() {
    if (!iface_) return;
    uct_iface_progress_disable(iface(), UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    iface_.reset();
}

Counters Entity::close_and_count() {
    close();
    return Counters(contents(name_of(counters_)));
}

void progress(const Group& who) {
    unsigned done = 0;
    for (Entity* entity : who) done += entity->progress();
    // Another thread or process may have to make progress first.
    if (done == 0) sched_yield();
}

testing::AssertionResult eventually(const Group& who, const std::function<bool()>& condition,
                                    milliseconds limit) {
    const auto end = Clock::now() + limit;
    while (!condition()) {
        if (Clock::now() > end) {
            return testing::AssertionFailure() << "not so within " << limit.count() << " ms";
        }
        progress(who);
    }
    return testing::AssertionSuccess();
}

testing::AssertionResult accepted(const Group& who,
                                  const std::function<ucs_status_t()>& operation) {
    ucs_status_t status = UCS_OK;
    const auto tried = [&] { return (status = operation()) != UCS_ERR_NO_RESOURCE; };
    if (testing::AssertionResult result = eventually(who, tried); !result) return result;
    if (status == UCS_OK || status == UCS_INPROGRESS) return testing::AssertionSuccess();
    return testing::AssertionFailure() << ucs_status_string(status);
}

void linger(const Group& who, milliseconds time) {
    const auto end = Clock::now() + time;
    while (Clock::now() < end) progress(who);
}

// The kernel's resource counts of a device: "0: rxe0: pd 1 cq 1 qp 1 ...".
static std::string kernel_resources() {
    return conformance::softhca::shell("rdma resource show " + resource().md) + " ";
}

static uint64_t kernel_count(const std::string& resources, const std::string& kind) {
    static const std::map<std::string, std::string> kNames{{"queue_pairs", " qp "},
                                                           {"shared_receive_queues", " srq "},
                                                           {"completion_queues", " cq "},
                                                           {"memory_regions", " mr "}};
    const std::string& name = kNames.at(kind);
    const std::size_t at = resources.find(name);
    return at == std::string::npos ? 0 : std::stoull(resources.substr(at + name.size()));
}

bool on_software_hca() {
    return resource().md.starts_with("softhca");
}

bool writes_in_order() {
    static const bool promised = [] {
        const conformance::Hca hca;
        const conformance::Pd pd = hca.make_pd();
        const conformance::Endpoint a(hca, pd.get()), b(hca, pd.get());
        connect(hca, a.qp, b.qp);
        return ibv_query_qp_data_in_order(b.qp.get(), IBV_WR_RDMA_WRITE, 0) != 0;
    }();
    return promised;
}

void as_ucp(uct_iface_params_t& params) {
    params.field_mask |= UCT_IFACE_PARAM_FIELD_RX_HEADROOM;
    params.rx_headroom = 64;
}

void end_faults() {
    if (on_software_hca()) conformance::softhca::command("inject none || :");
}

// What the living processes of the fabric have, as JSON; empty if no process has opened the device.
static std::string living_processes() {
    std::string status, living;
    try {
        status = conformance::softhca::status();
    } catch (const std::runtime_error&) {
        return {};
    }
    const std::string alive = "\"alive\": ";
    for (std::size_t at = 0; (at = status.find(alive, at)) != std::string::npos;) {
        at += alive.size();
        const std::string process = status.substr(at, status.find(alive, at) - at);
        if (process.starts_with("true")) living += process;
    }
    return living;
}

std::vector<uint64_t> objects_of(const std::vector<std::string>& kinds) {
    std::vector<uint64_t> counts;
    if (on_software_hca()) {
        const std::string living = living_processes();
        for (const std::string& kind : kinds)
            counts.push_back(conformance::softhca::sum(living, kind));
        return counts;
    }
    static const std::string before = kernel_resources();
    const std::string now = kernel_resources();
    for (const std::string& kind : kinds)
        counts.push_back(kernel_count(now, kind) - kernel_count(before, kind));
    return counts;
}

}  // namespace uct_test
