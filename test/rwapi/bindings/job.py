# SPDX-License-Identifier: BSD-3-Clause
"""A job of three processes with the Python module: each call once, in the right way and in the wrong one."""
import array
import contextlib
import gc
import os
import select
import signal
import sys

import rwapi

try:
    import numpy
except ImportError:
    numpy = None

LIMIT = 20
SIZE, WORD, SUM, NUMBERS, GREETING = 8192, 0, 8, 1024, 4096


@contextlib.contextmanager
def raises(code, kind=rwapi.Error):
    """The block raises this error, with the library's text."""
    try:
        yield
    except kind as error:
        assert error.code == code, error
        assert str(error) == rwapi.calls.rwapi_strerror(code).decode()
    else:
        raise AssertionError(f"no error {code}")


@contextlib.contextmanager
def refused(*kinds):
    """Python refuses the block, before the library is called."""
    try:
        yield
    except kinds:
        return
    raise AssertionError(f"nothing of {kinds}")


def notify(context, nets, memory, following, before):
    said = f"node {context.rank} says hello".encode()
    put = context.put_notify(nets[following], said, slot=5, value=40 + context.rank, offset=GREETING)
    assert context.notify_waitsome(0, 10, LIMIT) == 5
    assert context.notify_wait(5, LIMIT) == 40 + before
    assert context.notify_test(5) == 40 + before
    assert context.notify_test(6) is None
    expected = f"node {before} says hello".encode()
    assert memory.view[GREETING:GREETING + len(expected)] == expected
    assert context.notify_reset(5) == (1, 40 + before)
    assert context.notify_reset(5) == (0, None)
    assert context.wait_any([put], LIMIT) == 0
    assert put.test()
    context.wait_all([put], LIMIT)


def signals(context, nets, memory, following):
    for _ in range(2):
        context.put_signal(nets[following], b"", WORD, 4, rwapi.SIGNAL_ADD)
    context.signal_wait(memory.view, 8, WORD, LIMIT)
    assert context.signal_read(memory.view, WORD) == 8


def put(context, nets, memory, following, before):
    context.barrier()
    numbers = array.array("I", range(1000 * context.rank, 1000 * context.rank + 256))
    for half in range(2):
        part = memoryview(numbers)[128 * half:128 * half + 128]
        context.put(nets[following] + NUMBERS, part, 512 * half)
    context.flush(following).wait(LIMIT)
    context.barrier()
    assert memory.view[NUMBERS:NUMBERS + 1024].cast("I")[200] == 1000 * before + 200


def read(context, nets, memory, following):
    numbers = array.array("I", bytes(1024))
    context.get(nets[following], numbers, NUMBERS).wait(LIMIT)
    assert numbers[3] == 1000 * context.rank + 3


def lists(context, nets, memory, following, before):
    """Two columns of a matrix of 8 by 8, then two elements, one by one."""
    def matrix(node):
        return array.array("I", range(5000 * (node + 1), 5000 * (node + 1) + 64))

    mine, theirs = matrix(context.rank), matrix(before)
    context.barrier()
    context.put_strided(nets[following], mine, 8, 8, 32, 32, NUMBERS)
    context.put_notify(nets[following], b"", slot=8)
    context.notify_wait(8, LIMIT)
    there = memory.view[NUMBERS:NUMBERS + 1024].cast("I")
    assert there[57] == theirs[57] and there[58] != theirs[58]
    elements = [(nets[following], memoryview(mine)[1:2], NUMBERS + 400),
                (nets[following] + NUMBERS, memoryview(mine)[2:3], 800)]
    context.put_list(elements)
    context.put_notify(nets[following], b"", slot=9)
    context.notify_wait(9, LIMIT)
    assert there[100] == theirs[1] and there[200] == theirs[2]
    context.wait_all([context.put_list(elements),
                      context.put_strided(nets[following], mine, 8, 8, 32, 32, NUMBERS)], LIMIT)
    for call in context.put_strided, context.get_strided:
        with raises(rwapi.ERR_RANGE):
            call(nets[following], mine, 8, 9, 32, 32)
        with raises(rwapi.ERR_RANGE):
            call(nets[following], mine, 8, 2, 32, -1)
    context.flush(following).wait(LIMIT)
    words, column = array.array("I", [0, 0]), array.array("I", bytes(256))
    parts = [memoryview(words)[i:i + 1] for i in range(2)]
    context.get_list([(net, part, offset) for (net, _, offset), part in zip(elements, parts)]).wait(LIMIT)
    assert words.tolist() == mine.tolist()[1:3]
    context.get_strided(nets[following], column, 8, 8, 32, 8, NUMBERS).wait(LIMIT)
    assert column[14:17].tolist() == [mine[56], mine[57], 0]
    with refused(BufferError):
        context.get_list([(nets[following], b"read-only")])
    context.flush(following).wait(LIMIT)
    context.barrier()
    for slot in (8, 9):
        context.notify_reset(slot)


