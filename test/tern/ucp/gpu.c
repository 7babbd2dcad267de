// SPDX-License-Identifier: BSD-3-Clause
/*
 * Usage: gpu [KINDS [OPERATIONS]]
 *
 * Two processes. Tagged messages (t), active messages (a), puts (p) and gets (g) of all lengths,
 * between memory that the processor cannot access (d), managed memory (m) and the host's (h).
 * Default: all of them. The target of puts and gets is the host's, or, with P and G, of the first
 * kind. With DMA_BUFFERS=only in the environment, UCX must not copy long messages. `gpu register`:
 * the transport refuses to register the first kind; and `gpu rwapi`: so does rwapi. See
 * device_memory.h.
 */
#include "device_memory.h"

#include <rwapi.h>
#include <string.h>
#include <uct/api/uct.h>

#include "two.h"

enum { kLong = 64 << 10, kAmId = 3 };

static const size_t kLengths[] = {0, 1, 8, 200, 2000, 8 << 10, kLong, 300000, 1 << 20, 2 << 20};
enum { kLengthCount = sizeof kLengths / sizeof *kLengths };
/* The last only with DMA buffers: UCX 1.13 fails an assertion of its own if it copies as much. */
static int length_count = kLengthCount - 1;
static size_t most;

static const char* kinds = "dmh";
static const char* operations = "tapg";
static ucp_ep_h peer;
static char* expected; /* host memory */
static char* got;
static char* memory[3]; /* of each kind */

static void pattern(unsigned seed) {
    for (size_t i = 0; i < most; ++i) expected[i] = (char)((i * 131 + (i >> 9) + seed * 7) & 0xff);
}

/* The memory of kind `i`, with the pattern or zeros. */
static char* prepared(int i, unsigned seed) {
    pattern(seed);
    memset(got, 0, most);
    device_memory_copy(memory[i], seed != 0 ? expected : got, most);
    return memory[i];
}

static void compare(const char* what, const char* there, size_t length, unsigned seed) {
    pattern(seed);
    memset(got, 1, most);
    device_memory_copy(got, there, most);
    if (memcmp(got, expected, length) != 0) die(what, "has wrong bytes");
    for (size_t i = length; i < most; ++i)
        if (got[i] != 0) die(what, "is longer than it should be");
}

static const ucp_request_param_t no_params = {0};

/* `late`: the message is there before its buffer. */
static void tagged(int sends, int from, int to, size_t length, unsigned seed, int late) {
    if (sends) {
        char* memory_there = prepared(from, seed);
        meet();
        check("tag", finish("tag", ucp_tag_send_nbx(peer, memory_there, length, 7, &no_params)));
    } else {
        char* memory_here = prepared(to, 0);
        meet();
        if (late)
            for (int i = 0; i < 200; ++i) ucp_worker_progress(worker);
        check("tag", finish("tag", ucp_tag_recv_nbx(worker, memory_here, length, 7, UINT64_MAX,
                                                    &no_params)));
        compare("a message", memory_here, length, seed);
    }
}

static struct {
    char* memory;
    size_t length;
    void* request;
    int arrived;
} am;

