// SPDX-License-Identifier: BSD-3-Clause
/*
 * Usage: proto [NAME=VALUE...]
 *
 * Two processes. Messages of all kinds and of many lengths go in both directions: tagged,
 * synchronous and active ones, with pieces of memory and packing functions at either end, received
 * early and late, cut off, dropped and canceled. All bytes must be right, nothing else may be
 * written to, and every request must end. The second process gets the variables given, and begins
 * anew with them. PROTO_ERRORS=y: the endpoints have error handling. PROTO_SHORT=y: no message is
 * longer than 1 MiB.
 */
#include <string.h>

#include "two.h"

enum { kAm = 3, kUntouched = 0xee };

typedef enum { TAG, SYNC, AM, AM_HEADER, AM_RNDV, KINDS } kind_t;
static const char* const kind_names[] = {"tagged", "synchronous", "active", "active with a header",
                                         "active by rendezvous"};

typedef enum { CONTIG, IOV, GENERIC, LAYOUTS } layout_t;

/* The bytes of a message lie in pieces of equal length, but for the last one. */
typedef struct {
    layout_t layout;
    uint8_t* memory;
    size_t length, piece, stride;
    ucp_dt_iov_t iov[6];
} buffer_t;

typedef struct {
    unsigned index;
    uint8_t more[29];
} header_t;

static const size_t lengths[] = {0,     1,     8,     9,      63,     64,      65,      103,
                                 104,   105,   255,   1023,   1024,   4080,    4095,    4096,
                                 4097,  8100,  8184,  8191,   8192,   8193,    12287,   12288,
                                 12289, 16383, 16384, 16385,  32767,  32768,   40000,   65535,
                                 65536, 65537, 98303, 131072, 262145, 1048576, 16777216};
enum { kLengths = sizeof lengths / sizeof *lengths };

static ucp_ep_h peer;
static ucp_datatype_t generic;
static int errors;
static unsigned used; /* of the lengths */
static uint64_t tag;
static char** variables; /* of the second process */

/* Active messages that have come. */
static struct {
    void* data;
    size_t length;
    int kept, announced;
} arrived[kLengths];
static unsigned arrivals;
static int with_header;

static uint8_t byte_of(unsigned seed, size_t i) {
    return (uint8_t)(((uint32_t)i * 2654435761u + seed * 40503u) >> 23);
}

static void make(buffer_t* buffer, layout_t layout, size_t length) {
    const size_t gap = layout == CONTIG ? 64 : 24;
    buffer->layout = layout;
    buffer->length = length;
    buffer->piece = layout == CONTIG ? length : layout == IOV ? length / 5 + 1 : 1021;
    if (buffer->piece == 0) buffer->piece = 1;
    buffer->stride = buffer->piece + gap;
    const size_t pieces = length / buffer->piece + 1;
    buffer->memory = malloc(pieces * buffer->stride);
    if (buffer->memory == NULL) die("malloc", "no memory");
    memset(buffer->memory, kUntouched, pieces * buffer->stride);
    if (layout != IOV) return;
    for (size_t i = 0; i < pieces; ++i) {
        const size_t at = i * buffer->piece;
        buffer->iov[i].buffer = buffer->memory + i * buffer->stride;
        buffer->iov[i].length = length - at < buffer->piece ? length - at : buffer->piece;
    }
}

/* The longest run of bytes from `at` on. */
static uint8_t* run_at(const buffer_t* buffer, size_t at, size_t* run) {
    const size_t in_piece = at % buffer->piece;
    *run = buffer->piece - in_piece;
    return buffer->memory + at / buffer->piece * buffer->stride + in_piece;
}

static void fill(buffer_t* buffer, unsigned seed) {
    for (size_t at = 0, run; at < buffer->length; at += run) {
        uint8_t* to = run_at(buffer, at, &run);
        for (size_t i = 0; i < run && at + i < buffer->length; ++i) to[i] = byte_of(seed, at + i);
    }
}

