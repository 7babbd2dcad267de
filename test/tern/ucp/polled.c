// SPDX-License-Identifier: BSD-3-Clause
/*
 * Usage: polled [ROUNDS]
 *
 * Two processes. One maps memory, gives the other a key, and from then on looks at its memory
 * without calling UCX. In each round the other puts to it and gets from it: both must be done
 * meanwhile. In every other round the memory was sent as a long message before it is mapped, so
 * that UCX has a registration of it already, of a rendezvous.
 */
#include <string.h>
#include <sys/mman.h>

#include "two.h"

enum { kSize = 1 << 20, kHalf = kSize / 2 };

static ucp_ep_h peer;

static uint8_t byte_of(unsigned round, size_t i) {
    return (uint8_t)(round * 31 + i * 7 + (i >> 9));
}

static void fill(uint8_t* memory, size_t size, unsigned round) {
    for (size_t i = 0; i < size; ++i) memory[i] = byte_of(round, i);
}

static void compare(const char* what, const uint8_t* memory, size_t size, unsigned round) {
    for (size_t i = 0; i < size; ++i)
        if (memory[i] != byte_of(round, i)) die(what, "has wrong bytes");
}

static size_t length_of(unsigned round) {
    static const size_t lengths[] = {8, 64, 4096, 65536, kHalf};
    return lengths[round / 2 % (sizeof(lengths) / sizeof(*lengths))];
}

static void send_or_receive(int sends, uint8_t* memory, unsigned round) {
    const ucp_request_param_t params = {0};
    void* request = sends ? ucp_tag_send_nbx(peer, memory, kSize, round, &params)
                          : ucp_tag_recv_nbx(worker, memory, kSize, round, UINT64_MAX, &params);
    check("a long message", finish("a long message", request));
    meet();
}

/* The first half is put to, the second is got. */
static void target(unsigned round) {
    uint8_t* memory = mmap(NULL, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("mmap", "no memory");
    fill(memory, kSize, 0);
    uint8_t* other = calloc(kSize, 1);
    send_or_receive(1, round % 2 != 0 ? memory : other, round);
    free(other);

    const ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = memory,
        .length = kSize};
    ucp_mem_h handle;
    check("ucp_mem_map", ucp_mem_map(context, &params, &handle));
    memset(memory, 0, kHalf);
    fill(memory + kHalf, kHalf, round + 100);
    tell_key(memory, handle);

    /* Not one call of UCX until the peer is done. */
    char done;
    const double end = now() + 60;
    while (recv(channel, &done, 1, MSG_DONTWAIT) != 1)
        if (now() > end) die("recv", "the peer is not done");
    const size_t length = length_of(round);
    compare("the memory", memory, length, round);
    for (size_t i = length; i < kHalf; ++i)
        if (memory[i] != 0) die("the memory", "was written to behind the put");
    meet();
    check("ucp_mem_unmap", ucp_mem_unmap(context, handle));
    munmap(memory, kSize);
}

static void initiator(unsigned round) {
    const ucp_request_param_t params = {0};
    uint8_t* buffer = malloc(kSize);
    send_or_receive(0, buffer, round);

    /* While these requests are under way the target does not call UCX. */
    ucp_rkey_h key;
    const uint64_t there = hear_key(peer, &key);
    const size_t length = length_of(round);
    fill(buffer, length, round);
    check("ucp_put_nbx",
          finish("ucp_put_nbx", ucp_put_nbx(peer, buffer, length, there, key, &params)));
    check("ucp_ep_flush_nbx", finish("ucp_ep_flush_nbx", ucp_ep_flush_nbx(peer, &params)));
    memset(buffer, 0, kSize);
    finish("ucp_get_nbx", ucp_get_nbx(peer, buffer, length, there + kHalf, key, &params));
    compare("what was got", buffer, length, round + 100);
    tell("", 1);
    meet();
    ucp_rkey_destroy(key);
    free(buffer);
}

static void run(int is_target, unsigned rounds) {
    /* Without UCP_FEATURE_AMO: from 1.15 on UCX then declares memory without a right to atomics. */
    open_worker(UCP_FEATURE_TAG | UCP_FEATURE_RMA);
    const ucp_ep_params_t ep_params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                       .address = peer_address};
    check("ucp_ep_create", ucp_ep_create(worker, &ep_params, &peer));
    for (unsigned round = 0; round < rounds; ++round)
        if (is_target)
            target(round);
        else
            initiator(round);
    const ucp_request_param_t no_params = {0};
    check("ucp_ep_close_nbx", finish("ucp_ep_close_nbx", ucp_ep_close_nbx(peer, &no_params)));
    close_worker();
    if (is_target) printf("polled: %u rounds\n", rounds);
}

int main(int argc, char** argv) {
    const unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 20;
    return run_two(run, "polled: initiator", "polled: target", rounds);
}
