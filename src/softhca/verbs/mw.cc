// SPDX-License-Identifier: BSD-3-Clause
// Memory windows.
#include <atomic>

#include "softhca/transport/region.h"
#include "softhca/verbs/operations.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca {

ibv_mw* alloc_mw(ibv_pd* ibv_pd, ibv_mw_type type) try {
    if (inherited(ibv_pd->context) || (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2))
        return fail(EINVAL);
    Adapter& adapter = adapter_of(ibv_pd->context);
    const uint32_t index = allocate_key(adapter);
    if (index == 0) return fail(ENOMEM);
    PdObject& pd = object_of<PdObject>(ibv_pd)->base();
    KeyEntry& entry = adapter.host().tables().keys[index];
    entry.pd = pd.id;
    entry.kind = type == IBV_MW_TYPE_1 ? KeyKind::kWindowType1 : KeyKind::kWindowType2;
    entry.share_id = 0;
    auto* window = new WindowObject;
    window->index = index;
    window->ibv.context = ibv_pd->context;
    window->ibv.pd = ibv_pd;
    window->ibv.type = type;
    window->ibv.handle = index;
    window->ibv.rkey = next_key(adapter, index);
    adapter.host().self().objects.memory_windows.fetch_add(1, std::memory_order_relaxed);
    const std::lock_guard lock(pd.mutex);
    pd.windows.insert(window);
    window->pd = use(object_of<PdObject>(ibv_pd));
    return &window->ibv;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

int dealloc_mw(ibv_mw* ibv) {
    auto* window = object_of<WindowObject>(ibv);
    if (inherited(ibv->context)) return 0;
    Adapter& adapter = adapter_of(ibv->context);
    adapter.host().tables().keys[window->index].key.store(0, std::memory_order_seq_cst);
    adapter.host().wait_for_accesses();
    {
        PdObject& pd = object_of<PdObject>(ibv->pd)->base();
        const std::lock_guard lock(pd.mutex);
        pd.windows.erase(window);
    }
    release_key(adapter, window->index);
    adapter.host().self().objects.memory_windows.fetch_sub(1, std::memory_order_relaxed);
    delete window;
    return 0;
}

// Binds type 1 windows; type 2 windows are bound by posted work requests.
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
    if (mw->type != IBV_MW_TYPE_1 || (bind->bind_info.length != 0 && bind->bind_info.mr == nullptr))
        return EINVAL;
    ibv_send_wr wr{};
    ibv_send_wr* bad;
    wr.wr_id = bind->wr_id;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = bind->send_flags;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = next_key(adapter_of(qp->context), object_of<WindowObject>(mw)->index);
    wr.bind_mw.bind_info = bind->bind_info;
    const int status = post_send(qp, &wr, &bad);
    if (status == 0) mw->rkey = wr.bind_mw.rkey;
    return status;
}

}  // namespace softhca