/* The first `length` bytes are those of the message, or untouched if they may be, and the rest are
 * as they were. */
static void compare_some(const char* what, const buffer_t* buffer, unsigned seed, size_t length,
                         int may_miss) {
    for (size_t at = 0, run; at <= buffer->length; at += run) {
        const uint8_t* from = run_at(buffer, at, &run);
        const size_t all = buffer->stride - (from - buffer->memory) % buffer->stride;
        for (size_t i = 0; i < all; ++i) {
            const int is_data = i < run && at + i < length;
            if (from[i] == (is_data ? byte_of(seed, at + i) : kUntouched)) continue;
            if (may_miss && from[i] == kUntouched) continue;
            fprintf(stderr, "%s: byte %zu of %zu\n", who, at + i, buffer->length);
            die(what, is_data ? "has wrong bytes" : "was written behind its end");
        }
    }
}

static void compare(const char* what, const buffer_t* buffer, unsigned seed, size_t length) {
    compare_some(what, buffer, seed, length, 0);
}

static size_t pack(void* state, size_t at, void* to, size_t most) {
    const buffer_t* buffer = state;
    const size_t end = at + most < buffer->length ? at + most : buffer->length;
    const size_t from = at;
    for (size_t run; at < end; at += run) {
        const uint8_t* bytes = run_at(buffer, at, &run);
        if (run > end - at) run = end - at;
        memcpy((char*)to + (at - from), bytes, run);
    }
    return end - from;
}

static ucs_status_t unpack(void* state, size_t at, const void* from, size_t length) {
    const buffer_t* buffer = state;
    const size_t end = at + length;
    if (end > buffer->length) return UCS_ERR_MESSAGE_TRUNCATED;
    for (size_t run; at < end; at += run, from = (const char*)from + run) {
        uint8_t* to = run_at(buffer, at, &run);
        if (run > end - at) run = end - at;
        memcpy(to, from, run);
    }
    return UCS_OK;
}

static void* begin_pack(void* argument, const void* buffer, size_t count) {
    (void)argument;
    (void)count;
    return (void*)buffer;
}
static void* begin_unpack(void* argument, void* buffer, size_t count) {
    (void)argument;
    (void)count;
    return buffer;
}
static size_t packed_size(void* state) {
    return ((const buffer_t*)state)->length;
}
static void end_packing(void* state) {
    (void)state;
}

static const ucp_generic_dt_ops_t packing = {.start_pack = begin_pack,
                                             .start_unpack = begin_unpack,
                                             .packed_size = packed_size,
                                             .pack = pack,
                                             .unpack = unpack,
                                             .finish = end_packing};

static void* address_of(buffer_t* buffer) {
    return buffer->layout == CONTIG ? (void*)buffer->memory
           : buffer->layout == IOV  ? (void*)buffer->iov
                                    : (void*)buffer;
}
static size_t count_of(const buffer_t* buffer) {
    return buffer->layout == CONTIG ? buffer->length
           : buffer->layout == IOV  ? buffer->length / buffer->piece + 1
                                    : 1;
}
static ucp_datatype_t type_of(const buffer_t* buffer) {
    return buffer->layout == CONTIG ? ucp_dt_make_contig(1)
           : buffer->layout == IOV  ? ucp_dt_make_iov()
                                    : generic;
}

static void* begin_send(kind_t kind, buffer_t* buffer, header_t* header) {
    /* Without UCP_OP_ATTR_FLAG_NO_IMM_CMPL, which makes UCX 1.13 ignore the type of active
     * messages. */
    ucp_request_param_t params = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE,
                                  .datatype = type_of(buffer)};
    void* const address = address_of(buffer);
    const size_t count = count_of(buffer);
    if (kind == TAG) return ucp_tag_send_nbx(peer, address, count, tag++, &params);
    if (kind == SYNC) return ucp_tag_send_sync_nbx(peer, address, count, tag++, &params);
    if (kind == AM_RNDV) {
        params.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        params.flags = UCP_AM_SEND_FLAG_RNDV;
    }
    return ucp_am_send_nbx(peer, kAm, kind == AM ? NULL : header, kind == AM ? 0 : sizeof *header,
                           address, count, &params);
}