def atomics(context, nets):
    assert context.fetch_add(nets[0], context.rank + 1, SUM).wait(LIMIT).result < 6
    context.barrier()
    total = context.size * (context.size + 1) // 2
    assert context.compare_swap(nets[0], total, total, SUM).wait(LIMIT).result == total


def from_next(context, net, before):
    """The address that the next process sends to this one, while it gets `net`: without its key."""
    context.send(before, net)
    while (message := context.receive()) is None:
        continue
    node, small = message
    assert node == (context.rank + 1) % context.size
    return rwapi.Net.from_bytes(small)


def messages(context, nets, following, before):
    net = from_next(context, nets[context.rank], before)
    assert net == nets[following] and net.node == following and len({nets[following], net}) == 1


def registrations(context, following, before):
    numbers = bytearray(64)
    with context.register(numbers, rwapi.WRITE) as region:
        with refused(BufferError):
            numbers.append(1)
        nets = context.share(region.net)
        context.put_notify(nets[following], bytes([context.rank]), slot=1, offset=8)
        context.notify_wait(1, LIMIT)
        context.notify_reset(1)
        assert numbers[8] == before
        context.flush_all().wait(LIMIT)
        context.barrier()
    numbers.append(1)


def events(context, nets, following):
    poll = select.poll()
    poll.register(context.event_fd(), select.POLLIN)
    if context.rank == 0:
        context.put_notify(nets[following], b"", slot=7)
    if context.rank == 1:
        while context.notify_test(7) is None:
            if context.arm():
                poll.poll(1000)
            while context.progress():
                continue
    context.fence(following)
    assert context.peer_status(following) == 0


def dropped(context, nets, memory, following, before):
    """Nobody keeps these operations or their data; both live until the writes are complete."""
    for number in range(3000):
        context.put(nets[following], number.to_bytes(8, "little") * 64, NUMBERS)
    context.flush(following).wait(LIMIT)
    assert len(context._left) <= max(context._LEFT, context._look_at)
    context.barrier()
    assert memory.view[NUMBERS:NUMBERS + 512].cast("Q").tolist() == [2999] * 64
    # The error of a dropped operation is that of the next flush. Its kind is known only when the key has come.
    with context.alloc(64) as small:
        other = from_next(context, small.net, before)
        context.put(other, b"12345678" * 16)
        with raises(rwapi.ERR_RANGE):
            context.flush(following).wait(LIMIT)
        context.flush(following).wait(LIMIT)
        context.barrier()


def arrays(context, nets, memory, following, before):
    if numpy is None:
        return
    mine = numpy.full((8, 8), context.rank + 0.5)
    context.put_notify(nets[following], mine, slot=2, offset=NUMBERS)
    context.notify_wait(2, LIMIT)
    context.notify_reset(2)
    there = numpy.frombuffer(memory.view, dtype=float, count=64, offset=NUMBERS)
    assert (there == before + 0.5).all()
    with refused(BufferError, ValueError):
        context.put(nets[following], mine[:, 0])  # a column is not contiguous
    mine.flags.writeable = False
    context.put(nets[following], mine, NUMBERS).wait(LIMIT)
    with refused(BufferError, ValueError):
        context.get(nets[following], mine, NUMBERS)


def outlive(context):
    """Slices of memory outlive it, and its context."""
    with context.alloc(64) as memory:
        part = memory.view[8:16]
    part[0] = 1
    left = context.alloc(64)
    with refused(ZeroDivisionError), context.alloc(64):
        1 // 0
    return left.view