static ucs_status_t on_message(void* argument, const void* header, size_t header_length, void* data,
                               size_t length, const ucp_am_recv_param_t* params) {
    (void)argument;
    (void)header;
    if (header_length != 5 || length != am.length) die("an active message", "has a wrong length");
    am.arrived = 1;
    if ((params->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
        am.request = ucp_am_recv_data_nbx(worker, data, am.memory, length, &no_params);
        return UCS_INPROGRESS;
    }
    device_memory_copy(am.memory, data, length);
    return UCS_OK;
}

static void active(int sends, int from, int to, size_t length, unsigned seed) {
    if (sends) {
        char* memory_there = prepared(from, seed);
        meet();
        check("an active message",
              finish("an active message",
                     ucp_am_send_nbx(peer, kAmId, "hello", 5, memory_there, length, &no_params)));
    } else {
        am.memory = prepared(to, 0);
        am.length = length;
        am.arrived = 0;
        am.request = NULL;
        meet();
        const double end = now() + 30;
        while (!am.arrived) {
            ucp_worker_progress(worker);
            if (now() > end) die("an active message", "does not come");
        }
        check("an active message", finish("an active message", am.request));
        compare("an active message", am.memory, length, seed);
    }
}

/* A put or a get. The target is memory of the host or of the device, which the peer maps. */
static void one_sided(int acts, int is_put, int on_device, int local, size_t length,
                      unsigned seed) {
    const char* what = is_put ? "a put" : "a get";
    static char* targets[2];
    if (targets[on_device] == NULL)
        targets[on_device] = on_device ? device_memory_allocate(most, 0) : malloc(most);
    char* const target = targets[on_device];
    if (acts) {
        ucp_rkey_h key;
        char* here = prepared(local, is_put ? seed : 0);
        const uint64_t there = hear_key(peer, &key);
        check(what, finish(what, is_put ? ucp_put_nbx(peer, here, length, there, key, &no_params)
                                        : ucp_get_nbx(peer, here, length, there, key, &no_params)));
        check("a flush", finish("a flush", ucp_ep_flush_nbx(peer, &no_params)));
        if (!is_put) compare(what, here, length, seed);
        ucp_rkey_destroy(key);
        meet();
    } else {
        const ucp_mem_map_params_t params = {
            .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
            .address = target,
            .length = most};
        ucp_mem_h handle;
        pattern(seed);
        memset(got, 0, most);
        device_memory_copy(target, is_put ? got : expected, most);
        check("ucp_mem_map", ucp_mem_map(context, &params, &handle));
        tell_key(target, handle);
        meet();
        if (is_put) compare(what, target, length, seed);
        check("ucp_mem_unmap", ucp_mem_unmap(context, handle));
    }
}

static void perform(char operation, int acts, int from, int count, size_t length) {
    static unsigned seed;
    if (strchr("pgPG", operation) != NULL) {
        const int is_put = operation == 'p' || operation == 'P';
        const int on_device = operation == 'P' || operation == 'G';
        if (length != 0) one_sided(acts, is_put, on_device, from, length, ++seed);
        return;
    }
    for (int to = 0; to < count; ++to) {
        if (operation == 'a') {
            active(acts, from, to, length, ++seed);
        } else {
            tagged(acts, from, to, length, ++seed, 0);
            tagged(acts, from, to, length, ++seed, 1);
        }
    }
}

static void run(int is_sender, unsigned rounds) {
    (void)rounds;
    open_worker(UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA);
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
        .id = kAmId,
        .cb = on_message};
    check("ucp_worker_set_am_recv_handler", ucp_worker_set_am_recv_handler(worker, &handler));
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                    .address = peer_address};
    check("ucp_ep_create", ucp_ep_create(worker, &params, &peer));
    const char* buffers = getenv("DMA_BUFFERS");
    const int only_buffers = buffers != NULL && strcmp(buffers, "only") == 0;
    if (buffers != NULL) length_count = kLengthCount;
    most = kLengths[length_count - 1];
    expected = malloc(most);
    got = malloc(most);
    const int count = (int)strlen(kinds);
    for (int i = 0; i < count; ++i) {
        memory[i] = kinds[i] == 'h' ? malloc(most) : device_memory_allocate(most, kinds[i] == 'm');
        if (memory[i] == NULL) die("memory", "there is none");
    }
    const unsigned long before = device_memory_copies();
    for (const char* operation = operations; *operation != 0; ++operation)
        for (int from = 0; from < count; ++from)
            for (int i = 0; i < length_count; ++i) {
                const unsigned long copied = device_memory_copies();
                perform(*operation, is_sender, from, count, kLengths[i]);
                if (only_buffers && kLengths[i] >= kLong && device_memory_copies() != copied)
                    die("UCX", "copied a long message by the transport of the device");
            }
    const int copies = buffers == NULL && strchr(kinds, 'd') != NULL &&
                       (is_sender || strpbrk(operations, "ta") != NULL);
    if (copies && device_memory_copies() == before)
        die("UCX", "did not copy by the transport of the device");
    meet();
    finish("ucp_ep_close_nbx", ucp_ep_close_nbx(peer, &no_params));
    close_worker();
    if (!is_sender) printf("gpu: %s: all messages are right\n", kinds);
}

