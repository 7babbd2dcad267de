# SPDX-License-Identifier: BSD-3-Clause
"""Remote write with notification: librwapi for Python.

rwapi.h describes the calls; `calls` has each of them as it is in C. The classes below add what a program in Python
expects: errors are exceptions, times are in seconds (None: no limit), and buffers are objects with the buffer protocol
(bytes, bytearray, memoryview, array, arrays of numpy) that are contiguous. A buffer stays alive, and a bytearray keeps
its size, until the operation is complete.

    import rwapi
    with rwapi.init() as context, context.alloc(64) as memory:
        nets = context.share(memory.net)
        context.put_notify(nets[(context.rank + 1) % context.size], b"hello", slot=5, value=1)
        context.notify_wait(5, timeout=10)
        print(bytes(memory.view[:5]))
        context.barrier()
"""
import ctypes
import mmap
import os
import sys
import threading
import time
import traceback
from ctypes import byref, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

from ._c import *  # noqa: F403 the constants too
from ._c import (ALL, ERR_AGAIN, ERR_BUSY, ERR_INVALID, ERR_PEER, ERR_RANGE, ERR_STATE, ERR_TIMEOUT, FULL_AGAIN,
                 READ, SIGNAL_SET, THREAD_MULTIPLE, Blocks, Bootstrap, Buffer, Element, Error, Net, Params, calls, check,
                 error_of)


class Operation:
    """An operation that has begun. `result` is what an atomic operation has found, when it is complete."""

    def __init__(self, context, kept=None, found=None, flush=False):
        self.context, self._kept, self._found, self._flush = context, kept, found, flush
        self._id = c_int64(0)

    def __del__(self):
        # Nobody will ask for it, but it may still use the buffer.
        if self._id.value > 0 and self._kept is not None:
            self.context._leave(self._id.value, self._kept)

    @property
    def id(self):
        return self._id.value

    @property
    def result(self):
        return None if self._found is None else self._found.value

    def test(self):
        """Whether it is complete; raises its error."""
        complete = c_int()
        return self._end(calls.rwapi_test(self.context.handle, self.id, byref(complete)) or complete.value)

    def wait(self, timeout=None):
        waited = self.context._until(timeout, lambda limit: calls.rwapi_wait(self.context.handle, self.id, limit))
        self._end(waited or 1)
        return self

    def _end(self, result):
        """Takes the result of a test of this operation."""
        if result not in (0, ERR_TIMEOUT, ERR_STATE):
            self._kept = None
        if check(result) and self._flush:
            self.context._look_at_left()
            self.context._raise_lost()
        return result > 0


