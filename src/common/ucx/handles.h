// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <uct/api/uct.h>

#include <memory>

#include <ucs/async/async_fwd.h>

namespace rwapi {

// Owners of UCT's objects. A class declares such members in the order of their creation.
template <auto Destroy>
struct Destroyer {
    template <class T>
    void operator()(T* object) const {
        Destroy(object);
    }
};

template <class T, auto Destroy>
using Owner = std::unique_ptr<T, Destroyer<Destroy>>;

using Async = Owner<ucs_async_context_t, ucs_async_context_destroy>;
using Worker = Owner<uct_worker, uct_worker_destroy>;
using Domain = Owner<uct_md, uct_md_close>;
using Endpoint = Owner<uct_ep, uct_ep_destroy>;

// Closes the interface without delivering messages meanwhile.
inline void close_interface(uct_iface_h iface) {
    uct_iface_progress_disable(iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    uct_iface_close(iface);
}
using Interface = Owner<uct_iface, close_interface>;

}  // namespace rwapi
