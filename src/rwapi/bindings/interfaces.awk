# SPDX-License-Identifier: BSD-3-Clause
#
# Makes the declarations of a binding: awk -f interfaces.awk rwapi.h rwapi.f90.in, or with _c.py.in. The line
# @constants@ becomes the constants of rwapi.h, @interfaces@ an interface for each call, and @rwapi_net@ the members of
# that structure.
function map(text, to,    pairs, pair, i) {
    split(text, pairs, " ")
    for (i in pairs) {
        split(pairs[i], pair, "=")
        to[pair[1]] = pair[2]
    }
}

BEGIN {
    python = ARGV[2] ~ /\.py\.in$/
    map("int=c_int size_t=c_size_t uint32_t=c_int32_t int64_t=c_int64_t uint64_t=c_int64_t rwapi_id=rwapi_id", kind_of)
    kind_of["unsigned char"] = "c_int8_t"
    map("int=c_int size_t=c_size_t uint32_t=c_uint32 int64_t=c_int64 uint64_t=c_uint64 rwapi_id=c_int64 " \
        "rwapi_net=Net rwapi_params=Params rwapi_element=Element rwapi_blocks=Blocks rwapi_bootstrap=Bootstrap", python_of)
    # Pointers, by the names of arguments: those that may be NULL, to what changes later, and to arrays.
    optional = " argc argv params id value result "
    asynchronous = " word result "
    arrays = " peers elements ids "
    rights = " READ WRITE SIGNAL ALL POLLED " # the call rwapi_write has the name of one, for Fortran
}

function has(list, word) { return index(list, " " word " ") > 0 }

function type_of(base) { return base in kind_of ? "integer(" kind_of[base] ")" : "type(" base ")" }

# "const uint64_t* word" as Fortran declares it.
function declaration(text, call,    is_const, stars, base, name, attributes) {
    is_const = sub(/const /, "", text)
    stars = gsub(/\*/, "", text)
    match(text, /[a-z_0-9]+ *$/)
    name = substr(text, RSTART)
    base = substr(text, 1, RSTART - 1)
    gsub(/ /, "", name)
    gsub(/ /, "", base)
    names = names (names == "" ? "" : ", ") name
    if (base == "void" && call !~ /free$/)
        return "!GCC$ ATTRIBUTES NO_ARG_CHECK :: " name "\n      !DIR$ IGNORE_TKR " name "\n      type(*)" (is_const ? ", intent(in)" : "") \
            ", asynchronous :: " name "(*)"
    if (base == "void" || base == "rwapi_context" && stars == 1) return "type(c_ptr), value :: " name
    if (stars == 0) return type_of(base) ", value :: " name
    attributes = is_const ? ", intent(in)" : base ~ /^rwapi/ && !has(arrays, name) ? ", intent(out)" : ", intent(inout)"
    if (has(asynchronous, name)) attributes = attributes ", asynchronous"
    if (has(optional, name)) attributes = attributes ", optional"
    return (stars > 1 ? "type(c_ptr)" : type_of(base)) attributes " :: " name (has(arrays, name) ? "(*)" : "")
}

# The same for Python, which has numbers as addresses of what it does not declare, and of words.
function python_type(text,    stars, base) {
    sub(/const /, "", text)
    stars = gsub(/\*/, "", text)
    base = text
    gsub(/ .*/, "", base)
    if (base == "char" && stars == 1) return "c_char_p"
    if (base == "rwapi_context" && stars == 2) return "POINTER(c_void_p)"
    if (!(base in python_of) || stars > 0 && text ~ / word$/) return "c_void_p"
    return stars > 0 ? "POINTER(" python_of[base] ")" : python_of[base]
}

