# SPDX-License-Identifier: BSD-3-Clause
"""The calls of librwapi as in C, its constants, structures and errors, and the memory of buffers."""
import ctypes
import pathlib
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

VERSION_MAJOR, VERSION_MINOR = 0, 3

OK = 0
(ERR_INVALID, ERR_STATE, ERR_RANGE, ERR_STALE, ERR_FOREIGN, ERR_NODE, ERR_RIGHTS, ERR_AGAIN, ERR_TIMEOUT, ERR_PEER,
 ERR_MEMORY, ERR_TRANSPORT, ERR_START, ERR_UNSUPPORTED, ERR_BUSY) = range(-1, -16, -1)
THREAD_SINGLE, THREAD_MULTIPLE = 0, 1
DEATH_GO_ON, DEATH_REPORT = 0, 1
WAIT_POLL, WAIT_SLEEP = 0, 1
FULL_WAIT, FULL_AGAIN = 0, 1
READ, WRITE, SIGNAL, ALL, POLLED = 1, 2, 4, 7, 16
SIGNAL_SET, SIGNAL_ADD = 0, 1
ID_NONE = -1 << 63


class Net(ctypes.Structure):
    """A network address. bytes(net) fits a small message, from which Net.from_bytes() makes it again."""

    _fields_ = [("word", c_uint64 * 2)]

    def __add__(self, count):
        if count < 0:
            raise Error(ERR_RANGE)
        return calls.rwapi_net_add(self, count)

    def __eq__(self, other):
        return isinstance(other, Net) and bytes(self) == bytes(other)

    def __hash__(self):
        return hash(bytes(self))

    def __bool__(self):
        return any(self.word)

    @classmethod
    def from_bytes(cls, data):
        return cls.from_buffer_copy(data)

    @property
    def node(self):
        """The node that has the memory."""
        return calls.rwapi_net_node(self)


class Bootstrap(ctypes.Structure):
    EXCHANGE = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p)
    BARRIER = ctypes.CFUNCTYPE(c_int, c_void_p)
    _fields_ = [("context", c_void_p), ("rank", c_uint32), ("size", c_uint32), ("exchange", EXCHANGE),
                ("barrier_begin", BARRIER), ("barrier_test", BARRIER)]


class Params(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("threads", c_int), ("slots", c_uint32), ("operations", c_uint32),
                ("credit", c_uint32), ("bootstrap", POINTER(Bootstrap)), ("on_peer_death", c_int), ("wait", c_int),
                ("full", c_int)]


class Element(ctypes.Structure):
    _fields_ = [("net", Net), ("offset", c_uint64), ("local", c_void_p), ("length", c_size_t)]


class Blocks(ctypes.Structure):
    _fields_ = [("length", c_size_t), ("count", c_size_t), ("stride", c_uint64), ("local_stride", c_uint64)]


def _load():
    """The library of the same installation, or else the system's."""
    beside = pathlib.Path(__file__).resolve().parent.parent.parent.parent / "librwapi.so.0"
    return ctypes.CDLL(str(beside) if beside.exists() else "librwapi.so.0")


