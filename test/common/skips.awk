# SPDX-License-Identifier: BSD-3-Clause
#
# awk -f skips.awk -v where=WORD[,WORD...] -v script=NAME skips.txt LOG: tests of a log that are skipped and should not
# be, a line for each reason. skips.txt says what its columns are.

# A shell's pattern as a regular expression.
function expression(pattern) {
    gsub(/[][\\^$.|?+(){}]/, "\\\\&", pattern)
    gsub(/\*/, ".*", pattern)
    return "^" pattern "$"
}

# Whether one of the words of a row, with commas between them, is true here.
function holds(words, word, n) {
    for (n = split(words, word, ","); n > 0; --n)
        if (index(",any," where ",", "," word[n] ",")) return 1
    return 0
}

FNR == NR {
    if (/^#/ || NF == 0 || script !~ expression($1) || !holds($2)) next
    row[++rows] = $0
    most[rows] = $3
    sub(/^[^ ]+ +[^ ]+ +[^ ]+ +/, "", row[rows])
    next
}

/^(ok [0-9]+ .*|1\.\.0 .*)# SKIP/ {
    sub(/^.*# SKIP */, "")
    ++count[$0]
}

END {
    for (reason in count) {
        for (i = 1; i <= rows && reason !~ expression(row[i]); ++i) continue
        if (i > rows) print script ": " count[reason] " skipped (" reason "), of which skips.txt knows nothing"
        else total[i] += count[reason]
    }
    for (i in total)
        if (most[i] != "-" && total[i] > most[i])
            print script ": " total[i] " skipped (" row[i] "), where skips.txt has " most[i]
}
