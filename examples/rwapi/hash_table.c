/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inserts into a distributed hash table. The hash of a key determines the node that owns it. A node
 * puts an entry into its ring at the owner, with a signal that adds 1 to the number of entries
 * there. The owner moves the entries into its table, and frees their places by another signal.
 */
#include "common.h"

enum { INSERTS = 4000, KEYS = 3000, RING = 32, NODES = 64, ROOM = 8192 };

struct entry {
    uint64_t key; /* 0: none */
    uint64_t value;
};

struct memory {
    uint64_t come[NODES];  /* entries that have arrived from each node */
    uint64_t taken[NODES]; /* entries of this node that each owner has moved */
    struct entry rings[NODES][RING];
};

static uint64_t hash(uint64_t key) {
    key ^= key >> 33;
    key *= 0xff51afd7ed558ccdull;
    key ^= key >> 33;
    key *= 0xc4ceb9fe1a85ec53ull;
    return key ^ key >> 33;
}

/* Insert i of a node: a key that other nodes use too, and what is added to its value. */
static struct entry insert_of(int node, int i) {
    const uint64_t random = hash((uint64_t)node * INSERTS + (uint64_t)i + 1);
    return (struct entry){1 + random % KEYS, 1 + random / KEYS % 1000};
}

static void add(struct entry* table, struct entry entry) {
    uint64_t at = hash(entry.key) / NODES % ROOM;
    while (table[at].key != 0 && table[at].key != entry.key) at = (at + 1) % ROOM;
    table[at].key = entry.key;
    table[at].value += entry.value;
}

static struct memory* memory;
static struct entry table[ROOM];
static rwapi_net nets[NODES];
static uint64_t sent[NODES], got[NODES];
static int rank, size;

/* Moves entries that have arrived into the table. */
static void take(void) {
    rwapi_progress(NULL);
    for (int node = 0; node < size; ++node) {
        const uint64_t come = rwapi_signal_read(&memory->come[node]), before = got[node];
        while (got[node] < come) add(table, memory->rings[node][got[node]++ % RING]);
        if (node == rank || come == before) continue;
        put_and_add(nets[node], 0, NULL, 0, offsetof(struct memory, taken) + 8 * (uint64_t)rank,
                    come - before);
    }
}

static void insert(struct entry entry) {
    const int owner = (int)(hash(entry.key) % (uint64_t)size);
    if (owner == rank) {
        add(table, entry);
        return;
    }
    while (sent[owner] - rwapi_signal_read(&memory->taken[owner]) == RING) take();
    const uint64_t place = (uint64_t)rank * RING + sent[owner]++ % RING;
    put_and_add(nets[owner], offsetof(struct memory, rings) + place * sizeof entry, &entry,
                sizeof entry, offsetof(struct memory, come) + 8 * (uint64_t)rank, 1);
}

/* Returns when all owners have moved all entries. */
static void settle(void) {
    for (int node = 0; node < size; ++node) {
        while (sent[node] != rwapi_signal_read(&memory->taken[node])) take();
    }
    const rwapi_small small = {{1}};
    for (int node = 0; node < size; ++node) {
        if (node != rank) TRY(rwapi_send(node, &small));
    }
    for (int left = size - 1; left > 0;) {
        rwapi_small settled;
        int node;
        take();
        const int result = rwapi_receive(&node, &settled);
        check("rwapi_receive", result);
        left -= result;
    }
}

/* Compares the table with one that this node fills alone, with all nodes' inserts of its keys. */
static int is_right(void) {
    static struct entry wanted[ROOM];
    for (int node = 0; node < size; ++node) {
        for (int i = 0; i < INSERTS; ++i) {
            const struct entry entry = insert_of(node, i);
            if ((int)(hash(entry.key) % (uint64_t)size) == rank) add(wanted, entry);
        }
    }
    /* The places of colliding keys depend on the order of the inserts; sums do not. */
    for (int i = 0; i < ROOM; ++i) {
        if (wanted[i].key == 0) continue;
        uint64_t at = hash(wanted[i].key) / NODES % ROOM;
        while (table[at].key != 0 && table[at].key != wanted[i].key) at = (at + 1) % ROOM;
        if (table[at].key != wanted[i].key || table[at].value != wanted[i].value) return 0;
    }
    int keys = 0;
    for (int i = 0; i < ROOM; ++i) keys += (table[i].key != 0) - (wanted[i].key != 0);
    return keys == 0;
}

int main(int argc, char** argv) {
    check("rwapi_init", rwapi_init(&argc, &argv));
    rank = rwapi_rank();
    size = rwapi_size();
    if (size > NODES) {
        fprintf(stderr, "hash_table needs at most %d nodes\n", NODES);
        return 2;
    }
    memory = allocate(sizeof *memory);
    share(memory, sizeof *memory, nets);
    const double start = microseconds();
    for (int i = 0; i < INSERTS; ++i) insert(insert_of(rank, i));
    settle();
    const double time = microseconds() - start;
    const int right = is_right();
    if (!right) fprintf(stderr, "hash_table: node %d is wrong\n", rank);
    if (right && rank == 0) {
        printf("hash_table: %d nodes, %d inserts each, %.2f us for an insert\n", size, INSERTS,
               time / INSERTS);
    }
    check("rwapi_finalize", rwapi_finalize());
    return right ? 0 : 1;
}
