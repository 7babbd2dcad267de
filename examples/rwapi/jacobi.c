/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jacobi's method by notified puts. A node puts its outer rows into the halo memory of its
 * neighbours, and adds 1 to a word behind it. No answers are needed.
 *
 * There are two halo memories, used alternately. A neighbour is at most one iteration ahead,
 * because it needs this node's row. So a row that it puts early goes to the other memory, whose
 * word counts it.
 */
#include "jacobi.h"
#include "common.h"

enum { UP, DOWN };

struct halo {
    double rows[2][WIDTH]; /* UP or DOWN */
    uint64_t count;        /* of all rows that have come */
};

int main(int argc, char** argv) {
    check("rwapi_init", rwapi_init(&argc, &argv));
    const int rank = rwapi_rank(), size = rwapi_size();
    struct band band = make_band(rank, size);
    const int neighbours[2] = {rank - 1, rank + 1 < size ? rank + 1 : -1};
    const int count = (neighbours[UP] >= 0) + (neighbours[DOWN] >= 0);

    struct halo* halos[2];
    rwapi_net* nets[2];
    for (int turn = 0; turn < 2; ++turn) {
        halos[turn] = allocate(sizeof(struct halo));
        nets[turn] = calloc((size_t)size, sizeof *nets[turn]);
        if (nets[turn] == NULL) fail("nets", RWAPI_ERR_MEMORY);
        share(halos[turn], sizeof(struct halo), nets[turn]);
    }
    /* Rows are put again and again. Registered memory is neither copied nor registered each time.
     */
    rwapi_net own;
    const size_t bytes = (size_t)(band.rows + 2) * ROW;
    check("rwapi_register", rwapi_register(NULL, band.now, bytes, 0, &own));
    check("rwapi_register", rwapi_register(NULL, band.before, bytes, 0, &own));

    const double start = microseconds();
    rwapi_id ids[2] = {0, 0};
    for (int i = 0; i < ITERATIONS; ++i) {
        const int turn = i % 2;
        for (int side = UP; side <= DOWN; ++side) {
            if (neighbours[side] < 0) continue;
            const double* row = band.now[side == UP ? 1 : band.rows];
            /* This node is below its upper neighbour. */
            TRY(rwapi_put_signal(NULL, nets[turn][neighbours[side]], side == UP ? ROW : 0, row, ROW,
                                 offsetof(struct halo, count), 1, RWAPI_SIGNAL_ADD, &ids[side]));
        }
        TRY(rwapi_signal_wait(NULL, &halos[turn]->count, (uint64_t)(count * (i / 2 + 1)),
                              10000000));
        if (neighbours[UP] >= 0) memcpy(band.now[0], halos[turn]->rows[UP], ROW);
        if (neighbours[DOWN] >= 0) memcpy(band.now[band.rows + 1], halos[turn]->rows[DOWN], ROW);
        iterate(&band);
        /* The next iteration overwrites the rows that were put. */
        for (int side = UP; side <= DOWN; ++side) TRY(rwapi_wait(NULL, ids[side], 10000000));
    }
    const double time = microseconds() - start;
    const int status = report("notified puts", rank, is_right(&band), time);
    check("rwapi_finalize", rwapi_finalize());
    return status;
}
