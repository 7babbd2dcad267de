// SPDX-License-Identifier: BSD-3-Clause
#include "tern/verbs/port.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

namespace tern::verbs {

namespace {

struct DeviceList {
    int count = 0;
    ibv_device** devices = ibv_get_device_list(&count);
    DeviceList() = default;
    DeviceList(const DeviceList&) = delete;
    DeviceList& operator=(const DeviceList&) = delete;
    ~DeviceList() {
        if (devices != nullptr) ibv_free_device_list(devices);
    }
};

// What UCX takes for RoCE v2: the code point of lossless traffic, with support for congestion
// marks.
constexpr uint8_t kLosslessClass = 106;
constexpr uint8_t kHopLimit = 64;

bool is_roce_v2(ibv_context* context, uint8_t port, uint32_t index) {
    ibv_gid_entry entry{};
    return ibv_query_gid_ex(context, port, index, &entry, 0) == 0 &&
           entry.gid_type == IBV_GID_TYPE_ROCE_V2;
}

// The entries from `first` that are set; on InfiniBand only one.
std::vector<GidEntry> gid_entries(const Port& port, int first, int end) {
    std::vector<GidEntry> entries;
    for (int i = first; i < std::min(end, 256); ++i) {
        GidEntry entry{.index = static_cast<uint8_t>(i)};
        if (ibv_query_gid(port.context, port.number, i, &entry.gid) != 0 || is_zero(entry.gid))
            continue;
        entry.roce_v2 =
            port.ethernet && is_roce_v2(port.context, port.number, static_cast<uint32_t>(i));
        entries.push_back(entry);
        if (!port.ethernet) break;
    }
    return entries;
}

Remedy remedy_of_state(ibv_port_state state) {
    switch (state) {
        case IBV_PORT_DOWN:
            return Remedy::kCable;
        case IBV_PORT_INIT:
        case IBV_PORT_ARMED:
            return Remedy::kSubnetManager;
        default:
            return Remedy::kNone;
    }
}

// Packets to the address carry a GRH from the entry `from` to this GID. `usual_class`: the traffic
// class if the settings name none.
void add_grh(const Port& port, ibv_ah_attr& address, const ibv_gid& to, uint8_t from,
             uint8_t usual_class = 0) {
    address.is_global = 1;
    address.grh.dgid = to;
    address.grh.sgid_index = from;
    address.grh.hop_limit = kHopLimit;
    address.grh.traffic_class =
        port.traffic_class >= 0 ? static_cast<uint8_t>(port.traffic_class) : usual_class;
}

// Whether a handle for the entry itself can be made. A container also sees the entries of other
// network namespaces, which it cannot use.
bool is_usable(const Device& device, const Port& port, const GidEntry& entry) {
    ibv_ah_attr self{};
    self.port_num = port.number;
    add_grh(port, self, entry.gid, entry.index);
    return AddressHandle(ibv_create_ah(device.pd.get(), &self)) != nullptr;
}

// `wanted`: the only entry to use; -1: any.
void set_gids(const Device& device, Port& port, int wanted) {
    const std::vector<GidEntry> entries = wanted >= 0
                                              ? gid_entries(port, wanted, wanted + 1)
                                              : gid_entries(port, 0, port.attributes.gid_tbl_len);
    if (entries.empty()) return;
    port.gid_index = entries.front().index;
    port.gid = entries.front().gid;
    if (!port.ethernet) return;
    std::vector<GidEntry> usable;
    std::ranges::copy_if(entries, std::back_inserter(usable),
                         [&](const GidEntry& entry) { return is_usable(device, port, entry); });
    port.roce = choose_gids(usable.empty() ? entries : usable);
    const GidFamily first = first_family(port.roce.set);
    port.gid_index = port.roce.of(first);
    port.gid = to_gid(port.roce.set.of(kind_of(first)));
}

std::optional<uint16_t> find_pkey(ibv_context* context, uint8_t port,
                                  const ibv_port_attr& attributes, int wanted, uint16_t& value) {
    // Two limited members cannot communicate: a limited membership is used only if it is asked for,
    // and is the only one.
    std::optional<uint16_t> limited;
    for (int i = 0; i < attributes.pkey_tbl_len; ++i) {
        __be16 entry = 0;
        if (ibv_query_pkey(context, port, i, &entry) != 0) continue;
        const uint16_t pkey = be16toh(entry);
        if ((pkey & 0x7fff) == 0 || (wanted >= 0 && (pkey & 0x7fff) != (wanted & 0x7fff))) continue;
        const bool full = (pkey & 0x8000) != 0;
        if (!full && (wanted < 0 || limited)) continue;
        value = pkey;
        if (full) return static_cast<uint16_t>(i);
        limited = static_cast<uint16_t>(i);
    }
    return limited;
}

// Domain, bus, device and function; `0` in kShape stands for a hexadecimal digit.
bool is_pci_address(std::string_view name) {
    constexpr std::string_view kShape = "0000:00:00.0";
    return name.size() == kShape.size() &&
           std::equal(name.begin(), name.end(), kShape.begin(), [](char is, char shape) {
               return shape == '0' ? std::isxdigit(static_cast<unsigned char>(is)) != 0
                                   : is == shape;
           });
}

struct Lane {
    uint32_t code;
    double gbits;  // per second, net of the encoding
};

// Ascending in both members.
constexpr Lane kLanes[] = {
    {1, 2.5 * 8 / 10},         // SDR
    {2, 5. * 8 / 10},          // DDR
    {4, 10. * 8 / 10},         // QDR
    {8, 10.3125 * 64 / 66},    // FDR10
    {16, 14.0625 * 64 / 66},   // FDR
    {32, 25.78125 * 64 / 66},  // EDR
    {64, 50},                  // HDR; from here on net of forward error correction
    {128, 100},                // NDR
    {256, 200},                // XDR
};
constexpr uint32_t kEdr = 32;

struct Width {
    uint32_t code;
    int lanes;
};
constexpr Width kWidths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};

namespace fs = std::filesystem;

// The number of ports of a bond, or of the bond below a VLAN and the like. 0: there is no bond.
unsigned ports_of_bond(const fs::path& interface, unsigned depth = 0) {
    constexpr unsigned kMostDepth = 4;
    unsigned ports = 0;
    if (std::ifstream(interface / "bonding" / "ad_num_ports") >> ports) return ports;
    if (depth == kMostDepth) return 0;
    std::error_code error;
    fs::directory_iterator entry(interface, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error))
        if (entry->path().filename().native().starts_with("lower_"))
            ports = std::max(ports, ports_of_bond(entry->path(), depth + 1));
    return ports;
}

}  // namespace

