/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jacobi's method for Laplace's equation on a square, in bands of rows: each process has some rows,
 * and above and below them a halo row, a copy of its neighbour's. What does not depend on how rows
 * get to the neighbours.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 512, ITERATIONS = 300, ROW = WIDTH * sizeof(double) };

struct band {
    int first, rows;         /* of the inner rows of the square, which are 1 to WIDTH - 2 */
    double (*now)[WIDTH];    /* row 0 and row `rows` + 1 are halos or the border of the square */
    double (*before)[WIDTH]; /* the same, one iteration ago */
};

static inline double border(int row, int column) {
    return row == 0 ? 1.0 : column == 0 ? 0.5 * row / WIDTH : 0.0;
}

static inline struct band make_band(int rank, int size) {
    const int inner = WIDTH - 2;
    struct band band;
    band.first = 1 + inner * rank / size;
    band.rows = inner * (rank + 1) / size + 1 - band.first;
    band.now = calloc((size_t)band.rows + 2, sizeof *band.now);
    band.before = calloc((size_t)band.rows + 2, sizeof *band.before);
    if (band.now == NULL || band.before == NULL) abort();
    for (int row = 0; row < band.rows + 2; ++row) {
        for (int column = 0; column < WIDTH; ++column) {
            const int at = band.first - 1 + row;
            const int edge = at == 0 || at == WIDTH - 1 || column == 0 || column == WIDTH - 1;
            band.now[row][column] = band.before[row][column] = edge ? border(at, column) : 0;
        }
    }
    return band;
}

static inline void iterate(struct band* band) {
    double(*const from)[WIDTH] = band->now;
    double(*const to)[WIDTH] = band->before;
    for (int row = 1; row <= band->rows; ++row) {
        for (int column = 1; column < WIDTH - 1; ++column) {
            to[row][column] = 0.25 * (from[row - 1][column] + from[row + 1][column] +
                                      from[row][column - 1] + from[row][column + 1]);
        }
    }
    band->now = to;
    band->before = from;
}

/* Compares with one process's computation of the whole square, in every bit. */
static inline int is_right(const struct band* band) {
    struct band whole = make_band(0, 1);
    int right = 1;
    for (int i = 0; i < ITERATIONS; ++i) iterate(&whole);
    for (int row = 1; row <= band->rows; ++row) {
        right = right && memcmp(band->now[row], whole.now[band->first - 1 + row], ROW) == 0;
    }
    free(whole.now);
    free(whole.before);
    return right;
}

static inline int report(const char* how, int rank, int right, double microseconds) {
    if (!right) fprintf(stderr, "jacobi: %s: process %d is wrong\n", how, rank);
    if (right && rank == 0) {
        printf("jacobi: %s: %.1f us for an iteration\n", how, microseconds / ITERATIONS);
    }
    return right ? 0 : 1;
}