# A member of a structure, "uint32_t rank, size" or "int (*test)(void*)", in the language of the binding.
function member(text,    names, type, start, length_of, many, n, i, list, made) {
    if (match(text, /\(\*[a-z_]+\)/)) {
        names = substr(text, RSTART + 2, RLENGTH - 3)
        type = python_type(substr(text, 1, RSTART - 1))
        n = split(substr(text, RSTART + RLENGTH + 1), list, ",")
        for (i = 1; i <= n; ++i) {
            sub(/^ /, "", list[i])
            type = type ", " python_type(list[i])
        }
        if (python) return "(\"" names "\", CFUNCTYPE(" type ")), "
        return "    type(c_funptr) :: " names " = c_null_funptr\n"
    }
    sub(/^const /, "", text)
    match(text, /[ *][a-z_]+(\[[0-9]+\])?(, [a-z_]+)*$/)
    type = substr(text, 1, RSTART)
    n = split(substr(text, RSTART + 1), list, ", ")
    many = type ~ /\*/
    sub(/ $/, "", type)
    for (i = 1; i <= n; ++i) {
        start = index(list[i], "[")
        length_of = start ? substr(list[i], start + 1, length(list[i]) - start - 1) : 0
        names = start ? substr(list[i], 1, start - 1) : list[i]
        if (python)
            made = made "(\"" names "\", " python_type(type) (start ? " * " length_of : "") "), "
        else if (many)
            made = made "    type(c_ptr) :: " names " = c_null_ptr\n"
        else
            made = made "    " type_of(type) " :: " names (start ? "(" length_of ")" : "") (type ~ /^rwapi/ ? "" : " = 0") "\n"
    }
    return made
}

# "RWAPI_ALL = 7" in the language of the binding.
function constant(text,    name) {
    sub(/^RWAPI_/, "", text)
    if (python) return text "\n"
    name = text
    sub(/ .*/, "", name)
    return "  integer(c_int), parameter :: rwapi_" (has(rights, name) ? "right_" : "") tolower(text) "\n"
}

# "RWAPI_EXPORT int rwapi_rank(void)" as an interface.
function interface(text,    result, call, n, i, list, body) {
    sub(/^RWAPI_EXPORT /, "", text)
    match(text, /rwapi_[a-z_]+\(/)
    result = substr(text, 1, RSTART - 1)
    call = substr(text, RSTART, RLENGTH - 1)
    text = substr(text, RSTART + RLENGTH)
    sub(/\).*/, "", text)
    names = ""
    n = text == "void" ? 0 : split(text, list, /, */)
    if (python) {
        sub(/^rwapi_/, "", call)
        body = python_type(result)
        for (i = 1; i <= n; ++i) body = body ", " python_type(list[i])
        return "    \"" call "\": (" body ",),\n"
    }
    if (call == "rwapi_net_add") return "" # rwapi.f90.in has it
    for (i = 1; i <= n; ++i) body = body "      " declaration(list[i], call) "\n"
    gsub(/ /, "", result)
    result = result ~ /\*/ ? "type(c_ptr)" : type_of(result)
    return "    " result " function " call "(" names ") bind(C)\n      import\n" body "    end function\n"
}

FNR == NR && /^typedef struct rwapi_[a-z]+ \{/ { structure = $3; body = ""; next }
FNR == NR && structure != "" && $1 == "}" {
    gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", body)
    gsub(/ +/, " ", body)
    count = split(body, list, "; ?")
    for (i = 1; i < count; ++i) {
        sub(/^ /, "", list[i])
        members[structure] = members[structure] member(list[i])
    }
    structure = ""
    next
}
FNR == NR && structure != "" { body = body " " $0; next }
FNR == NR {
    line = $0
    sub(/^#define RWAPI_VERSION_[A-Z]+/, "& =", line)
    while (match(line, /RWAPI_[A-Z_]+ = -?[0-9]+/)) {
        constants = constants constant(substr(line, RSTART, RLENGTH))
        line = substr(line, RSTART + RLENGTH)
    }
    if (/^RWAPI_EXPORT/) text = ""
    else if (text == "") next
    gsub(/ +/, " ")
    text = text $0
    if (/;/) {
        made = interface(text)
        interfaces = interfaces (interfaces == "" || made == "" || python ? "" : "\n") made
        text = ""
    }
    next
}
$0 == "@constants@" { printf "%s", constants; next }
/^@rwapi_[a-z]+@$/ {
    gsub(/@/, "")
    printf "%s", python ? "    _fields_ = [" members[$0] "]\n" : members[$0]
    next
}
$0 == "@interfaces@" { printf "%s", interfaces; next }
{ print }
