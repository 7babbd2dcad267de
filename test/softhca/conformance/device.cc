// SPDX-License-Identifier: BSD-3-Clause
#include "device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace conformance {
namespace {

int number_from_environment(const char* name, int otherwise) {
    const char* text = std::getenv(name);
    return text ? std::atoi(text) : otherwise;
}

void released(int rc, const char* verb) {
    if (rc) ADD_FAILURE() << verb << " refused: " << std::strerror(rc > 0 ? rc : errno);
}

uint8_t pattern(unsigned seed, std::size_t i) {
    return static_cast<uint8_t>((i * 131 + (i >> 8) * 29 + seed * 71 + 1) & 0xff);
}

}  // namespace

milliseconds deadline() {
    static const milliseconds value{1000 * number_from_environment("CONFORMANCE_DEADLINE", 120)};
    return value;
}

void fail(const std::string& what) {
    throw std::runtime_error(what);
}

void fail_errno(const std::string& what) {
    fail(what + ": " + std::strerror(errno));
}

bool is_unsupported(int error) {
    return error == EOPNOTSUPP || error == ENOSYS || error == ENOTSUP;
}

void Release::operator()(ibv_context* object) const {
    released(ibv_close_device(object), "ibv_close_device");
}
void Release::operator()(ibv_pd* object) const {
    released(ibv_dealloc_pd(object), "ibv_dealloc_pd");
}
void Release::operator()(ibv_mr* object) const {
    released(ibv_dereg_mr(object), "ibv_dereg_mr");
}
void Release::operator()(ibv_mw* object) const {
    released(ibv_dealloc_mw(object), "ibv_dealloc_mw");
}
void Release::operator()(ibv_cq* object) const {
    released(ibv_destroy_cq(object), "ibv_destroy_cq");
}
void Release::operator()(ibv_comp_channel* object) const {
    released(ibv_destroy_comp_channel(object), "ibv_destroy_comp_channel");
}
void Release::operator()(ibv_srq* object) const {
    released(ibv_destroy_srq(object), "ibv_destroy_srq");
}
void Release::operator()(ibv_qp* object) const {
    released(ibv_destroy_qp(object), "ibv_destroy_qp");
}
void Release::operator()(ibv_ah* object) const {
    released(ibv_destroy_ah(object), "ibv_destroy_ah");
}
void Release::operator()(ibv_xrcd* object) const {
    released(ibv_close_xrcd(object), "ibv_close_xrcd");
}

Context open_device() {
    const char* wanted = std::getenv("CONFORMANCE_DEVICE");
    ibv_device** list = ibv_get_device_list(nullptr);
    if (!list) return nullptr;
    ibv_context* context = nullptr;
    for (ibv_device** device = list; *device && !context; ++device)
        if (!wanted || std::strcmp(wanted, ibv_get_device_name(*device)) == 0)
            context = ibv_open_device(*device);
    ibv_free_device_list(list);
    return Context(context);
}

Hca::Hca()
    : context_(open_device()),
      port_(static_cast<uint8_t>(number_from_environment("CONFORMANCE_PORT", 1))),
      gid_index_(static_cast<uint8_t>(number_from_environment("CONFORMANCE_GID_INDEX", 0))) {
    if (!context_) fail("cannot open the device");
    if (ibv_query_device(get(), &attr_)) fail_errno("ibv_query_device");
    if (ibv_query_port(get(), port_, &port_attr_)) fail_errno("ibv_query_port");
}

bool Hca::needs_grh() const {
    return port_attr_.link_layer == IBV_LINK_LAYER_ETHERNET ||
           (port_attr_.flags & IBV_QPF_GRH_REQUIRED);
}

Address Hca::address() const {
    Address here;
    here.lid = port_attr_.lid;
    if (ibv_query_gid(get(), port_, gid_index_, &here.gid)) fail_errno("ibv_query_gid");
    return here;
}

int Hca::unset_gid_index() const {
    const ibv_gid none{};
    for (int i = 0; i < std::min(port_attr_.gid_tbl_len, 256); ++i) {
        ibv_gid gid{};
        if (ibv_query_gid(get(), port_, i, &gid) == 0 && std::memcmp(&gid, &none, sizeof gid) == 0)
            return i;
    }
    return -1;
}

ibv_ah_attr Hca::path_to(const Address& to) const {
    ibv_ah_attr path{};
    path.dlid = to.lid;
    path.port_num = port_;
    if (needs_grh()) {
        path.is_global = 1;
        path.grh.dgid = to.gid;
        path.grh.sgid_index = gid_index_;
        path.grh.hop_limit = 64;
    }
    return path;
}

Pd Hca::make_pd() const {
    Pd pd(ibv_alloc_pd(get()));
    if (!pd) fail_errno("ibv_alloc_pd");
    return pd;
}

Cq Hca::make_cq(int entries, ibv_comp_channel* channel, void* cq_context) const {
    Cq cq(ibv_create_cq(get(), entries, cq_context, channel, 0));
    if (!cq) fail_errno("ibv_create_cq");
    return cq;
}

Channel Hca::make_channel() const {
    Channel channel(ibv_create_comp_channel(get()));
    if (!channel) fail_errno("ibv_create_comp_channel");
    return channel;
}

Ah Hca::make_ah(ibv_pd* pd, const Address& to) const {
    ibv_ah_attr path = path_to(to);
    Ah ah(ibv_create_ah(pd, &path));
    if (!ah) fail_errno("ibv_create_ah");
    return ah;
}

Srq make_srq(ibv_pd* pd, uint32_t max_wr, uint32_t max_sge) {
    ibv_srq_init_attr init{};
    init.attr.max_wr = max_wr;
    init.attr.max_sge = max_sge;
    Srq srq(ibv_create_srq(pd, &init));
    if (!srq) fail_errno("ibv_create_srq");
    return srq;
}

void Region::Unmap::operator()(uint8_t* memory) const {
    munmap(memory, size);
}

Region::Region(ibv_pd* pd, std::size_t size, int access) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail_errno("mmap");
    memory_ = {static_cast<uint8_t*>(memory), Unmap{size}};
    mr_.reset(ibv_reg_mr(pd, memory, size, access));
    if (!mr_) fail_errno("ibv_reg_mr");
}

void Region::fill(unsigned seed, std::size_t offset, std::size_t length) const {
    for (std::size_t i = 0; i < length; ++i) data()[offset + i] = pattern(seed, i);
}

bool Region::holds(unsigned seed, std::size_t offset, std::size_t length) const {
    for (std::size_t i = 0; i < length; ++i)
        if (data()[offset + i] != pattern(seed, i)) return false;
    return true;
}

bool Region::is_all(uint8_t value, std::size_t offset, std::size_t length) const {
    return std::all_of(data() + offset, data() + offset + length,
                       [value](uint8_t byte) { return byte == value; });
}

}  // namespace conformance
