/* SPDX-License-Identifier: BSD-3-Clause */
/* Sections of verify: messages that do not lie in one piece. */
#include "verify.h"

#include <stdlib.h>
#include <string.h>

/* Every other block of a buffer goes into every third block of the peer's. */
void strided(void) {
    enum { BLOCKS = 5000, BLOCK = 24 };
    const int peer = rank ^ 1;
    unsigned char *out = make_buffer(2 * BLOCKS * BLOCK), *in = make_buffer(3 * BLOCKS * BLOCK);
    unsigned char* packed = make_buffer(BLOCKS * BLOCK);
    MPI_Datatype every_second, every_third;

    MPI_Type_vector(BLOCKS, BLOCK, 2 * BLOCK, MPI_BYTE, &every_second);
    MPI_Type_vector(BLOCKS, BLOCK, 3 * BLOCK, MPI_BYTE, &every_third);
    MPI_Type_commit(&every_second);
    MPI_Type_commit(&every_third);
    fill(packed, BLOCKS * BLOCK, seed_of(rank, peer, 0));
    for (int i = 0; i < BLOCKS * BLOCK; i++) {
        out[i / BLOCK * 2 * BLOCK + i % BLOCK] = packed[i];
    }
    MPI_Sendrecv(out, 1, every_second, peer, 0, in, 1, every_third, peer, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < BLOCKS * BLOCK; i++) {
        packed[i] = in[i / BLOCK * 3 * BLOCK + i % BLOCK];
    }
    expect("strided receive", packed, BLOCKS * BLOCK, seed_of(peer, rank, 0));
    MPI_Type_free(&every_second);
    MPI_Type_free(&every_third);
    free(out);
    free(in);
    free(packed);
}

/* Sends `count` elements of a type to the peer, who receives them packed, and the other way round;
 * the pieces of the buffer are compared after packing, the gaps must be untouched. */
static void exchange(const char* what, MPI_Datatype type, int count, size_t extent) {
    const int peer = rank ^ 1;
    unsigned char *scattered = make_buffer(extent), *before = make_buffer(extent);
    unsigned char *packed, *again;
    MPI_Status status;
    int n, room, position = 0;

    MPI_Type_size(type, &n);
    n *= count;
    MPI_Pack_size(count, type, MPI_COMM_WORLD, &room);
    packed = make_buffer((size_t)(room > n ? room : n));
    again = make_buffer((size_t)(room > n ? room : n));

    fill(packed, (size_t)n, seed_of(rank, peer, 1));
    MPI_Unpack(packed, n, &position, scattered, count, type, MPI_COMM_WORLD);
    memcpy(before, scattered, extent);
    reset(again, (size_t)n);
    MPI_Sendrecv(scattered, count, type, peer, 1, again, n, MPI_PACKED, peer, 1, MPI_COMM_WORLD,
                 &status);
    expect_count(what, &status, (size_t)n);
    expect(what, again, (size_t)n, seed_of(peer, rank, 1));

    reset(scattered, extent);
    MPI_Sendrecv(packed, n, MPI_PACKED, peer, 2, scattered, count, type, peer, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    position = 0;
    reset(again, (size_t)n);
    MPI_Pack(scattered, count, type, again, n, &position, MPI_COMM_WORLD);
    expect(what, again, (size_t)n, seed_of(peer, rank, 1));
    /* What the peer's bytes did not fill is as it was in my own copy: the guard value. */
    memcpy(again, packed, (size_t)n);
    position = 0;
    MPI_Unpack(again, n, &position, scattered, count, type, MPI_COMM_WORLD);
    expect_value(what, memcmp(scattered, before, extent), 0);
    free(scattered);
    free(before);
    free(packed);
    free(again);
}

/* Blocks of random lengths with random gaps between. */
static void indexed(int blocks, unsigned longest) {
    int *lengths = malloc((size_t)blocks * sizeof *lengths),
        *starts = malloc((size_t)blocks * sizeof *starts);
    unsigned state = seed + (unsigned)blocks;
    int end = 0;
    MPI_Datatype type;

    for (int i = 0; i < blocks; i++) {
        starts[i] = end + (int)random_below(&state, 40);
        lengths[i] = (int)random_below(&state, longest);
        end = starts[i] + lengths[i];
    }
    MPI_Type_indexed(blocks, lengths, starts, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    exchange("indexed type", type, 1, (size_t)end);
    MPI_Type_free(&type);
    free(lengths);
    free(starts);
}

/* An array of structures with holes; packed, all in units of 8 bytes: where a fragment of a message
 * ends within a number, MPICH fails. */
static void structures(int count) {
    struct record {
        double number;
        int hole;
        int pair[2];
        char letters[8];
    };
    const int lengths[] = {1, 2, 8};
    const MPI_Aint starts[] = {offsetof(struct record, number), offsetof(struct record, pair),
                               offsetof(struct record, letters)};
    const MPI_Datatype parts[] = {MPI_DOUBLE, MPI_INT, MPI_CHAR};
    MPI_Datatype one, type;

    MPI_Type_create_struct(3, lengths, starts, parts, &one);
    MPI_Type_create_resized(one, 0, sizeof(struct record), &type);
    MPI_Type_commit(&type);
    exchange("structures", type, count, (size_t)count * sizeof(struct record));
    MPI_Type_free(&one);
    MPI_Type_free(&type);
}

/* A box inside a three-dimensional array. */
static void box(int side) {
    const int whole[] = {side, side, side}, part[] = {side / 2, side - 2, side / 3};
    const int start[] = {1, 1, side / 3};
    MPI_Datatype type;

    MPI_Type_create_subarray(3, whole, part, start, MPI_ORDER_C, MPI_INT, &type);
    MPI_Type_commit(&type);
    exchange("box of an array", type, 1, (size_t)(side * side * side) * sizeof(int));
    MPI_Type_free(&type);
}

void datatypes(void) {
    indexed(3, 20);
    indexed(50, 100);
    indexed(2000, 200);
    indexed(20, 50000);
    structures(1);
    structures(100);
    structures(20000);
    box(6);
    box(60);
}
