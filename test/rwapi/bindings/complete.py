#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares a binding of rwapi with rwapi.h: complete.py cpp|fortran|python SOURCES MODULE.

Prints what is missing. SOURCES is src/rwapi, and MODULE the Fortran module. The module of Python must be in PYTHONPATH, and the library where the dynamic linker finds it.

cpp      each call that takes a context, and each that needs none, is called
fortran  each call has an interface with the result and the arguments of rwapi.h; the constants and structures are there
python   each call has the result and the arguments of rwapi.h; the constants and structures are there
"""
import ctypes
import pathlib
import re
import sys

binding, root = sys.argv[1], pathlib.Path(sys.argv[2])
problems = []
header = re.sub(r"/\*.*?\*/", "", (root / "include" / "rwapi.h").read_text(), flags=re.S)


def squeeze(text):
    return re.sub(r"\s+", " ", text).strip()


def argument(text):
    """Type and name: "const void* local" is ("void*", "local")."""
    text = squeeze(text).replace("const ", "")
    kind, name = re.match(r"(.*?[ *])(\w+)$", text).groups()
    return kind.replace(" ", ""), name


calls = {}  # name: (type of the result, [(type, name)...])
for result, name, arguments in re.findall(r"RWAPI_EXPORT\s+([\w\s*]+?[\s*])(rwapi_\w+)\(([^)]*)\);", header):
    calls[name] = (squeeze(result).replace("const ", "").replace(" ", ""),
                   [argument(each) for each in arguments.split(",") if each.strip() not in ("", "void")])
constants = {name: int(value) for name, value in re.findall(r"\bRWAPI_(\w+) = (-?\d+)", header)}
constants |= {name: int(value) for name, value in re.findall(r"#define RWAPI_(VERSION_\w+) (\d+)", header)}
structures = {}  # name: names of the members
for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", header, flags=re.S):
    members = []
    for member in body.split(";"):
        pointer = re.search(r"\(\*(\w+)\)", member)
        names = [pointer[1]] if pointer else re.findall(r"(\w+)(?:\[\d+\])?\s*(?:,|$)", squeeze(member))
        members += names
    structures[name] = members

if len(calls) < 42 or len(constants) < 20 or len(structures) < 4:
    problems.append("rwapi.h is not understood")


def compare(what, have, wanted):
    if have != wanted:
        problems.append(f"{what}: {have}, but rwapi.h has {wanted}")


def cpp():
    said = set(re.findall(r"::(rwapi_\w+)", (root / "include" / "rwapi.hpp").read_text()))
    # Calls of the paper are those of the context of the process.
    same = {"rwapi_init": "rwapi_init_params", "rwapi_issent": "rwapi_test", "rwapi_write": "rwapi_put", "rwapi_free": "rwapi_deregister"}
    for name in calls:
        context = name.replace("rwapi_", "rwapi_context_")
        if not said & {name, same.get(name, name), context}:
            problems.append(f"rwapi.hpp does not call {name}")


FORTRAN = {"int": "integer(c_int)", "size_t": "integer(c_size_t)", "uint64_t": "integer(c_int64_t)",
           "int64_t": "integer(c_int64_t)", "uint32_t": "integer(c_int32_t)", "rwapi_id": "integer(rwapi_id)",
           "void*": "type(*)", "rwapi_context*": "type(c_ptr)",
           "char*": "type(c_ptr)"}


def fortran_type(kind):
    """The type and whether it has the attribute VALUE."""
    if kind in ("rwapi_context*", "char*"):
        return "type(c_ptr)", True
    if kind in ("void*", "rwapi_context**"):
        return FORTRAN[kind[:-1] if kind.endswith("**") else kind], False
    base = kind.rstrip("*")
    return FORTRAN.get(base, f"type({base})"), not kind.endswith("*")


def fortran():
    text = re.sub(r"!.*", "", re.sub(r"&\s*\n\s*", "", pathlib.Path(sys.argv[3]).read_text()))
    found = {}
    for result, name, names, body in re.findall(
            r"(\S+) function (rwapi_\w+)\(([^)]*)\)\s*(?:bind\(C\))?(.*?)end function", text, flags=re.S):
        declared = {}
        for attributes, listed in re.findall(r"^\s*(\S.*?) :: (.*)$", body, flags=re.M):
            for each in listed.split(","):
                kind, _, rest = attributes.partition(",")
                declared[each.strip().removesuffix("(*)")] = kind, "value" in rest.replace(" ", "").split(",")
        found[name] = result, [each.strip() for each in names.split(",") if each.strip()], declared
    for name in calls:
        if name not in found:
            problems.append(f"rwapi.f90 has no interface of {name}")
            continue
        wanted_result, wanted = calls[name]
        result, names, declared = found[name]
        compare(f"rwapi.f90, result of {name}", result,
                "type(c_ptr)" if wanted_result == "void*" else fortran_type(wanted_result)[0])
        compare(f"rwapi.f90, arguments of {name}", names, [each for _, each in wanted])
        for kind, each in wanted:
            if kind == "char***":
                continue
            allowed = [fortran_type(kind)] + ([("type(c_ptr)", True)] if kind == "void*" else [])
            if declared.get(each) not in allowed:
                problems.append(f"rwapi.f90, {each} of {name}: {declared.get(each)}, not {allowed}")
    values = {name: int(value) for name, value in re.findall(r"\b(rwapi_\w+) = (-?\d+)", text)}
    rights = {"READ", "WRITE", "SIGNAL", "ALL", "POLLED"}
    for name, value in constants.items():
        mine = "rwapi_" + ("right_" if name in rights else "") + name.lower()
        compare(f"rwapi.f90, {mine}", values.get(mine), value)
    for name, wanted in structures.items():
        body = re.search(rf"type, bind\(C\) :: {name}\n(.*?)end type", text, flags=re.S)
        names = [] if body is None else [
            re.match(r"\w+", each.strip())[0] for line in re.findall(r":: (.*)", body[1])
            for each in re.sub(r"\([^)]*\)", "", line).split(",")]
        compare(f"rwapi.f90, {name}", names, wanted)


def python():
    import rwapi
    from rwapi import _c
    plain = {"int": ctypes.c_int, "size_t": ctypes.c_size_t, "uint64_t": ctypes.c_uint64, "int64_t": ctypes.c_int64,
             "uint32_t": ctypes.c_uint32, "rwapi_id": ctypes.c_int64,
             "char*": ctypes.c_char_p, "void*": ctypes.c_void_p, "rwapi_context*": ctypes.c_void_p}
    for name, members in structures.items():
        structure = getattr(_c, name.removeprefix("rwapi_").capitalize(), None)
        if name != "rwapi_small":  # bytes
            compare(f"rwapi/_c.py, {name}", structure and [field for field, _ in structure._fields_], members)
            plain[name] = structure

    def allowed(kind):
        if kind in plain:
            return {plain[kind]}
        base = plain.get(kind.removesuffix("*"))
        return {ctypes.c_void_p} | ({ctypes.POINTER(base)} if base else set())

    for name in calls:
        short = name.removeprefix("rwapi_")
        if short not in _c.SIGNATURES:
            problems.append(f"rwapi/_c.py has no {name}")
            continue
        result, *arguments = _c.SIGNATURES[short]
        wanted_result, wanted = calls[name]
        if result not in allowed(wanted_result) or len(arguments) != len(wanted) or not all(
                each in allowed(kind) for each, (kind, _) in zip(arguments, wanted)):
            problems.append(f"rwapi/_c.py, {name}: {result} {arguments}, but rwapi.h has {wanted_result} {wanted}")
    # Each call is used by a class, or is the paper's form of one that is.
    used = set(re.findall(r"calls\.(rwapi_\w+)", "".join(
        (root / "bindings" / "rwapi" / file).read_text() for file in ("__init__.py", "_c.py.in"))))
    same = {"rwapi_init": "rwapi_init_params", "rwapi_issent": "rwapi_test", "rwapi_write": "rwapi_put", "rwapi_alloc": "rwapi_register",
            "rwapi_context_alloc": "rwapi_register", "rwapi_free": "rwapi_deregister"}
    for name in calls:
        if not used & {name, same.get(name, name), name.replace("rwapi_", "rwapi_context_")}:
            problems.append(f"rwapi/__init__.py does not call {name}")
    for name, value in constants.items():
        compare(f"rwapi.{name}", getattr(rwapi, name, None), value)


{"cpp": cpp, "fortran": fortran, "python": python}[binding]()
print("\n".join(problems))
sys.exit(bool(problems))