# Each call with its result and arguments. The prefix rwapi_ is left out.
_CONTEXT, _ID, _TIME, _IDS = c_void_p, POINTER(c_int64), c_int64, POINTER(c_int64)
_WORD, _OFFSET, _BYTES = POINTER(c_uint64), c_uint64, c_void_p
SIGNATURES = {
    "strerror": (c_char_p, c_int),
    "init": (c_int, c_void_p, c_void_p),
    "init_params": (c_int, POINTER(Params)),
    "finalize": (c_int,),
    "size": (c_int,),
    "rank": (c_int,),
    "alloc": (c_void_p, c_size_t, POINTER(Net)),
    "free": (c_int, c_void_p),
    "net_add": (Net, Net, c_size_t),
    "net_node": (c_int, Net),
    "send": (c_int, c_int, _BYTES),
    "receive": (c_int, POINTER(c_int), _BYTES),
    "write": (c_int64, c_int, Net, Net, c_size_t),
    "issent": (c_int, c_int64),
    "context_create": (c_int, POINTER(Params), POINTER(_CONTEXT)),
    "context_destroy": (c_int, _CONTEXT),
    "context_size": (c_int, _CONTEXT),
    "context_rank": (c_int, _CONTEXT),
    "context_send": (c_int, _CONTEXT, c_int, _BYTES),
    "context_receive": (c_int, _CONTEXT, POINTER(c_int), _BYTES),
    "context_alloc": (c_void_p, _CONTEXT, c_size_t, POINTER(Net)),
    "share": (c_int, _CONTEXT, Net, POINTER(Net)),
    "barrier": (c_int, _CONTEXT),
    "register": (c_int, _CONTEXT, _BYTES, c_size_t, c_int, POINTER(Net)),
    "deregister": (c_int, _CONTEXT, Net),
    "put": (c_int, _CONTEXT, Net, _OFFSET, _BYTES, c_size_t, _ID),
    "get": (c_int, _CONTEXT, Net, _OFFSET, _BYTES, c_size_t, _ID),
    "put_list": (c_int, _CONTEXT, POINTER(Element), c_size_t, _ID),
    "put_strided": (c_int, _CONTEXT, Net, _OFFSET, _BYTES, POINTER(Blocks), _ID),
    "fetch_add": (c_int, _CONTEXT, Net, _OFFSET, c_uint64, _WORD, _ID),
    "compare_swap": (c_int, _CONTEXT, Net, _OFFSET, c_uint64, c_uint64, _WORD, _ID),
    "put_signal": (c_int, _CONTEXT, Net, _OFFSET, _BYTES, c_size_t, _OFFSET, c_uint64, c_int, _ID),
    "put_notify": (c_int, _CONTEXT, Net, _OFFSET, _BYTES, c_size_t, c_uint32, c_uint64, _ID),
    "signal_read": (c_uint64, c_void_p),
    "signal_wait": (c_int, _CONTEXT, c_void_p, c_uint64, _TIME),
    "notify_test": (c_int, _CONTEXT, c_uint32, POINTER(c_int), _WORD),
    "notify_wait": (c_int, _CONTEXT, c_uint32, _WORD, _TIME),
    "notify_waitsome": (c_int, _CONTEXT, c_uint32, c_uint32, POINTER(c_uint32), _TIME),
    "notify_reset": (c_int, _CONTEXT, c_uint32, _WORD),
    "test": (c_int, _CONTEXT, c_int64, POINTER(c_int)),
    "wait": (c_int, _CONTEXT, c_int64, _TIME),
    "wait_any": (c_int, _CONTEXT, _IDS, c_size_t, POINTER(c_size_t), _TIME),
    "wait_all": (c_int, _CONTEXT, _IDS, c_size_t, _TIME),
    "flush": (c_int, _CONTEXT, c_int, _ID),
    "flush_all": (c_int, _CONTEXT, _ID),
    "fence": (c_int, _CONTEXT, c_int),
    "progress": (c_int, _CONTEXT),
    "event_fd": (c_int, _CONTEXT, POINTER(c_int)),
    "arm": (c_int, _CONTEXT),
    "peer_status": (c_int, _CONTEXT, c_int),
}

# The library, with the calls as in C: calls.rwapi_put(None, net, 0, address, length, None).
calls = _load()
for _name, (_result, *_arguments) in SIGNATURES.items():
    _call = getattr(calls, "rwapi_" + _name)
    _call.restype, _call.argtypes = _result, _arguments


class Error(Exception):
    """A call has failed: `code` is one of ERR_*, the text is the library's."""

    def __init__(self, code):
        super().__init__(calls.rwapi_strerror(code).decode())
        self.code = code


class Timeout(Error, TimeoutError):
    """The time limit has passed."""


def error_of(code):
    return (Timeout if code == ERR_TIMEOUT else Error)(code)


def check(result):
    if result < 0:
        raise error_of(result)
    return result


class _View(ctypes.Structure):
    """Py_buffer of CPython, whose layout is a part of its stable interface."""

    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", c_int), ("ndim", c_int), ("format", c_char_p), ("shape", c_void_p), ("strides", c_void_p),
                ("suboffsets", c_void_p), ("internal", c_void_p)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = (ctypes.py_object, POINTER(_View), c_int)
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = (POINTER(_View),)
_release_buffer.restype = None


class Buffer:
    """The memory of an object, which neither goes nor moves while this exists."""

    def __init__(self, exporter, writable=False):
        self._view = None
        view = _View()
        _get_buffer(exporter, byref(view), int(writable))  # raises BufferError; PyBUF_SIMPLE or PyBUF_WRITABLE
        self._view = view
        self.address, self.length = view.buf, view.len

    def __del__(self, release=_release_buffer, address_of=byref):  # names of the module may be gone
        if self._view is not None:
            release(address_of(self._view))

    def word(self, offset):
        """The address of a word of 64 bits."""
        if offset < 0 or offset + 8 > self.length:
            raise Error(ERR_RANGE)
        return self.address + offset


# What programs use.
__all__ = [name for name in globals() if name[0] != "_" and name.isupper()]
__all__ += ["Error", "Net", "Timeout", "calls"]
