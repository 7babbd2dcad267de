/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual time of the device, for simulations. With SOFTHCA_CLOCK=virtual, one process has all
   members of the fabric, each with ports and memory of its own, and the device's time is a number
   that this process sets. One thread does everything: the device acts only in
   softhca_virtual_step(). A program finds these functions by dlsym(), because the device is
   preloaded. */
#ifndef SOFTHCA_VIRTUAL_TIME_H
#define SOFTHCA_VIRTUAL_TIME_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct softhca_virtual_time {
    /* ns. What is posted is posted at this time, and polls see what is visible at this time. Before
       a member runs, the program sets its time here. */
    uint64_t now;
    /* Processor time in ns that the device adds to `now`: of a call that posts, and of each work
       request in it; of a receive that is posted; of a call that polls a completion queue, and of
       each completion that it takes. A registration adds what the model of the adapter says.
       `block`: a request of inline data that is posted alone is written to an adapter in blocks of
       64 bytes (BlueFlame of mlx5), and each one after the first takes that. */
    uint64_t post;
    uint64_t request;
    uint64_t block;
    uint64_t receive;
    uint64_t poll;
    uint64_t completion;
    /* Count the calls that poll a completion queue, those that post, and their work requests. */
    uint64_t polls;
    uint64_t posts;
    uint64_t requests;
} softhca_virtual_time;

/* The time of this process's device; null if it is not virtual. Joins the fabric. */
softhca_virtual_time* softhca_virtual_clock(void);
typedef softhca_virtual_time* softhca_virtual_clock_function(void);

/* Devices that are listed and opened from now on belong to this member. Members are selected for
   the first time in their order: 0, 1, ... 0 on success. */
int softhca_virtual_member(uint32_t member);
typedef int softhca_virtual_member_function(uint32_t member);

/* What happens next: at a time, to a member, which need not poll before. `seen` is 1 if from then
   on the member may find data in its memory, or a completion, and 0 if only its device acts. The
   member is told before the device acts. 0 if nothing happens before a member does something,
   otherwise 1. */
typedef struct softhca_virtual_event {
    uint64_t time;
    uint32_t member;
    uint32_t seen;
} softhca_virtual_event;
int softhca_virtual_peek(softhca_virtual_event* event);
typedef int softhca_virtual_peek_function(softhca_virtual_event* event);

/* The device does what happens next. Leaves `now` as it is. */
void softhca_virtual_step(void);
typedef void softhca_virtual_step_function(void);

/* Whether a completion queue of the member has a completion that can be polled now. */
int softhca_virtual_waits(uint32_t member);
typedef int softhca_virtual_waits_function(uint32_t member);

#ifdef __cplusplus
}
#endif

#endif
