# SPDX-License-Identifier: BSD-3-Clause
#
# Makes the Fortran module: awk -f interfaces.awk rwapi.h rwapi.f90.in. The line @interfaces@ becomes an interface for
# each call of rwapi.h.
BEGIN {
    split("int=c_int size_t=c_size_t uint32_t=c_int32_t int64_t=c_int64_t uint64_t=c_int64_t rwapi_id=rwapi_id", pairs, " ")
    for (i in pairs) {
        split(pairs[i], pair, "=")
        kind_of[pair[1]] = pair[2]
    }
    # Pointers, by the names of arguments: those that may be NULL, to what changes later, and to arrays.
    optional = " argc argv params id value result "
    asynchronous = " word result "
    arrays = " peers elements ids "
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
    for (i = 1; i <= n; ++i) body = body "      " declaration(list[i], call) "\n"
    gsub(/ /, "", result)
    result = result ~ /\*/ ? "type(c_ptr)" : type_of(result)
    return "    " result " function " call "(" names ") bind(C)\n      import\n" body "    end function\n"
}

FNR == NR {
    if (/^RWAPI_EXPORT/) text = ""
    else if (text == "") next
    gsub(/ +/, " ")
    text = text $0
    if (/;/) {
        interfaces = interfaces (interfaces == "" ? "" : "\n") interface(text)
        text = ""
    }
    next
}
$0 == "@interfaces@" { printf "%s", interfaces; next }
{ print }
