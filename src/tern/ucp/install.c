/* SPDX-License-Identifier: BSD-3-Clause */
/* How Tern's protocols get into UCP, and what must be so that they may. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "tern/ucp/protocol_names.h"
#include "tern/ucp/protocols.h"
#include "tern/ucp/release.h"

extern ucp_proto_t ucp_rndv_get_zcopy_proto;
extern ucp_proto_t ucp_rndv_put_zcopy_proto;
extern ucp_proto_t ucp_tag_rndv_proto;
extern ucp_proto_t ucp_am_rndv_proto;

/* What stands in the table for what. */
static struct {
    const ucp_proto_t *stock;
    const ucp_proto_t *tern;
} substitutes[4];

static char text[256];

/* Whether UCX_PROTOS, whose value is `list` or null, admits a protocol of this name. */
static int admits(const char *list, const char *name) {
    ucs_config_allow_list_t admitted;
    int listed;

    if (list == NULL || !ucs_config_sscanf_allow_list(list, &admitted, &ucs_config_array_string)) return 1;
    listed = ucs_config_names_search(&admitted.array, name) >= 0;
    switch (admitted.mode) {
        case UCS_CONFIG_ALLOW_LIST_ALLOW:
            break;
        case UCS_CONFIG_ALLOW_LIST_NEGATE:
            listed = !listed;
            break;
        default:
            listed = 1;
    }
    ucs_config_release_allow_list(&admitted, &ucs_config_array_string);
    return listed;
}

/* Whether an address lies in the library that has the table: another library may define the same names. */
static int in_ucp(const void *address) {
    Dl_info table;
    Dl_info other;

    return dladdr((void *)&ucp_protocols_count, &table) != 0 && dladdr(address, &other) != 0 &&
           table.dli_fbase == other.dli_fbase;
}

static const ucp_proto_t **place_of(const ucp_proto_t *stock) {
    const unsigned count = ucp_protocols_count();
    unsigned i;

    for (i = 0; i < count; ++i)
        if (ucp_protocols[i] == stock) return &ucp_protocols[i];
    return NULL;
}

static const char *check_stock(const ucp_proto_t *stock) {
    if (!in_ucp(stock) || !in_ucp((void *)(uintptr_t)stock->progress[0]) || !in_ucp((void *)(uintptr_t)stock->query) ||
        place_of(stock) == NULL) {
        snprintf(text, sizeof(text), "the table has another protocol in the place of %s", stock->name);
        return text;
    }
    return NULL;
}

static const char *check_ucp(void) {
    const char *names[UCP_PROTO_MAX_COUNT];
    struct ucp_release loaded = {.count = ucp_protocols_count(), .names = names};
    const char *list = getenv("UCX_PROTOS");
    const char *misfit;
    unsigned i;

    ucp_get_version(&loaded.major, &loaded.minor, &loaded.release);
    for (i = 0; i < ucs_min(loaded.count, UCP_PROTO_MAX_COUNT); ++i)
        names[i] = ucp_protocols[i] != NULL ? ucp_protocols[i]->name : NULL;
    misfit = release_misfit(&loaded, &built, text, sizeof(text));
    for (i = 0; misfit == NULL && i < ucs_static_array_size(substitutes); ++i)
        misfit = check_stock(substitutes[i].stock);
    if (misfit == NULL && !admits(list, "rndv/tern")) misfit = "UCX_PROTOS does not admit rndv/tern";
    return misfit;
}

static void substitute(void) {
    unsigned i;

    for (i = 0; i < ucs_static_array_size(substitutes); ++i) *place_of(substitutes[i].stock) = substitutes[i].tern;
}

__attribute__((visibility("default"))) const char *tern_ucp_install(const struct tern_transport *transport);

const char *tern_ucp_install(const struct tern_transport *transport) {
    const char *misfit;

    substitutes[0].stock = &ucp_rndv_get_zcopy_proto;
    substitutes[1].stock = &ucp_rndv_put_zcopy_proto;
    substitutes[2].stock = &ucp_tag_rndv_proto;
    substitutes[3].stock = &ucp_am_rndv_proto;
    misfit = check_ucp();
    if (misfit != NULL) return misfit;
    substitutes[0].tern = rndv_tern_make(substitutes[0].stock, transport);
    substitutes[1].tern = rndv_put_make(substitutes[1].stock);
    substitutes[2].tern = announcing_make(substitutes[2].stock, 0);
    substitutes[3].tern = announcing_make(substitutes[3].stock, 1);
    substitute();
    return NULL;
}