std::vector<std::string> device_names() {
    const DeviceList list;
    std::vector<std::string> names;
    names.reserve(static_cast<size_t>(list.count));
    for (int i = 0; i < list.count; ++i) names.emplace_back(ibv_get_device_name(list.devices[i]));
    return names;
}

std::optional<Device> open_device(const std::string& name) {
    const DeviceList list;
    for (int i = 0; i < list.count; ++i) {
        if (name != ibv_get_device_name(list.devices[i])) continue;
        Device device;
        device.context.reset(ibv_open_device(list.devices[i]));
        if (!device.context) return std::nullopt;
        const int error = ibv_query_device(device.context.get(), &device.attributes);
        if (error != 0) {
            errno = error;
            return std::nullopt;
        }
        device.events = std::make_unique<AsyncEvents>(device.context.get());
        device.pd.reset(ibv_alloc_pd(device.context.get()));
        if (!device.pd) return std::nullopt;
        return device;
    }
    errno = ENODEV;
    return std::nullopt;
}

PortTrouble Device::unusable(uint8_t port) const {
    ibv_port_attr attributes_of_port{};
    if (ibv_query_port(context.get(), port, &attributes_of_port) != 0)
        return {"it cannot be queried"};
    if (const ibv_port_state state = attributes_of_port.state; state != IBV_PORT_ACTIVE)
        return {std::string("it is ") + ibv_port_state_str(state), remedy_of_state(state)};
    if (attributes.max_srq <= 0)
        return {"the device has no shared receive queues", Remedy::kOtherDevice};
    return {};
}

std::vector<uint8_t> Device::active_ports() const {
    std::vector<uint8_t> ports;
    for (unsigned port = 1; port <= attributes.phys_port_cnt; ++port)
        if (unusable(static_cast<uint8_t>(port)).why.empty())
            ports.push_back(static_cast<uint8_t>(port));
    return ports;
}

ibv_ah_attr Port::address_vector(uint16_t lid, const ibv_gid& to, bool with_grh) const {
    if (ethernet) return address_vector(first_family(roce.set), to);
    ibv_ah_attr address{};
    address.dlid = lid;
    address.sl = service_level;
    address.port_num = number;
    if (with_grh) add_grh(*this, address, to, gid_index);
    return address;
}

ibv_ah_attr Port::address_vector(GidFamily family, const ibv_gid& to) const {
    ibv_ah_attr address{};
    address.sl = service_level;
    address.port_num = number;
    add_grh(*this, address, to, roce.of(family), is_roce_v2(family) ? kLosslessClass : 0);
    return address;
}

LinkSpeed Port::speed() const {
    return link_speed(speed_code(attributes), attributes.active_width);
}