static ucp_request_param_t params_to_receive(const buffer_t* buffer) {
    const ucp_request_param_t params = {
        .op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL | UCP_OP_ATTR_FIELD_DATATYPE,
        .datatype = type_of(buffer)};
    return params;
}

static void* begin_receive(buffer_t* buffer) {
    const ucp_request_param_t params = params_to_receive(buffer);
    return ucp_tag_recv_nbx(worker, address_of(buffer), count_of(buffer), tag++, UINT64_MAX,
                            &params);
}

static void make_header(header_t* header, unsigned index) {
    header->index = index;
    for (size_t i = 0; i < sizeof header->more; ++i) header->more[i] = byte_of(index + 1, i);
}

/* Active messages come in any order. With headers these tell which one it is, else the length. */
static ucs_status_t on_active(void* argument, const void* bytes, size_t header_length, void* data,
                              size_t length, const ucp_am_recv_param_t* params) {
    unsigned index = 0;
    header_t header, expected;
    (void)argument;
    if (header_length != (with_header ? sizeof header : 0)) die("a header", "has a wrong length");
    if (header_length != 0) {
        memcpy(&header, bytes, sizeof header);
        index = header.index;
        memset(&expected, 0, sizeof expected);
        make_header(&expected, index);
        if (memcmp(header.more, expected.more, sizeof header.more) != 0)
            die("a header", "has wrong bytes");
    } else {
        while (index < kLengths && lengths[index] != length) ++index;
    }
    if (index >= kLengths || lengths[index] != length)
        die("an active message", "has a wrong length");
    ++arrivals;
    arrived[index].length = length;
    arrived[index].announced = (params->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    arrived[index].kept =
        (params->recv_attr & (UCP_AM_RECV_ATTR_FLAG_RNDV | UCP_AM_RECV_ATTR_FLAG_DATA)) != 0;
    if (arrived[index].kept) {
        arrived[index].data = data;
        return UCS_INPROGRESS;
    }
    arrived[index].data = malloc(length + 1);
    memcpy(arrived[index].data, data, length);
    return UCS_OK;
}

static void wait_for_arrivals(unsigned number) {
    const double end = now() + 20;
    while (arrivals < number) {
        ucp_worker_progress(worker);
        if (now() > end) die("an active message", "does not come");
    }
}

static void release(unsigned index) {
    if (arrived[index].kept)
        ucp_am_data_release(worker, arrived[index].data);
    else
        free(arrived[index].data);
}

static void* begin_active_receive(unsigned index, buffer_t* buffer) {
    const ucp_request_param_t params = params_to_receive(buffer);
    if (arrived[index].announced)
        return ucp_am_recv_data_nbx(worker, arrived[index].data, address_of(buffer),
                                    count_of(buffer), &params);
    unpack(buffer, 0, arrived[index].data, arrived[index].length);
    release(index);
    return NULL;
}

/* All lengths at once. Late: the receiver takes the messages when all have been announced. */
static void together(int sends, kind_t kind, layout_t from, layout_t to, int late) {
    static buffer_t buffers[kLengths];
    static header_t headers[kLengths];
    void* requests[kLengths];
    const char* name = kind_names[kind];
    const int active = kind >= AM;
    with_header = kind > AM;
    for (unsigned i = 0; i < used; ++i) {
        make(&buffers[i], sends ? from : to, lengths[i]);
        make_header(&headers[i], i);
        if (sends) fill(&buffers[i], i);
    }
    arrivals = 0;
    if (!sends && !late && !active)
        for (unsigned i = 0; i < used; ++i) requests[i] = begin_receive(&buffers[i]);
    meet();
    if (sends)
        for (unsigned i = 0; i < used; ++i)
            requests[i] = begin_send(kind, &buffers[i], &headers[i]);
    if (late) meet();
    if (!sends && active) wait_for_arrivals(used);
    if (!sends && (late || active))
        for (unsigned i = 0; i < used; ++i)
            requests[i] =
                active ? begin_active_receive(i, &buffers[i]) : begin_receive(&buffers[i]);
    for (unsigned i = 0; i < used; ++i) check(name, finish(name, requests[i]));
    for (unsigned i = 0; i < used; ++i) {
        compare(name, &buffers[i], i, lengths[i]);
        free(buffers[i].memory);
    }
}

/* One message after the other. */
static void singly(int sends, kind_t kind, layout_t from, layout_t to) {
    const char* name = kind_names[kind];
    with_header = kind > AM;
    arrivals = 0;
    meet();
    for (unsigned i = 0; i < used; ++i) {
        buffer_t buffer;
        header_t header;
        make(&buffer, sends ? from : to, lengths[i]);
        make_header(&header, i);
        if (sends) {
            fill(&buffer, i);
            check(name, finish(name, begin_send(kind, &buffer, &header)));
        } else if (kind < AM) {
            check(name, finish(name, begin_receive(&buffer)));
        } else {
            wait_for_arrivals(i + 1);
            check(name, finish(name, begin_active_receive(i, &buffer)));
        }
        compare(name, &buffer, i, lengths[i]);
        free(buffer.memory);
        if (kind >= AM) meet();
    }
}

/* The receiver has room for less. UCP need not write the part that there is room for. (UCP does not
 * allow this of active messages.) */
static void cut_off(int sends, kind_t kind, layout_t from, layout_t to, size_t length,
                    size_t room) {
    const char* what = "a message that is cut off";
    buffer_t buffer;
    make(&buffer, sends ? from : to, sends ? length : room);
    if (sends) {
        fill(&buffer, 1);
        check(what, finish(what, begin_send(kind, &buffer, NULL)));
        compare(what, &buffer, 1, length);
    } else {
        if (finish(what, begin_receive(&buffer)) != UCS_ERR_MESSAGE_TRUNCATED) die(what, "is not");
        compare_some(what, &buffer, 1, room, 1);
    }
    free(buffer.memory);
}

/* Active messages that the receiver does not want. */
static void dropped(int sends, kind_t kind) {
    static buffer_t buffers[kLengths];
    static header_t headers[kLengths];
    void* requests[kLengths];
    with_header = kind > AM;
    arrivals = 0;
    meet();
    for (unsigned i = 0; i < used && sends; ++i) {
        make(&buffers[i], CONTIG, lengths[i]);
        make_header(&headers[i], i);
        requests[i] = begin_send(kind, &buffers[i], &headers[i]);
    }
    for (unsigned i = 0; i < used && sends; ++i) {
        finish("a message that is dropped", requests[i]);
        free(buffers[i].memory);
    }
    if (sends) return;
    wait_for_arrivals(used);
    for (unsigned i = 0; i < used; ++i) release(i);
}

/* A receive is canceled before the message comes, or about when it does. */
static void canceled(int sends, unsigned round) {
    const char* what = "a canceled receive";
    const size_t length = 1 << 18;
    buffer_t buffer;
    make(&buffer, CONTIG, length);
    if (sends) {
        fill(&buffer, round);
        meet();
        check(what, finish(what, begin_send(TAG, &buffer, NULL)));
    } else {
        void* request = begin_receive(&buffer);
        if (round % 2 == 0) ucp_request_cancel(worker, request);
        meet();
        for (unsigned i = 0; round % 2 != 0 && i < round * 4; ++i) ucp_worker_progress(worker);
        if (round % 2 != 0) ucp_request_cancel(worker, request);
        const ucs_status_t status = finish(what, request);
        if (status == UCS_ERR_CANCELED) {
            compare(what, &buffer, 0, 0);
            --tag;
            check(what, finish(what, begin_receive(&buffer)));
        } else {
            check(what, status);
        }
    }
    compare(what, &buffer, round, length);
    free(buffer.memory);
}

static void on_error(void* argument, ucp_ep_h ep, ucs_status_t status) {
    (void)argument;
    (void)ep;
    (void)status;
}

static void one_way(int sends) {
    for (kind_t kind = TAG; kind < KINDS; ++kind) {
        used = kLengths - (getenv("PROTO_SHORT") != NULL);
        singly(sends, kind, CONTIG, CONTIG);
        used = kLengths - 1;
        for (int late = 0; late < 2; ++late) together(sends, kind, CONTIG, CONTIG, late);
        /* UCP's newer protocols have no such active messages in pieces. */
        for (layout_t from = CONTIG; from < (kind == AM_RNDV ? IOV : LAYOUTS); ++from)
            for (layout_t to = CONTIG; to < LAYOUTS; ++to)
                together(sends, kind, from, to, (from + to) % 2);
        singly(sends, kind, kind == AM_RNDV ? CONTIG : IOV, GENERIC);
        for (layout_t from = CONTIG; from < LAYOUTS && kind < AM; ++from) {
            cut_off(sends, kind, from, CONTIG, 65536, 0);
            cut_off(sends, kind, from, CONTIG, 65536, 65535);
            cut_off(sends, kind, from, IOV, 1048576, 1000);
            cut_off(sends, kind, from, GENERIC, 1048576, 100000);
        }
        if (kind >= AM) dropped(sends, kind);
        meet();
    }
    for (unsigned round = 0; round < 40; ++round) canceled(sends, round);
    meet();
}

static void run(int is_child, unsigned rounds) {
    const ucp_ep_params_t handling = {
        .field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_error}};
    const ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                          UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                                                          UCP_AM_HANDLER_PARAM_FIELD_CB,
                                            .id = kAm,
                                            .flags = UCP_AM_FLAG_PERSISTENT_DATA,
                                            .cb = on_active};
    const ucp_request_param_t close_params = {0};
    ucp_ep_params_t ep_params = {0};
    (void)rounds;
    if (errors) ep_params = handling;
    open_worker(UCP_FEATURE_TAG | UCP_FEATURE_AM);
    ep_params.field_mask |= UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    ep_params.address = peer_address;
    check("ucp_dt_create_generic", ucp_dt_create_generic(&packing, NULL, &generic));
    check("ucp_worker_set_am_recv_handler", ucp_worker_set_am_recv_handler(worker, &handler));
    check("ucp_ep_create", ucp_ep_create(worker, &ep_params, &peer));
    meet();
    one_way(is_child);
    one_way(!is_child);
    check("ucp_ep_close_nbx", finish("ucp_ep_close_nbx", ucp_ep_close_nbx(peer, &close_params)));
    meet();
    ucp_dt_destroy(generic);
    close_worker();
    if (!is_child) printf("proto: all messages are right\n");
}

/* The second process: begins anew, because libraries read variables when they are loaded. */
static void change(int is_child, unsigned rounds) {
    char number[16];
    (void)rounds;
    if (!is_child || variables == NULL) return run(is_child, rounds);
    for (; *variables != NULL; ++variables) putenv(*variables);
    snprintf(number, sizeof number, "%d", channel);
    setenv("PROTO_CHANNEL", number, 1);
    execl("/proc/self/exe", "proto", (char*)NULL);
    die("execl", "failed");
}

int main(int argc, char** argv) {
    const char* inherited = getenv("PROTO_CHANNEL");
    errors = getenv("PROTO_ERRORS") != NULL;
    if (inherited != NULL) {
        who = "proto: second";
        channel = atoi(inherited);
        run(1, 1);
        return 0;
    }
    if (argc > 1) variables = argv + 1;
    return run_two(change, "proto: first", "proto: second", 1);
}
