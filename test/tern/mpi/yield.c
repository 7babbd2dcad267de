/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * To be preloaded under an MPI that spins while it waits: whoever finds nothing to do a few times
 * gives up its core, so that more ranks than cores do not take ten times as long.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stddef.h>

unsigned ucp_worker_progress(void* worker) {
    static unsigned (*progress)(void*);
    static _Thread_local int idle;
    unsigned done;

    if (progress == NULL) {
        progress = (unsigned (*)(void*))dlsym(RTLD_NEXT, "ucp_worker_progress");
    }
    done = progress(worker);
    idle = done != 0 ? 0 : idle + 1;
    if (idle == 100) {
        idle = 0;
        sched_yield();
    }
    return done;
}