class Region:
    """Memory of the program that Context.register() has registered; it stays alive until it is deregistered."""

    def __init__(self, context, buffer, rights):
        self.context, self.net = context, Net()
        self._kept = Buffer(buffer, writable=rights != READ)
        check(calls.rwapi_register(context.handle, self._kept.address, self._kept.length, rights, byref(self.net)))
        context._regions.add(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.deregister()

    def deregister(self):
        if self in self.context._regions:
            check(calls.rwapi_deregister(self.context.handle, self.net))
            self.context._regions.discard(self)
        self._kept = None


class Memory(Region):
    """Memory of Context.alloc(): `view` is a writable memoryview of its bytes, `net` its network address.

    The memory is Python's: slices of the view, and arrays that were made of it, may exist for longer.
    """

    def __init__(self, context, size):
        if size <= 0:
            raise Error(ERR_INVALID)
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if size >= 1 << 21:
            memory.madvise(mmap.MADV_HUGEPAGE)
        super().__init__(context, memory, ALL)
        self.view = memoryview(memory)

    def free(self):
        """Peers cannot use it any more."""
        self.deregister()
        self.view.release()

    def __exit__(self, *_):
        self.free()


class Context:
    """A context: rwapi.init() gives that of the process, and Context(...) makes another one. Collective.

    Parameters: threads, slots, operations, credit, on_peer_death, wait, full as in rwapi_params, and bootstrap: an object
    with `rank`, `size`, exchange(bytes) -> the bytes of all processes, barrier_begin() and barrier_test() -> bool.
    """

    _SLICE = 0.1  # seconds after which a wait lets Python handle signals
    _LEFT = 64  # operations that the program has dropped, before they are looked at for the first time

    def __init__(self, bootstrap=None, **params):
        self._open_with(calls.rwapi_context_create, bootstrap, params)

    def _open_with(self, create, bootstrap, params):
        self._open, self._handle = False, c_void_p()
        self._left, self._look_at, self._lost, self._regions = [], self._LEFT, [], set()
        params.setdefault("threads", THREAD_MULTIPLE)  # other threads of Python run during a call
        unknown = params.keys() - {name for name, _ in Params._fields_[1:]}
        if unknown:
            raise TypeError(f"there is no parameter {', '.join(sorted(unknown))}")
        self._says_again = params.get("full") == FULL_AGAIN
        parameters = Params(size=ctypes.sizeof(Params), **{**params, "full": FULL_AGAIN})
        if bootstrap is not None:
            self._bootstrap = _table(bootstrap)  # the library calls it when the context ends
            parameters.bootstrap = ctypes.pointer(self._bootstrap)
        # The functions of a bootstrap are called in the thread that calls this.
        self._direct = bootstrap is not None or params["threads"] != THREAD_MULTIPLE
        if create is calls.rwapi_init_params:
            check(self._endless(create, byref(parameters)))
        else:
            check(self._endless(create, byref(parameters), byref(self._handle)))
        self._open = True

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        """An exception ends the process, and so the job: the others would wait for this one."""
        if kind is not None and self._open and self.size > 1 and not (kind is SystemExit and not error.code):
            print(f"rwapi: node {self.rank}: an exception ends this process:", file=sys.stderr)
            traceback.print_exception(kind, error, trace)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(error.code if kind is SystemExit and isinstance(error.code, int) else 1)
        self.close()

    def close(self):
        """Ends the context, when all processes do. Raises errors that nobody has asked for."""
        if not self._open:
            return
        self._look_at_left()
        self._open = False
        result = (self._endless(calls.rwapi_context_destroy, self._handle) if self._handle else
                  self._endless(calls.rwapi_finalize))
        self._left.clear()
        self._regions.clear()
        self._raise_lost()
        check(result)

    @property
    def handle(self):
        if not self._open:
            raise Error(ERR_STATE)
        return self._handle

    # ---- What operations that were dropped have used ----

    def _leave(self, number, kept):
        if self._open:
            self._left.append((number, kept))

    def _look_at_left(self):
        still = []
        left, self._left = self._left, []
        try:
            while left:
                number, kept = left[-1]
                complete = c_int()
                result = calls.rwapi_test(self._handle, number, byref(complete)) or complete.value
                if result == 0:
                    still.append((number, kept))
                elif result < 0:
                    self._lost.append(result)
                left.pop()
        finally:  # an exception, of a signal for example, drops no buffer that is in use
            self._left += left + still
            self._look_at = max(self._LEFT, 2 * len(self._left))

    def _raise_lost(self):
        if self._lost:
            error = self._lost[0]
            self._lost.clear()
            raise error_of(error)

    def _begin(self, call, *arguments, kept=None, found=None, flush=False):
        if len(self._left) >= self._look_at:
            self._look_at_left()
        operation = Operation(self, kept, found, flush)
        self._when_room(call, *arguments, byref(operation._id))
        if operation.id == 0:
            operation._kept = None
        return operation

    # ---- Waiting ----

    def _until(self, timeout, call):
        """call(microseconds), again and again, so that signals (Ctrl-C) are handled between. Returns its result."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = self._SLICE if end is None else max(0, min(self._SLICE, end - time.monotonic()))
            result = call(int(left * 1e6))
            if result != ERR_TIMEOUT or (end is not None and time.monotonic() >= end):
                return result

    def _wait(self, timeout, call):
        check(self._until(timeout, call))

    def _endless(self, call, *arguments):
        """call(*arguments), which has no time limit: in another thread, so that signals are handled meanwhile."""
        if self._direct or threading.current_thread() is not threading.main_thread():
            return call(*arguments)
        results = []
        thread = threading.Thread(target=lambda: results.append(call(*arguments)), daemon=True)
        thread.start()
        thread.join()
        return results[0]

    def _when_room(self, call, *arguments, fails=False):
        """call(handle, *arguments), again while a queue is full, so that signals are handled between."""
        result = call(self.handle, *arguments)
        while result == ERR_AGAIN and not fails and not self._says_again:
            self.progress()
            result = call(self.handle, *arguments)
        check(result)

    # ---- Processes and small messages ----

    @property
    def size(self):
        return check(calls.rwapi_context_size(self.handle))

    @property
    def rank(self):
        return check(calls.rwapi_context_rank(self.handle))

    def send(self, node, data):
        """Sends up to 16 bytes, which are filled up with zeros."""
        data = bytes(data)
        if len(data) > 16:
            raise Error(ERR_RANGE)
        # Only this process could receive what it has sent to itself.
        self._when_room(calls.rwapi_context_send, node, data.ljust(16, b"\0"), fails=node == self.rank)

    def receive(self):
        """(node, 16 bytes), or None."""
        node, small = c_int(), ctypes.create_string_buffer(16)
        received = check(calls.rwapi_context_receive(self.handle, byref(node), small))
        return (node.value, small.raw) if received else None

    def share(self, local=None):
        """What each process gives as `local`, an address of its own, in the order of the nodes. Zeros are false."""
        peers = (Net * self.size)()
        check(self._endless(calls.rwapi_share, self.handle, local or Net(), peers))
        return [Net.from_buffer_copy(peer) for peer in peers]

    def barrier(self):
        check(self._endless(calls.rwapi_barrier, self.handle))

    def peer_status(self, node):
        """0: the node works as far as is known; 1: it leaves; ERR_PEER: it is dead."""
        status = calls.rwapi_peer_status(self.handle, node)
        return status if status == ERR_PEER else check(status)

    # ---- Memory ----

    def alloc(self, size):
        return Memory(self, size)

    def register(self, buffer, rights=ALL):
        """Registers the memory of a buffer, which must be writable unless rights are READ."""
        return Region(self, buffer, rights)

    # ---- Write and read ----

    def _transfer(self, call, net, offset, data, *more, writable=False):
        data = Buffer(data, writable)
        return self._begin(call, net, offset, data.address, data.length, *more, kept=data)

    def put(self, net, data, offset=0):
        return self._transfer(calls.rwapi_put, net, offset, data)

    def get(self, net, buffer, offset=0):
        """Reads as many bytes as the writable buffer has."""
        return self._transfer(calls.rwapi_get, net, offset, buffer, writable=True)

    def put_list(self, elements):
        """Writes a sequence of (net, data) or (net, data, offset), all to one node."""
        return self._list(calls.rwapi_put_list, elements)

    def get_list(self, elements):
        """Reads a sequence of (net, buffer) or (net, buffer, offset), all from one node."""
        return self._list(calls.rwapi_get_list, elements, writable=True)

    def _list(self, call, elements, writable=False):
        kept, array = [], (Element * len(elements))()
        for each, (net, data, *offset) in zip(array, elements):
            kept.append(Buffer(data, writable))
            each.net, each.offset, each.local, each.length = net, *(offset or [0]), kept[-1].address, kept[-1].length
        return self._begin(call, array, len(array), kept=kept)

    def put_strided(self, net, data, length, count, stride, local_stride, offset=0):
        """Writes `count` blocks of `length` bytes; the first is at the beginning of data."""
        return self._strided(calls.rwapi_put_strided, net, offset, Buffer(data),
                             Blocks(length, count, stride, local_stride))

    def get_strided(self, net, buffer, length, count, stride, local_stride, offset=0):
        """Reads `count` blocks of `length` bytes; the first comes to the beginning of the buffer."""
        return self._strided(calls.rwapi_get_strided, net, offset, Buffer(buffer, writable=True),
                             Blocks(length, count, stride, local_stride))

    def _strided(self, call, net, offset, data, blocks):
        if blocks.count and (blocks.count - 1) * blocks.local_stride + blocks.length > data.length:
            raise Error(ERR_RANGE)
        return self._begin(call, net, offset, data.address, byref(blocks), kept=data)

    def fetch_add(self, net, value, offset=0):
        found = c_uint64()
        return self._begin(calls.rwapi_fetch_add, net, offset, value, byref(found), kept=found, found=found)

    def compare_swap(self, net, compare, value, offset=0):
        found = c_uint64()
        return self._begin(calls.rwapi_compare_swap, net, offset, compare, value, byref(found), kept=found, found=found)

    # ---- Notification ----

    def put_signal(self, net, data, signal_offset, value, operation=SIGNAL_SET, offset=0):
        return self._transfer(calls.rwapi_put_signal, net, offset, data, signal_offset, value, operation)

    def put_notify(self, net, data, slot, value=1, offset=0):
        return self._transfer(calls.rwapi_put_notify, net, offset, data, slot, value)

    @staticmethod
    def signal_read(buffer, offset=0):
        """The signal word `offset` bytes after the beginning of a buffer of this process."""
        return calls.rwapi_signal_read(Buffer(buffer).word(offset))

    def signal_wait(self, buffer, value, offset=0, timeout=None):
        """Waits until that word is at least value."""
        kept = Buffer(buffer)
        word = kept.word(offset)
        self._wait(timeout, lambda limit: calls.rwapi_signal_wait(self.handle, word, value, limit))

    def notify_test(self, slot):
        """The latest value of a slot, or None."""
        is_set, value = c_int(), c_uint64()
        check(calls.rwapi_notify_test(self.handle, slot, byref(is_set), byref(value)))
        return value.value if is_set.value else None

    def notify_wait(self, slot, timeout=None):
        value = c_uint64()
        self._wait(timeout, lambda limit: calls.rwapi_notify_wait(self.handle, slot, byref(value), limit))
        return value.value

    def notify_waitsome(self, first, n, timeout=None):
        """The number of one of n slots that is set."""
        slot = c_uint32()
        self._wait(timeout, lambda limit: calls.rwapi_notify_waitsome(self.handle, first, n, byref(slot), limit))
        return slot.value

    def notify_reset(self, slot):
        """Empties a slot: the number of notifications since the last time, and the latest value (None: no one)."""
        value = c_uint64()
        count = check(calls.rwapi_notify_reset(self.handle, slot, byref(value)))
        return count, value.value if count else None

    # ---- Completion and progress ----

    def wait_any(self, operations, timeout=None):
        """The position of one of the operations that is complete; raises its error, which has it as `index`."""
        ids = (c_int64 * len(operations))(*(operation.id for operation in operations))
        index = c_size_t()
        result = self._until(
            timeout, lambda limit: calls.rwapi_wait_any(self.handle, ids, len(ids), byref(index), limit))
        if result not in (ERR_TIMEOUT, ERR_STATE, ERR_INVALID):
            try:
                operations[index.value]._end(result or 1)
            except Error as error:
                error.index = index.value
                raise
        check(result)
        return index.value

    def wait_all(self, operations, timeout=None):
        """Waits until all are complete or have failed, and raises the first error."""
        ids = (c_int64 * len(operations))(*(operation.id for operation in operations))
        self._wait(timeout, lambda limit: calls.rwapi_wait_all(self.handle, ids, len(ids), limit))
        for operation in operations:
            operation.test()

    def flush(self, node):
        """An operation that is complete when all earlier ones to the node are, and their data are in its memory."""
        return self._begin(calls.rwapi_flush, node, flush=True)

    def flush_all(self):
        return self._begin(calls.rwapi_flush_all, flush=True)

    def fence(self, node):
        self._when_room(calls.rwapi_fence, node)

    def progress(self):
        return check(calls.rwapi_progress(self.handle))

    def event_fd(self):
        fd = c_int()
        check(calls.rwapi_event_fd(self.handle, byref(fd)))
        return fd.value

    def arm(self):
        """False: events are waiting already."""
        result = calls.rwapi_arm(self.handle)
        return result != ERR_BUSY and check(result) == 0


def init(bootstrap=None, **params):
    """The context of the process, as rwapi_init_params; see Context for the parameters."""
    context = Context.__new__(Context)
    context._open_with(calls.rwapi_init_params, bootstrap, params)
    return context


def _table(bootstrap):
    """The table of functions for an object of the program."""

    def guarded(function):
        def call(*arguments):
            try:
                return function(*arguments)
            except BaseException:  # it cannot go through C
                traceback.print_exc()
                return -1
        return call

    def exchange(_, mine, count, everybody):
        data = bytes(bootstrap.exchange(ctypes.string_at(mine, count)))
        if len(data) != count * bootstrap.size:
            raise ValueError(f"exchange() has returned {len(data)} bytes, not {count * bootstrap.size}")
        ctypes.memmove(everybody, data, len(data))
        return 0

    def barrier_begin(_):
        bootstrap.barrier_begin()
        return 0

    functions = exchange, barrier_begin, lambda _: int(bool(bootstrap.barrier_test()))
    kinds = [kind for _, kind in Bootstrap._fields_[3:]]
    return Bootstrap(None, bootstrap.rank, bootstrap.size, *(kind(guarded(each)) for kind, each in zip(kinds, functions)))