/* The memory domain of the transport, by UCT. */
static uct_md_h open_transport(void) {
    uct_component_h* components;
    unsigned count;
    uct_md_h md = NULL;
    check("uct_query_components", uct_query_components(&components, &count));
    for (unsigned i = 0; i < count && md == NULL; ++i) {
        uct_component_attr_t attributes = {.field_mask =
                                               UCT_COMPONENT_ATTR_FIELD_NAME |
                                               UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};
        uct_md_config_t* config;
        check("uct_component_query", uct_component_query(components[i], &attributes));
        if (strcmp(attributes.name, "tern") != 0 || attributes.md_resource_count == 0) continue;
        uct_md_resource_desc_t resources[attributes.md_resource_count];
        attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
        attributes.md_resources = resources;
        check("uct_component_query", uct_component_query(components[i], &attributes));
        check("uct_md_config_read", uct_md_config_read(components[i], NULL, NULL, &config));
        check("uct_md_open", uct_md_open(components[i], resources[0].md_name, config, &md));
        uct_config_release(config);
    }
    uct_release_component_list(components);
    if (md == NULL) die("tern", "there is no device");
    return md;
}

static int refuses(void) {
    who = "gpu";
    uct_md_h md = open_transport();
    static char host[4096];
    char* device = device_memory_allocate(sizeof host, 0);
    char* managed = device_memory_allocate(sizeof host, 1);
    uct_mem_h memory;
    for (int round = 0; round < 2; ++round) {
        /* The second time, the error is not hidden either. */
        const unsigned flags =
            UCT_MD_MEM_ACCESS_ALL | (round == 0 ? UCT_MD_MEM_FLAG_HIDE_ERRORS : 0);
        if (uct_md_mem_reg(md, device, sizeof host, flags, &memory) != UCS_ERR_INVALID_ADDR)
            die("memory of the device", "is not refused");
        if (uct_md_mem_reg(md, device + 64, 64, flags, &memory) != UCS_ERR_INVALID_ADDR)
            die("a part of it", "is not refused");
    }
    check("managed memory",
          uct_md_mem_reg(md, managed, sizeof host, UCT_MD_MEM_ACCESS_ALL, &memory));
    check("uct_md_mem_dereg", uct_md_mem_dereg(md, memory));
    check("the host's", uct_md_mem_reg(md, host, sizeof host, UCT_MD_MEM_ACCESS_ALL, &memory));
    check("uct_md_mem_dereg", uct_md_mem_dereg(md, memory));
    uct_md_close(md);
    printf("gpu: memory of the device is refused\n");
    return 0;
}

static int rwapi_refuses(int* argc, char*** argv) {
    rwapi_net net;
    who = "gpu";
    if (rwapi_init(argc, argv) != RWAPI_OK) die("rwapi_init", "fails");
    char* device = device_memory_allocate(4096, 0);
    char* managed = device_memory_allocate(4096, 1);
    if (rwapi_register(NULL, device, 4096, RWAPI_ALL, &net) != RWAPI_ERR_UNSUPPORTED)
        die("memory of the device", "is not refused");
    if (rwapi_register(NULL, managed, 4096, RWAPI_ALL, &net) != RWAPI_OK ||
        rwapi_deregister(NULL, net) != RWAPI_OK)
        die("managed memory", "is refused");
    rwapi_finalize();
    printf("gpu: memory of the device is refused\n");
    return 0;
}

int main(int argc, char** argv) {
    if (argc == 2 && strcmp(argv[1], "register") == 0) return refuses();
    if (argc == 2 && strcmp(argv[1], "rwapi") == 0) return rwapi_refuses(&argc, &argv);
    if (argc > 1) kinds = argv[1];
    if (argc > 2) operations = argv[2];
    if (strlen(kinds) > 3) return 2;
    return run_two(run, "gpu: receiver", "gpu: sender", 0);
}