std::optional<Port> open_port(const Device& device, uint8_t number, const PortSettings& settings,
                              PortTrouble& trouble) {
    Port port;
    port.context = device.context.get();
    port.number = number;
    port.reads = static_cast<uint8_t>(std::clamp(
        std::min(device.attributes.max_qp_rd_atom, device.attributes.max_qp_init_rd_atom), 1,
        int{kMostReads}));
    port.atomics = device.attributes.atomic_cap != IBV_ATOMIC_NONE;
    if (ibv_query_port(port.context, number, &port.attributes) != 0) {
        trouble = {"the port cannot be queried"};
        return std::nullopt;
    }
    port.ethernet = port.attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
    if (settings.gid_index >= port.attributes.gid_tbl_len) {
        trouble = {"GID_INDEX " + std::to_string(settings.gid_index) + " is not below " +
                       std::to_string(port.attributes.gid_tbl_len) + ", the size of the GID table",
                   Remedy::kGid};
        return std::nullopt;
    }
    const bool needs_grh = (port.attributes.flags & IBV_QPF_GRH_REQUIRED) != 0;
    port.global = port.ethernet || needs_grh ||
                  (settings.global >= 0 ? settings.global != 0
                                        : settings.gid_index >= 0 || port.attributes.lid == 0);
    set_gids(device, port, settings.gid_index);
    if (port.global && is_zero(port.gid)) {
        trouble = {
            "the GID table has no address; set GID_INDEX to an entry that is set, or configure one",
            Remedy::kGid};
        return std::nullopt;
    }
    // On Ethernet there is one partition, and UCX does not look at the setting either.
    const int pkey = port.ethernet ? -1 : settings.pkey;
    const auto pkey_index = find_pkey(port.context, number, port.attributes, pkey, port.pkey);
    if (!pkey_index) {
        trouble = {pkey < 0 ? "there is no partition of full membership"
                            : "the partition PKEY asks for is not there",
                   Remedy::kPartition};
        return std::nullopt;
    }
    port.pkey_index = *pkey_index;
    port.traffic_class = settings.traffic_class;
    port.service_level = settings.service_level;
    port.local_subnet = settings.local_subnet;
    port.mtu = port.attributes.active_mtu;
    if (settings.path_mtu != 0) port.mtu = std::min(port.mtu, settings.path_mtu);
    if (port.ethernet)
        port.bonded = bonded_ports(port.context->device->ibdev_path, number, port.gid_index);
    port.paths = settings.paths > 0 ? static_cast<uint8_t>(settings.paths) : port.bonded;
    return port;
}

std::string bus_address(const std::string& sysfs_path) {
    std::error_code error;
    const auto device =
        std::filesystem::canonical(std::filesystem::path(sysfs_path) / "device", error);
    if (error) return {};
    // The folder of a sub-function is in the folder of its PCI device.
    for (const auto& folder : {device, device.parent_path()})
        if (is_pci_address(folder.filename().native())) return folder.filename();
    return {};
}

LinkSpeed link_speed(uint32_t speed, uint32_t width) {
    const uint32_t assumed = speed != 0 ? speed : kEdr;
    LinkSpeed result{.known = false};
    double gbits = 0;
    for (const Lane& lane : kLanes) {
        if (lane.code > assumed) break;
        gbits = lane.gbits;
        result.known = lane.code == speed;
    }
    int lanes = 0;
    for (const Width& known : kWidths)
        if (known.code == width) lanes = known.lanes;
    if (lanes == 0) {
        lanes = 1;
        result.known = false;
    }
    result.bandwidth = gbits * lanes * 1e9 / 8;
    return result;
}

void take_path(ibv_ah_attr& address, const Port& port, unsigned path, uint8_t lmc, uint64_t pair) {
    if (port.ethernet) {
        if (path != 0 || port.paths > 1) address.grh.flow_label = flow_label(pair, path);
    } else if (address.dlid != 0) {
        const unsigned bits = path & ((1u << std::min(port.attributes.lmc, lmc)) - 1);
        address.dlid |= static_cast<uint16_t>(bits);
        address.src_path_bits = static_cast<uint8_t>(bits);
    }
}

uint8_t bonded_ports(const fs::path& device, uint8_t port, unsigned gid_index,
                     const fs::path& net) {
    std::string interface;
    std::ifstream(device / "ports" / std::to_string(port) / "gid_attrs" / "ndevs" /
                  std::to_string(gid_index)) >>
        interface;
    if (interface.empty()) return 1;
    return static_cast<uint8_t>(std::clamp(ports_of_bond(net / interface), 1u, kMostPaths));
}

}  // namespace tern::verbs