def interrupted(context, nets, following):
    """Ctrl-C while the operations that were dropped are looked at: none of their buffers is dropped."""
    for number in range(40):
        context.get(nets[following], bytearray(4096))
    test = rwapi.calls.rwapi_test
    try:
        def once(*arguments):
            rwapi.calls.rwapi_test = test
            raise KeyboardInterrupt
        before = len(context._left)
        rwapi.calls.rwapi_test = once
        with refused(KeyboardInterrupt):
            context._look_at_left()
        assert len(context._left) == before > 0
    finally:
        rwapi.calls.rwapi_test = test
    # A barrier for which the next process lets this one wait.
    if context.rank == 0:
        with refused(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            context.barrier()
        context.put_notify(nets[following], b"", slot=11)
        while True:  # until the first one is over
            try:
                context.barrier()
                break
            except rwapi.Error as error:
                assert error.code == rwapi.ERR_BUSY
    else:
        if context.rank == 1:
            context.notify_wait(11, LIMIT)
            context.notify_reset(11)
        context.barrier()
        context.barrier()


def mistakes(context, nets, memory, following):
    with raises(rwapi.ERR_TIMEOUT, TimeoutError):
        context.notify_wait(6, timeout=0.001)
    with refused(KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        context.notify_wait(6)  # without a limit
    with raises(rwapi.ERR_RANGE):
        context.notify_test(1 << 30)
    with raises(rwapi.ERR_RANGE):
        context.put(nets[following], b"x", offset=SIZE)
    with raises(rwapi.ERR_FOREIGN):
        context.put(rwapi.Net(), b"x")
    with raises(rwapi.ERR_NODE):
        context.send(context.size, b"")
    with raises(rwapi.ERR_RANGE):
        context.send(following, bytes(17))
    with raises(rwapi.ERR_RANGE):
        context.signal_read(memory.view, SIZE)
    with raises(rwapi.ERR_INVALID):
        context.signal_wait(memory.view, 1, offset=4, timeout=0)
    with raises(rwapi.ERR_STATE):
        rwapi.init()
    with refused(BufferError):
        context.get(nets[following], b"read-only")
    with refused(TypeError):
        context.put(nets[following], "no bytes")
    with refused(TypeError):
        rwapi.Context(no_such_parameter=1)
    # Credit comes back only when the other side receives.
    with rwapi.Context(full=rwapi.FULL_AGAIN) as other:
        with raises(rwapi.ERR_AGAIN):
            for _ in range(65):
                other.send(following, b"fill")
        other.barrier()
    # What a process sends to itself, nobody else receives.
    with raises(rwapi.ERR_AGAIN):
        for _ in range(65):
            context.send(context.rank, b"fill")
    while context.receive() is not None:
        continue


def run(context):
    following, before = (context.rank + 1) % context.size, (context.rank - 1) % context.size
    with context.alloc(SIZE) as memory:
        assert len(memory.view) == SIZE and not any(memory.view)
        nets = context.share(memory.net)
        notify(context, nets, memory, following, before)
        signals(context, nets, memory, following)
        put(context, nets, memory, following, before)
        read(context, nets, memory, following)
        lists(context, nets, memory, following, before)
        atomics(context, nets)
        messages(context, nets, following, before)
        registrations(context, following, before)
        events(context, nets, following)
        dropped(context, nets, memory, following, before)
        arrays(context, nets, memory, following, before)
        interrupted(context, nets, following)
        mistakes(context, nets, memory, following)
        context.barrier()
        left = outlive(context)
    with refused(ValueError):
        memory.view[0]
    return left


class Alone:
    """A start-up of a process by itself."""
    rank, size = 0, 1

    def __init__(self):
        self.begun = 0

    def exchange(self, mine):
        return mine

    def barrier_begin(self):
        self.begun += 1

    def barrier_test(self):
        return self.begun > 0


class Short(Alone):
    def exchange(self, mine):
        return mine[:-1]


def started():
    alone = Alone()
    with rwapi.Context(bootstrap=alone) as context:
        assert context.size == 1 and context.share() == [rwapi.Net()]
    assert alone.begun == 1
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):  # the traceback
        with raises(rwapi.ERR_START):
            rwapi.Context(bootstrap=Short())


def main():
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    assert rwapi.calls.rwapi_size() == rwapi.ERR_STATE
    with rwapi.init(slots=64) as context:
        rank = context.rank
        run(context)
        started()
        with rwapi.Context(threads=rwapi.THREAD_MULTIPLE, wait=rwapi.WAIT_SLEEP) as another:
            left = run(another)
        left[0] = 1
        with raises(rwapi.ERR_STATE):
            another.barrier()
    gc.collect()
    print(f"node {rank}: right{' with numpy' if numpy else ''}")


if __name__ == "__main__":
    sys.exit(main())
